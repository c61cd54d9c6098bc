"""LPIPS: the distance between the features of two pictures, weighted by learned linear heads (v0.1).

The features are those of VGG16 or AlexNet. The weights are not ours. The trunk of VGG16 is `timm/vgg16.tv_in1k` from
the Hub; its heads (1,472 numbers) come with the `lpips` package. A file may hold trunk and heads of either.
Weights that cannot be loaded are a ModelError that says how to get them, never random weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from .. import units
from ..errors import InputError, ModelError
from ..priors import Download, sha256_of
from ..priors.hub import Hub
from ..priors.registry import Source

Feed: TypeAlias = Literal["standard", "paper"]
Net: TypeAlias = Literal["vgg", "alex"]

TRUNK = Source(
    "the VGG16 trunk of LPIPS",
    repo="timm/vgg16.tv_in1k",
    file="model.safetensors",
    revision="3394518cba29aee1ea82a49d971be90d2dd1dab7",
    sha256="57b026918159a6bf9faf8405c3a551903768e7138989d9c6224a14227203fad8",
    licence="BSD-3-Clause",
)
HEADS_VERSION = "v0.1"
LPIPS_MIN_SIDE: Mapping[str, int] = {"vgg": 16, "alex": 31}
"""The smallest side that the poolings of a trunk leave something of."""


@dataclass(frozen=True)
class Conv:
    """A convolution of a trunk: N in `features.N`, channels out, side of its kernel, stride, padding.

    pool: the side of the max-pooling before it, with stride 2; 0 for none.
    """

    number: int
    width: int
    side: int = 3
    stride: int = 1
    padding: int = 1
    pool: int = 0


SHAPES: Mapping[str, tuple[tuple[Conv, ...], ...]] = {
    "vgg": (
        (Conv(0, 64), Conv(2, 64)),
        (Conv(5, 128, pool=2), Conv(7, 128)),
        (Conv(10, 256, pool=2), Conv(12, 256), Conv(14, 256)),
        (Conv(17, 512, pool=2), Conv(19, 512), Conv(21, 512)),
        (Conv(24, 512, pool=2), Conv(26, 512), Conv(28, 512)),
    ),
    "alex": (
        (Conv(0, 64, side=11, stride=4, padding=2),),
        (Conv(3, 192, side=5, padding=2, pool=3),),
        (Conv(6, 384, pool=3),),
        (Conv(8, 256),),
        (Conv(10, 256),),
    ),
}
"""The stages of each trunk; the last activation of a stage counts."""

_HEAD = "lin{}.model.1.weight"
_SHIFT = (-0.030, -0.088, -0.188)  # mean and std of ImageNet, for inputs in [-1, 1]
_SCALE = (0.458, 0.448, 0.450)
_EPSILON = 1e-10
_WITHOUT = "check the network, HF_ENDPOINT and HF_HUB_OFFLINE, or leave LPIPS out: --lpips none"


@dataclass(frozen=True)
class LpipsNetwork:
    """The weights of LPIPS, with checked shapes. `load_lpips` and `from_states` make one.

    trunk: for each stage, the (weight, bias) of its convolutions. heads: for each stage, (1, width, 1, 1). net: which
    trunk it is.
    """

    trunk: tuple[tuple[tuple[Tensor, Tensor], ...], ...]
    heads: tuple[Tensor, ...]
    net: Net = "vgg"

    @classmethod
    def from_states(
        cls, trunk: Mapping[str, Tensor], heads: Mapping[str, Tensor], net: Net = "vgg"
    ) -> LpipsNetwork:
        """Take `features.N.weight`, `features.N.bias` from trunk and `linK.model.1.weight` from heads."""
        stages, channels = [], 3
        for convolutions in SHAPES[net]:
            stage = []
            for one in convolutions:
                shape = (one.width, channels, one.side, one.side)
                weight = _entry(trunk, f"features.{one.number}.weight", shape)
                stage.append((weight, _entry(trunk, f"features.{one.number}.bias", (one.width,))))
                channels = one.width
            stages.append(tuple(stage))
        widths = [convolutions[-1].width for convolutions in SHAPES[net]]
        linear = [_entry(heads, _HEAD.format(k), (1, width, 1, 1)) for k, width in enumerate(widths)]
        return cls(tuple(stages), tuple(linear), net)

    def features(self, x: Tensor) -> Iterator[Tensor]:
        """Yield the last activation of each stage. x: (B, 3, H, W), already shifted and scaled."""
        for stage, shapes in zip(self.trunk, SHAPES[self.net], strict=True):
            for (weight, bias), one in zip(stage, shapes, strict=True):
                if one.pool:
                    x = functional.max_pool2d(x, one.pool, stride=2)
                x = functional.relu(functional.conv2d(x, weight, bias, one.stride, one.padding))
            yield x  # (B, width, h, w)

    @torch.no_grad()
    def distance(self, a: Tensor, b: Tensor) -> Tensor:
        """Sum over stages of mean over positions of head . (unit(a) - unit(b))^2. (B, 3, H, W) -> (B,)."""
        shift = torch.tensor(_SHIFT, dtype=a.dtype, device=a.device).view(1, 3, 1, 1)
        scale = torch.tensor(_SCALE, dtype=a.dtype, device=a.device).view(1, 3, 1, 1)
        total = a.new_zeros(len(a))
        pairs = zip(self.features((a - shift) / scale), self.features((b - shift) / scale), strict=True)
        for (fa, fb), head in zip(pairs, self.heads, strict=True):
            difference = (_unit(fa) - _unit(fb)).square()
            total = total + functional.conv2d(difference, head).mean(dim=(1, 2, 3))
        return total


def lpips(
    a: NDArray[Any] | Tensor, b: NDArray[Any] | Tensor, network: LpipsNetwork, *, feed: Feed = "standard"
) -> float:
    """LPIPS of two pictures, (H, W, C) or (H, W) in [0, 1]; a grey picture is repeated in three channels.

    feed: "standard" maps the input to [-1, 1], for which the weights were trained. "paper" leaves it in [0, 1], as
    the paper's code does. Numbers from the two must not be compared.
    """
    left, right = _network_input(a, feed), _network_input(b, feed)
    if left.shape != right.shape:
        raise InputError(f"the pictures differ in size: {tuple(left.shape[2:])} and {tuple(right.shape[2:])}")
    least = LPIPS_MIN_SIDE[network.net]
    if min(left.shape[2:]) < least:
        raise InputError(f"LPIPS needs at least {least}x{least} pixels")
    return float(network.distance(left, right))


def load_lpips(
    *,
    net: Net = "vgg",
    trunk_file: Path | None = None,
    heads_file: Path | None = None,
    download: bool = True,
    announce: Callable[[Download], None] | None = None,
    bars: bool = False,
) -> LpipsNetwork:
    """Load the trunk from the Hub and the heads from the `lpips` package.

    trunk_file, heads_file: local files to use instead; the hash of a local trunk is not checked. A trunk_file that
    has heads too needs no other file. net: AlexNet is not on the Hub, so it needs its file.
    download: False uses the Hub's cache only. announce: called before a download. bars: show its progress.
    """
    if trunk_file is None and net == "alex":
        raise ModelError(
            "the AlexNet trunk of LPIPS is not on the Hub",
            hint="--lpips-trunk lpips-alex.safetensors, made by benchmarks/lpips_weights.py",
        )
    if trunk_file is None:
        heads = read_heads(heads_file or installed_heads(net))  # before a download
        trunk = read_trunk(hub_trunk(download=download, announce=announce, bars=bars))
    else:
        trunk = read_trunk(trunk_file)
        whole = _HEAD.format(0) in trunk and heads_file is None
        heads = trunk if whole else read_heads(heads_file or installed_heads(net))
    return LpipsNetwork.from_states(trunk, heads, net)


def hub_trunk(
    *, download: bool = True, announce: Callable[[Download], None] | None = None, bars: bool = False
) -> Path:
    """Return the path of the pinned VGG16 trunk in the Hub's cache; download it first if that is allowed."""
    hub = Hub(TRUNK, announce=announce, bars=bars)
    file = str(TRUNK.file)
    if not download and hub.cached(file) is None:
        raise ModelError(
            "the VGG16 trunk of LPIPS is not downloaded yet (553 MB)",
            hint="diffbcp eval ... --lpips vgg fetches it once",
        )
    try:
        path = hub.get(file, weights=True)
    except ModelError as error:
        raise ModelError(f"LPIPS cannot be computed: {error.message}", hint=_WITHOUT) from error
    if path is None:
        reason = hub.out_of_reach.message if hub.out_of_reach else f"{TRUNK.repo} has no {file}"
        raise ModelError(f"LPIPS cannot be computed: {reason}", hint=_WITHOUT)
    found = sha256_of(path)
    if found != TRUNK.sha256:
        raise ModelError(
            f"{path} is not the expected trunk: sha256 {found[:12]}..., not {str(TRUNK.sha256)[:12]}...",
            hint="delete it and download it again",
        )
    return path


