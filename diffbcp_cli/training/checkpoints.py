"""The state of a training run in one file, and which one a run goes on from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import InputError, UsageError
from ..photos.tensors import write_tensors
from ..priors.networks.natural import NaturalConfig
from .photos import Photos
from .settings import Plan, TrainSettings
from .state import TrainState, fresh_state

CHECKPOINT = "checkpoint.safetensors"
OPTIMIZER_STATE = (("momentum",), ("step", "exp_avg", "exp_avg_sq"))
"""What Muon and AdamW remember of each parameter, as checkpoints name it."""


def save_state(path: Path, state: TrainState, settings: TrainSettings, photos: Photos) -> None:
    """Write everything the next step depends on as one safetensors file, whole or not at all."""
    tensors: dict[str, Tensor] = {"rng": state.rng.get_state()}
    for name, parameter in state.network.named_parameters():
        tensors[f"network.{name}"] = parameter.detach().contiguous()
        for optimizer in state.optimizers:
            for key, value in optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{key}.{name}"] = value.contiguous()
    for name, parameter in state.average.named_parameters():
        tensors[f"average.{name}"] = parameter.detach().contiguous()
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


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A checkpoint that is open, and its record; one that is damaged is an error that says so."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file, json.loads(file.metadata()["training"])
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(
            f"the checkpoint {path} cannot be read: {str(error).splitlines()[0]}",
            hint="leave out --resume and train into a new folder, --from this one",
        ) from error


def load_state(path: Path, settings: TrainSettings, photos: Photos) -> TrainState:
    """Read a checkpoint back; the network's shape and the photographs must be the same."""
    state = fresh_state(settings)
    names = {parameter: name for name, parameter in state.network.named_parameters()}
    with _opened(path) as (file, record):
        _same_run(record, settings, photos, path)
        with torch.no_grad():
            for name, parameter in state.network.named_parameters():
                parameter.copy_(file.get_tensor(f"network.{name}"))
            for optimizer, keys in zip(state.optimizers, OPTIMIZER_STATE, strict=True):
                for parameter in optimizer.param_groups[0]["params"]:
                    optimizer.state[parameter] = {
                        key: _like(parameter, file.get_tensor(f"optimizer.{key}.{names[parameter]}"))
                        for key in keys
                    }
            for name, parameter in state.average.named_parameters():
                parameter.copy_(file.get_tensor(f"average.{name}"))
        state.rng.set_state(file.get_tensor("rng"))
    state.step, state.seconds, state.decaying = record["step"], record["seconds"], record["decaying"]
    state.losses = [(step, loss) for step, loss in record["losses"]]
    state.validations = [(step, psnr) for step, psnr in record["validations"]]
    return state


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    """The optimizer's own layout: in the memory order of its parameter."""
    return torch.empty_like(parameter).copy_(value) if value.shape == parameter.shape else value


def with_network_of(path: Path, settings: TrainSettings) -> TrainSettings:
    """The settings for the network that a checkpoint holds; one from before masks does not take any."""
    if not path.is_file():
        return settings
    with _opened(path) as (_, record):
        shape = NaturalConfig.from_options(record["settings"]["network"])
    return replace(settings, network=shape)


def _same_run(record: dict[str, Any], settings: TrainSettings, photos: Photos, path: Path) -> None:
    if NaturalConfig.from_options(record["settings"]["network"]) != settings.network:
        raise UsageError(f"{path} holds a network of another shape", hint="train into a new folder")
    if record["photographs"] != photos.fingerprint:
        raise UsageError(
            f"{path} was trained on other photographs", hint="restore the folder, or train into a new one"
        )


def changed_settings(path: Path, settings: TrainSettings) -> dict[str, tuple[Any, Any]]:
    """What differs from the settings that a checkpoint was made with: name to (then, now).

    Apart from the network's shape any of them may change between stretches; with the same ones a resumed
    run is the uninterrupted run, bit for bit.
    """
    with _opened(path) as (_, record):
        then = record["settings"]
    now = json.loads(json.dumps(asdict(settings)))
    return {key: (then.get(key), value) for key, value in now.items() if then.get(key) != value}


def resume_point(folder: Path, settings: TrainSettings, photos: Photos, plan: Plan) -> TrainState:
    """The state to go on from: the last checkpoint, or the one before a decay that came too early.

    When the last checkpoint is in the decay of a shorter plan, and the new plan has not come to its own
    decay by then, training goes on from `stable/`.
    """
    last = folder / CHECKPOINT
    if not last.is_file():
        raise InputError(f"there is no checkpoint in {folder}", hint="leave out --resume")
    state = load_state(last, settings, photos)
    early = plan.progress(state.step, state.seconds) <= 1 - settings.decay_share
    if state.decaying and early:
        state = load_state(folder / "stable" / CHECKPOINT, settings, photos)
    return state
