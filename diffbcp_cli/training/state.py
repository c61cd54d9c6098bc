"""The state of a training run, and its checkpoint: everything that the next step depends on."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Generator, Tensor

from .. import random
from ..errors import InputError, UsageError
from ..photos.tensors import write_tensors
from ..priors.networks.natural import Natural, NaturalConfig
from .data import Photos
from .optim import FILLER, Muon, make_optimizers
from .settings import Plan, TrainSettings

CHECKPOINT = "checkpoint.safetensors"
STABLE = "stable"
"""The folder of the checkpoint from just before the learning rate began to decay."""
_MASK_LAYERS = ("enter_mask.", "enter_share.")  # they start at zero, so a network may lack them
HOST = torch.device("cpu")
_EARLIER: dict[str, Any] = {"weight_decay": 0.0, "fill_share": 0.6, "relative": False}
"""Settings that older checkpoints do not have, as they were then."""
_OPTIMIZER_STATE = (("momentum",), ("step", "exp_avg", "exp_avg_sq"))  # of Muon and of AdamW, per parameter


@dataclass
class TrainState:
    """What the next step depends on, and the history so far.

    average: the moving average of the weights. decaying: the learning rate has begun to decay.
    losses, validations: (step, value), where a validation is PSNR by task (see `validate`).
    """

    network: Natural
    average: Natural
    optimizers: tuple[Muon, torch.optim.AdamW]
    rng: Generator
    step: int = 0
    seconds: float = 0.0
    decaying: bool = False
    losses: list[tuple[int, float]] = field(default_factory=list)
    validations: list[tuple[int, dict[str, float]]] = field(default_factory=list)

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return next(self.network.parameters()).device


def fresh_state(
    settings: TrainSettings, start: Mapping[str, Tensor] | None = None, device: torch.device = HOST
) -> TrainState:
    """Return the state before the first step. The batches are drawn on the host, whatever the device.

    start: initial weights, from a network with as many levels. Blocks that it lacks start as the identity, channels
    that it lacks are not read by the old ones, and a filler that it lacks starts as a copy of the denoiser, or from
    random weights if it is smaller. So the new network starts out as the old one.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        network = Natural(settings.network)
    if start is not None:
        _load_weights(network, start)
    network.to(device)
    average = copy.deepcopy(network).requires_grad_(False)
    optimizers = make_optimizers(network, settings)
    return TrainState(network, average, optimizers, rng=random.generator(settings.seed))


def _load_weights(network: Natural, start: Mapping[str, Tensor]) -> None:
    """Load weights into a network that may have more blocks, wider levels, or a filler as well."""
    own = network.state_dict()
    if not network.config.takes_mask:
        start = {key: value for key, value in start.items() if not key.startswith(FILLER)}
    had_filler = any(key.startswith(FILLER) for key in start)
    if network.config.takes_mask and not had_filler:
        copied = {FILLER + key: value for key, value in start.items()}
        had_filler = _all_hold(own, copied)
        start = {**copied, **start} if had_filler else start
    fits, added = _all_hold(own, start), own.keys() - start.keys()
    if not fits or not all(_may_lack(key, had_filler) for key in added):
        raise UsageError(
            "the initial weights are of a network of another shape",
            hint=f"at most {network.config.channels} channels and {network.config.blocks} blocks",
        )
    network.load_state_dict({**own, **{key: _widened(key, own[key], value) for key, value in start.items()}})


def _may_lack(key: str, had_filler: bool) -> bool:
    """Whether old weights need not have a parameter."""
    inner = key.removeprefix(FILLER)
    return ".blocks." in key or inner.startswith(_MASK_LAYERS) or (inner != key and not had_filler)


def _all_hold(own: Mapping[str, Tensor], start: Mapping[str, Tensor]) -> bool:
    return all(key in own and _holds(own[key], value) for key, value in start.items())


def _holds(own: Tensor, start: Tensor) -> bool:
    return own.ndim == start.ndim and all(new >= old for new, old in zip(own.shape, start.shape, strict=True))


def _widened(key: str, own: Tensor, start: Tensor) -> Tensor:
    """Put old weights into the fresh weights of a wider layer, so that the old outputs stay as they were.

    Old outputs do not read new inputs; new outputs keep their fresh weights. A modulation is two layers in one,
    scale and shift.
    """
    if own.shape == start.shape:
        return start
    if ".modulate." in key:
        halves = zip(own.chunk(2), start.chunk(2), strict=True)
        return torch.cat([_widened("", new, old) for new, old in halves])
    wide = own.clone()
    wide[: len(start)] = 0
    wide[tuple(slice(length) for length in start.shape)] = start
    return wide


# ---- checkpoints ----