def installed_heads(net: Net = "vgg") -> Path:
    """Return the path of the linear heads in the installed `lpips` package, without importing it."""
    spec = find_spec("lpips")
    folders = list(spec.submodule_search_locations or []) if spec else []
    for folder in folders:
        path = Path(folder) / "weights" / HEADS_VERSION / f"{net}.pth"
        if path.is_file():
            return path
    raise ModelError(
        "LPIPS needs the linear heads of the lpips package, which is not installed",
        hint="pip install 'diffbcp[lpips]', or just the weights: pip install --no-deps lpips",
    )


def read_trunk(path: Path) -> dict[str, Tensor]:
    """Read the `features.*` tensors of a safetensors file, without the classifier, and the heads if it has them."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            return {key: file.get_tensor(key) for key in file.keys() if key.startswith(("features.", "lin"))}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ModelError(f"{path} is not a readable safetensors file: {_first_line(error)}") from error


def read_heads(path: Path) -> dict[str, Tensor]:
    """Read the linear heads, a plain state dict of tensors."""
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch.load raises many kinds of errors
        raise ModelError(f"{path} is not a readable state dict: {_first_line(error)}") from error
    if not isinstance(state, dict):
        raise ModelError(f"{path} does not hold a state dict")
    return state


def _network_input(x: NDArray[Any] | Tensor, feed: Feed) -> Tensor:
    """(H, W, C) in [0, 1] -> (1, 3, H, W) in the range that feed asks for."""
    picture = x.detach().cpu() if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x))
    picture = picture.to(torch.float32)
    picture = picture[:, :, None] if picture.ndim == 2 else picture
    if picture.ndim != 3 or picture.shape[2] not in (1, 3):
        raise InputError(f"LPIPS takes grey or RGB pictures, not an array of shape {tuple(picture.shape)}")
    picture = picture.permute(2, 0, 1)[None].expand(1, 3, -1, -1)
    return units.RANGE * picture - 1.0 if feed == "standard" else picture


def _unit(features: Tensor) -> Tensor:
    """Scale (B, C, H, W) to unit length over channels."""
    return features / (features.square().sum(dim=1, keepdim=True).sqrt() + _EPSILON)


def _entry(state: Mapping[str, Tensor], key: str, shape: tuple[int, ...]) -> Tensor:
    if key not in state:
        raise ModelError(f"the weights of LPIPS lack {key}")
    if tuple(state[key].shape) != shape:
        raise ModelError(f"{key} of the weights of LPIPS is {tuple(state[key].shape)}, not {shape}")
    return state[key].detach().to(torch.float32)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
