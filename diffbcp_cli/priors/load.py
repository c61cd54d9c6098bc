"""From files to a prior: read the weights safely, build the network, fit them strictly, wrap it up."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..devices import pick_device, pick_precision
from ..errors import ModelError, UsageError
from .base import Prior, Traits, Wrapper
from .fetch import Download, Files, Identity, fetch, identify
from .registry import find

if TYPE_CHECKING:
    from pathlib import Path

    import torch
    from torch import Generator, Tensor, nn

    from .precondition import Denoiser
    from .reverse import Solver

SCALES = ("tile", "fit")
NATURAL_TILE = 1024  # larger images are cut, to bound the memory
NATURAL_OVERLAP = 64  # tiles then differ from the whole by 0.0002 at most (measured at sigma 0.3)


@dataclass(frozen=True)
class Built:
    """A network and how it is used.

    precondition: the network, as it is to be called, to a denoiser. multiple: its sides must be multiples of
    this. tolerant: measured to lose nothing in bfloat16.
    """

    network: nn.Module
    precondition: Callable[[nn.Module], Denoiser]
    traits: Traits
    multiple: int
    tolerant: bool = False


class LoadedPrior(Wrapper):
    """A prior that knows where it came from. network: the bare torch module."""

    def __init__(self, prior: Prior, network: nn.Module, identity: Identity) -> None:
        super().__init__(prior)
        self.network = network
        self.identity = identity

    @property
    def parameters(self) -> int:
        """How many weights the network has."""
        return sum(p.numel() for p in self.network.parameters())

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
    """Load a prior by name, folder, or Hub id; it is downloaded first if need be.

    device, precision: as on the command line, where the precision is `auto` unless told otherwise.
    scale: how a network with a size of its own takes other sizes, in overlapping tiles (`tile`) or resized
    (`fit`). compile: run the network through torch.compile.
    announce: called before a download begins. bars: whether the download shows a progress bar.
    """
    if scale not in SCALES:
        raise UsageError(f"unknown scale {scale!r}", hint=f"--prior-scale {'|'.join(SCALES)}")
    where = pick_device(device) if isinstance(device, str) else device
    pick_precision(precision, where)  # a wrong name is refused before anything is downloaded
    files = fetch(find(name), announce=announce, bars=bars)
    identity = identify(files)
    built = build(files)
    dtype = pick_precision(precision, where, tolerant=built.tolerant)
    prior = assemble(built, device=where, dtype=dtype, scale=scale, compile=compile)
    return LoadedPrior(prior, built.network, identity)


def assemble(
    built: Built, *, device: torch.device, dtype: torch.dtype, scale: str = "tile", compile: bool = False
) -> Prior:
    """Put the network on the device and give it any number type, any image size, grey or colour."""
    from .mixed import MixedPrecision
    from .network import NetworkPrior
    from .sizes import FIT_SIDE, Fitted, Tiled

    network = built.network.eval().requires_grad_(False).to(device)
    on_gpu = device.type == "cuda"
    channels_last = on_gpu or built.traits.native_size is None  # `natural` wants it everywhere
    fast = MixedPrecision(network, dtype=dtype, channels_last=channels_last, compile=compile)
    denoiser = built.precondition(fast)
    prior = NetworkPrior(network, denoiser, built.traits, multiple=built.multiple)
    batch = 4 if on_gpu else 1
    size = built.traits.native_size
    if size is None:
        if scale == "fit":
            return Fitted(prior, size=FIT_SIDE)
        return Tiled(
            prior,
            size=NATURAL_TILE,
            overlap=NATURAL_OVERLAP,
            multiple=built.multiple,
            batch=batch,
            extend=False,
        )
    if scale == "fit":
        return Fitted(prior, size=size)
    return Tiled(prior, size=size, overlap=size // 4, multiple=built.multiple, batch=batch)


def build(files: Files) -> Built:
    """Build the network that config.json describes, with its weights in it."""
    config = dict(files.config)
    kind = config.pop("architecture", None)
    if kind is None and "_class_name" in config:
        kind = {"UNet2DModel": "ddpm"}.get(config["_class_name"], config["_class_name"])
    builders = {"natural": _natural, "adm": _adm, "ddpm": _ddpm}
    if kind not in builders:
        raise ModelError(
            f"the prior {files.source.name} is a {kind}, which diffbcp cannot run",
            hint="known are natural, adm, ddpm, and UNet2DModel of diffusers",
        )
    try:
        return builders[kind](config, files)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"config.json of {files.source.name} does not describe a {kind} network: {error}"
        ) from error


def _natural(config: Mapping[str, Any], files: Files) -> Built:
    from .networks.natural import Natural, NaturalConfig
    from .precondition import EDM

    shape = NaturalConfig.from_options(config)
    network = Natural(shape)
    fit_weights(network, read_weights(files.weights))
    traits = Traits(channels=shape.image_channels, takes_mask=shape.takes_mask, rotations=4)
    return Built(network, EDM, traits, shape.multiple, tolerant=True)


def _adm(config: Mapping[str, Any], files: Files) -> Built:
    import torch

    from .networks.adm import AdmConfig, AdmUNet
    from .vp import VP

    shape = AdmConfig.from_dict(config)
    _only_pixels(shape.in_channels)
    with torch.device("meta"):
        network = AdmUNet(shape)
    fit_weights(network, read_weights(files.weights))
    traits = Traits(channels=shape.in_channels, native_size=shape.image_size)
    return Built(network, VP, traits, shape.multiple)


def _ddpm(config: Mapping[str, Any], files: Files) -> Built:
    import torch

    from .networks.ddpm import DdpmConfig, DdpmUNet, modern_keys

    shape = DdpmConfig.from_dict(config)
    _only_pixels(shape.in_channels)
    with torch.device("meta"):
        network = DdpmUNet(shape)
    fit_weights(network, modern_keys(read_weights(files.weights)))
    size = shape.sample_size + -shape.sample_size % shape.multiple
    traits = Traits(channels=shape.in_channels, native_size=size)
    return Built(network, _schedule(files.schedule or {}), traits, shape.multiple)


def _only_pixels(channels: int) -> None:
    if channels not in (1, 3):
        raise ModelError(f"the network takes {channels} channels; a prior for photographs takes 3, or 1")


def _schedule(options: Mapping[str, Any]) -> Callable[[nn.Module], Denoiser]:
    """VP preconditioning for the schedule that scheduler_config.json describes."""
    from .vp import VP

    only = {"beta_schedule": "linear", "prediction_type": "epsilon", "trained_betas": None}
    for name, value in only.items():
        if options.get(name, value) != value:
            raise ModelError(
                f"{name} {options[name]!r} in scheduler_config.json is not supported, only {value!r}"
            )
    start, end = float(options.get("beta_start", 1e-4)), float(options.get("beta_end", 0.02))
    steps = int(options.get("num_train_timesteps", 1000))
    return lambda network: VP(network, beta_start=start, beta_end=end, steps=steps)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The state dict in a file, on the processor. Code in a pickle is never run."""
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
    """Put the weights into the network; every key and shape must match."""
    wanted = {key: tuple(value.shape) for key, value in network.state_dict().items()}
    given = {key: tuple(value.shape) for key, value in state.items()}
    shared = wanted.keys() & given.keys()
    shapes = sorted(f"{key} {given[key]} for {wanted[key]}" for key in shared if given[key] != wanted[key])
    parts = {
        "missing": sorted(wanted.keys() - given.keys()),
        "unexpected": sorted(given.keys() - wanted.keys()),
        "of another shape": shapes,
    }
    differences = [_few(keys, what) for what, keys in parts.items() if keys]
    if differences:
        raise ModelError(
            f"the weights do not fit the network: {'; '.join(differences)}",
            hint="config.json must describe the network that the weights were saved from",
        )
    network.load_state_dict({key: value.float() for key, value in state.items()}, strict=True, assign=True)


def _few(keys: list[str], what: str) -> str:
    shown = ", ".join(keys[:3]) + (", …" if len(keys) > 3 else "")
    return f"{len(keys)} {what} ({shown})"