def save_state(path: Path, state: TrainState, settings: TrainSettings, photos: Photos) -> None:
    """Write the state as one safetensors file, whole or not at all."""
    tensors: dict[str, Tensor] = {"rng": state.rng.get_state()}
    for name, parameter in state.network.named_parameters():
        tensors[f"network.{name}"] = parameter.detach().cpu().contiguous()
        for optimizer in state.optimizers:
            for key, value in optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{key}.{name}"] = value.cpu().contiguous()
    for name, parameter in state.average.named_parameters():
        tensors[f"average.{name}"] = parameter.detach().cpu().contiguous()
    record = {
        "step": state.step,
        "seconds": state.seconds,
        "decaying": state.decaying,
        "losses": state.losses,
        "validations": state.validations,
        "settings": asdict(settings),
        "photographs": photos.fingerprint,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, tensors, {"training": json.dumps(record)})


def load_state(
    path: Path, settings: TrainSettings, photos: Photos, device: torch.device = HOST
) -> TrainState:
    """Read a checkpoint. The shape of the network and the photographs must be the same, the device need not."""
    state = fresh_state(settings, device=device)
    names = {parameter: name for name, parameter in state.network.named_parameters()}
    with _opened(path) as (file, record):
        _require_same_run(record, settings, photos, path)
        with torch.no_grad():
            for name, parameter in state.network.named_parameters():
                parameter.copy_(file.get_tensor(f"network.{name}"))
            for name, parameter in state.average.named_parameters():
                parameter.copy_(file.get_tensor(f"average.{name}"))
            for optimizer, keys in zip(state.optimizers, _OPTIMIZER_STATE, strict=True):
                for parameter in optimizer.param_groups[0]["params"]:
                    optimizer.state[parameter] = {
                        key: _like(parameter, file.get_tensor(f"optimizer.{key}.{names[parameter]}"))
                        for key in keys
                    }
        state.rng.set_state(file.get_tensor("rng").clone())  # a view with an offset crashes torch 2.13
    state.step, state.seconds, state.decaying = record["step"], record["seconds"], record["decaying"]
    state.losses = [(step, loss) for step, loss in record["losses"]]
    state.validations = [(step, psnr) for step, psnr in record["validations"]]
    return state


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Open a checkpoint and yield the file and its record; a damaged one is an InputError."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file, json.loads(file.metadata()["training"])
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(
            f"the checkpoint {path} cannot be read: {str(error).splitlines()[0]}",
            hint="train into a new folder without --resume; --from FOLDER starts with the weights of this one",
        ) from error


def _network_of(record: dict[str, Any], path: Path) -> NaturalConfig:
    """The shape of the network in a checkpoint."""
    try:
        return NaturalConfig.from_options(record["settings"]["network"])
    except TypeError as error:
        raise InputError(
            f"the checkpoint {path} was made by another version of diffbcp: {error}",
            hint="resume with that version, or train into a new folder",
        ) from error


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    """The value in the memory layout of its parameter, as the optimizer keeps it."""
    return torch.empty_like(parameter).copy_(value) if value.shape == parameter.shape else value


def _require_same_run(record: dict[str, Any], settings: TrainSettings, photos: Photos, path: Path) -> None:
    if _network_of(record, path) != settings.network:
        raise UsageError(f"{path} holds a network of another shape", hint="train into a new folder")
    if record["photographs"] != photos.fingerprint:
        raise UsageError(
            f"{path} was trained on other photographs", hint="restore the folder, or train into a new one"
        )


# ---- resuming ----


def resume_point(
    folder: Path, settings: TrainSettings, photos: Photos, plan: Plan, device: torch.device = HOST
) -> TrainState:
    """Return the state to continue from: the last checkpoint, or the one from before the decay.

    If the last checkpoint is in the decay of a shorter plan, and the new plan would not decay yet at that point,
    training continues from `stable/`.
    """
    last = folder / CHECKPOINT
    if not last.is_file():
        raise InputError(f"there is no checkpoint in {folder}", hint="leave out --resume")
    state = load_state(last, settings, photos, device)
    too_early = plan.progress(state.step, state.seconds) <= 1 - settings.decay_share
    if state.decaying and too_early:
        state = load_state(folder / STABLE / CHECKPOINT, settings, photos, device)
    return state


def with_network_of(path: Path, settings: TrainSettings) -> TrainSettings:
    """The settings with the network of a checkpoint; the settings themselves if there is no checkpoint."""
    if not path.is_file():
        return settings
    with _opened(path) as (_, record):
        return replace(settings, network=_network_of(record, path))


def changed_settings(path: Path, settings: TrainSettings) -> dict[str, tuple[Any, Any]]:
    """Settings that differ from those of a checkpoint, by name: (then, now).

    Everything but the network's shape may change when a run is resumed. If nothing changes, the resumed run equals
    an uninterrupted one bit for bit.
    """
    with _opened(path) as (_, record):
        network = _network_of(record, path)
        then = {**_EARLIER, **record["settings"], "network": network.options()}
    now = {**json.loads(json.dumps(asdict(settings))), "network": settings.network.options()}
    return {key: (then.get(key), value) for key, value in now.items() if then.get(key) != value}
