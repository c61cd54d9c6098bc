"""The checkpoint of one photograph: what it belongs to, and how a run goes on from it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..errors import InputError
from ..options import Options, to_mapping
from ..photos import checkpoints
from ..priors import LoadedPrior
from ..watch import Watch
from .earlier import changed_options
from .job import Opened
from .session import Checkpoint

# options that may differ between an interrupted run and the one that goes on with it
_FREE = (
    "iterations",
    "save",
    "observed",
    "until_converged",
    "max_iterations",
    "checkpoint_every",
    "time_budget",
)
_NAMES = {"pixels": "the photograph or its mask", "name": "the name", "prior": "the prior"}


def identity(opened: Opened, options: Options, prior: LoadedPrior | None) -> dict[str, Any]:
    """What a checkpoint belongs to: the pixels, the mask, the name, the options, the prior and the versions."""
    digest = hashlib.sha256(opened.photo.pixels.tobytes() + np.packbits(opened.observed).tobytes())
    used = to_mapping(options)
    del used["preset"]  # what it did is in the other options
    return {
        "pixels": digest.hexdigest(),
        "name": opened.job.name,
        "options": used,
        "prior": None if prior is None else prior.identity.as_dict(),
        "versions": {"diffbcp": __version__, "torch": torch.__version__},
    }


def start_from(path: Path, belongs: dict[str, Any], watch: Watch) -> Checkpoint | None:
    """Read the checkpoint to go on from, None if there is none; one of another run is refused."""
    if not path.exists():
        return None
    tensors, plain = checkpoints.read(path)
    try:
        differences = _differences(plain, belongs)
        steps = int(plain["steps"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(f"the checkpoint {path} is damaged", hint="run without --resume") from error
    if differences:
        raise InputError(
            f"the checkpoint {path} belongs to another run: {differences[0]}",
            hint="the options of that run, or no --resume to start again",
        )
    watch.note(f"going on from {path.name}, {steps} iterations done")
    return tensors, plain


def _differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    free = _FREE if now["options"]["time_budget"] is None else (*_FREE, "burn_in")
    found = changed_options(then["options"], now["options"], free)
    return found + [f"{text} has changed" for key, text in _NAMES.items() if then[key] != now[key]]
