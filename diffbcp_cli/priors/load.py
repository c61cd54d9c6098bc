"""From files to a prior: read the weights safely, build the network, check that they fit, and wrap it."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ..devices import pick_device, pick_precision
from ..errors import ModelError, UsageError
from .base import Prior, Wrapper
from .fetch import Download, Files, Identity, fetch, identify
from .networks import ARCHITECTURES, Architecture, builder_of
from .registry import find

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import Generator, Tensor, nn

    from .reverse import Solver

SCALES = ("tile", "fit")
LARGE_TILE = 1024  # a network for any size gets larger images in tiles, to bound the memory
LARGE_OVERLAP = 64  # the result then differs from that of the whole by 0.0002 at most (natural, at sigma 0.3)


class LoadedPrior(Wrapper):
    """A prior that knows where it came from. network: the bare torch module; dtype: the numbers it computes in."""

    def __init__(self, prior: Prior, network: nn.Module, identity: Identity, dtype: torch.dtype) -> None:
        super().__init__(prior)
        self.network = network
        self.identity = identity
        self.dtype = dtype

    @property
    def parameters(self) -> int:
        """How many weights the network has."""
        return sum(p.numel() for p in self.network.parameters())

    def as_deepinv(self) -> nn.Module:
        """The prior as a denoiser of the package deepinv: images and noise level on [0, 1]."""
        from .deepinv import as_deepinv

        return as_deepinv(self)

    def sample(
        self, x: Tensor, rho: float, rng: Generator, *, solver: Solver = "second-order", calls: int = 4
    ) -> Tensor:
        """Draw x0 given x = x0 + rho eps, (B, C, H, W): the reverse process from noise level rho to 0."""
        from .reverse import sample

        return sample(self.prior, x, rho, solver=solver, calls=calls, rng=rng).sample


def load_prior(
    name: str = "natural",
    *,
    device: str | torch.device = "auto",
    precision: str = "fp32",
    scale: str = "tile",
    compile: bool = False,
    announce: Callable[[Download], None] | None = None,
    bars: bool = False,
) -> LoadedPrior:
    """Load a prior by name, folder, or Hub id; it is downloaded first if it is not here.

    device, precision: as on the command line, whose own default for the precision is `auto`. scale: how a network
    with a native size takes other sizes, in overlapping tiles (`tile`) or resized (`fit`). compile: run the
    network through torch.compile. announce: called before a download begins. bars: whether the download shows a
    progress bar.
    """
    if scale not in SCALES:
        raise UsageError(f"unknown scale {scale!r}", hint=f"--prior-scale {'|'.join(SCALES)}")
    where = pick_device(device) if isinstance(device, str) else device
    pick_precision(precision, where)  # refuse a wrong name before anything is downloaded
    files = fetch(find(name), announce=announce, bars=bars)
    identity = identify(files)
    built = build(files)
    dtype = pick_precision(precision, where, tolerant=built.tolerant)
    prior = assemble(built, device=where, dtype=dtype, scale=scale, compile=compile)
    return LoadedPrior(prior, built.network, identity, dtype)


def assemble(
    built: Architecture,
    *,
    device: torch.device,
    dtype: torch.dtype,
    scale: str = "tile",
    compile: bool = False,
) -> Prior:
    """Put the network on the device and make it a prior for images of any size, grey or colour."""
    import torch

    from .mixed import MixedPrecision, lowered
    from .network import NetworkPrior
    from .sizes import FIT_SIDE, Fitted, Tiled

    network = built.network.eval().requires_grad_(False).to(device)
    on_gpu, size, multiple = device.type == "cuda", built.traits.native_size, built.multiple
    channels_last = on_gpu or size is None  # `natural` is faster with it everywhere
    at_work = lowered(network, dtype) if on_gpu and dtype != torch.float32 else network
    fast = MixedPrecision(at_work, dtype=dtype, channels_last=channels_last, compile=compile)
    prior = NetworkPrior(network, built.precondition(fast), built.traits, multiple=multiple)
    batch = 4 if on_gpu else 1
    if scale == "fit":
        return Fitted(prior, size=FIT_SIDE if size is None else size)
    if size is None:
        overlap = LARGE_OVERLAP
        return Tiled(prior, size=LARGE_TILE, overlap=overlap, multiple=multiple, batch=batch, extend=False)
    return Tiled(prior, size=size, overlap=size // 4, multiple=multiple, batch=batch)


def build(files: Files) -> Architecture:
    """Build the network that config.json describes, and load its weights."""
    kind, name = files.architecture, files.source.name
    builder = builder_of(kind)
    if builder is None:
        raise ModelError(
            f"the prior {name} is a {kind}, which diffbcp cannot run",
            hint=f"it runs {', '.join(ARCHITECTURES)} (the last as saved by diffusers)",
        )
    options = {key: value for key, value in files.config.items() if key != "architecture"}
    try:
        built = builder(options, files.schedule or {})
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError, RuntimeError) as error:
        raise ModelError(
            f"config.json of {name} does not describe a network of kind {kind}: {error}"
        ) from error
    fit_weights(built.network, built.rename(read_weights(files.weights)))
    return built


def read_weights(path: Path) -> dict[str, Tensor]:
    """The state dict in a file, on the CPU. Code in a pickle is never run."""
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    again = "the file may be truncated; diffbcp models verify says more"
    try:
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Detected pickle protocol")
                state = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        wants = re.search(r"GLOBAL (\S+)", str(error))
        what = f"wants to run code ({wants[1]})" if wants else "might run code"
        raise ModelError(
            f"{path.name} was refused: it is a pickle that {what}, not just weights",
            hint="do not open it elsewhere either; ask its author for model.safetensors",
        ) from error
    except (SafetensorError, RuntimeError, OSError, EOFError, ValueError, KeyError) as error:
        raise ModelError(f"{path.name} cannot be read: {_first_line(error)}", hint=again) from error
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise ModelError(f"{path.name} holds more than a state dict", hint="save network.state_dict() alone")
    return dict(state)


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n", 1)[0] or type(error).__name__


def fit_weights(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load the weights into the network; every key and shape must match, and every number be finite."""
    own = network.state_dict()
    wanted = {key: tuple(value.shape) for key, value in own.items()}
    given = {key: tuple(value.shape) for key, value in state.items()}
    shared = wanted.keys() & given.keys()
    shapes = sorted(f"{key} {given[key]} for {wanted[key]}" for key in shared if given[key] != wanted[key])
    found = {
        "missing": sorted(wanted.keys() - given.keys()),
        "unexpected": sorted(given.keys() - wanted.keys()),
        "of another shape": shapes,
    }
    differences = [_first_few(keys, what) for what, keys in found.items() if keys]
    if differences:
        raise ModelError(
            f"the weights do not fit the network: {'; '.join(differences)}",
            hint="config.json must describe the network that the weights were saved from",
        )
    odd = [key for key, value in state.items() if not _is_plain(value, own[key])]
    if odd:
        raise ModelError(
            f"the weights are damaged: {_first_few(sorted(odd), 'not plain finite numbers')}",
            hint="copy them again",
        )
    single = {k: v.float() if v.is_floating_point() else v for k, v in state.items()}
    network.load_state_dict(single, strict=True, assign=True)


def _is_plain(value: Tensor, like: Tensor) -> bool:
    """Whether a tensor is all there, with finite floating-point numbers where the network has such."""
    import torch

    kinds = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    there = value.layout == torch.strided and not value.is_quantized and not value.is_meta
    if not there or not like.is_floating_point():
        return there and value.dtype == like.dtype
    return value.dtype in kinds and bool(torch.isfinite(value).all())


def _first_few(keys: list[str], what: str) -> str:
    shown = ", ".join(keys[:3]) + (", …" if len(keys) > 3 else "")
    return f"{len(keys)} {what} ({shown})"
