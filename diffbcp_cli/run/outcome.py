"""What a restoration gives, and how the outside takes part in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..estimators.calibrate import Calibration
from ..estimators.noise import NoiseLevel
from ..methods.split_gibbs import Draw
from ..options import RunConfig
from .chains import Trace
from .convergence import Convergence

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Wrap = Callable[[Iterable[Draw], int], Iterable[Draw]]
Snapshot = tuple[dict[str, Tensor], dict[str, Any]]


@dataclass(frozen=True)
class Outcome:
    """A restoration, arrays (H, W, C) in [0, 1] units.

    mean, std: over the draws after burn-in. If there is a prior it finishes the mean (finishing.py), at noise level
    finish_level and with finish_weights, and the variance of its own draws (spread.py) is added.
    prior_mean: the mean of the draws of the prior's image.
    prior_noise: the noise level by the prior (noise_level.py), if there is one and none was given.
    samples: (n, H, W, C) every `thin`-th draw, only if asked for. trace: of the first chain, traces: of all.
    finished: False after an interruption. cfg: the options that were used, as a time budget chose them.
    """

    mean: Floats
    std: Floats
    prior_mean: Floats | None
    samples: Floats | None
    traces: list[Trace]
    draws: int
    seconds: float
    finished: bool
    cfg: RunConfig
    convergence: Convergence
    calibration: Calibration | None
    finish_level: float | None
    finish_weights: tuple[float, ...] | None
    prior_noise: NoiseLevel | None

    @property
    def trace(self) -> Trace:
        """What happened at each step of the first chain."""
        return self.traces[0]

    def noise(self, burn_in: int) -> dict[str, float]:
        """The inferred noise std with its 90 % interval, in [0, 1] units: the prior's, or the tensor model's."""
        found = self.prior_noise
        if found is None:
            return self.tensor_noise(burn_in)
        return {"std": found.std / 2, "lower": found.lower / 2, "upper": found.upper / 2}

    def tensor_noise(self, burn_in: int) -> dict[str, float]:
        """The tensor model's noise, which also holds what its components cannot explain."""
        return noise_of(self.traces, burn_in)


@dataclass(frozen=True)
class Control:
    """How the outside takes part in a run: a bar around the draws, a wish to stop, checkpoints, talk.

    wrap: stands around the iterator of draws and is told how many there will be. stop: asked after each
    draw. start: a snapshot to go on from. save: called with a snapshot every cfg.checkpoint_every seconds and
    at an interruption. note: hears what was decided. finishing: around what the prior does after the draws; it is
    told the share that is done.
    """

    wrap: Wrap = lambda draws, total: draws
    stop: Callable[[], bool] = lambda: False
    start: Snapshot | None = None
    save: Callable[[Snapshot], None] | None = None
    note: Callable[[str], None] = lambda text: None
    finishing: Callable[[], AbstractContextManager[Callable[[float], None]]] = lambda: nullcontext(_unheard)


def _unheard(share: float) -> None:
    """Nobody asked."""


def noise_of(traces: list[Trace], burn_in: int) -> dict[str, float]:
    """The noise std of the draws after burn-in with its 90 % interval."""
    kept = np.concatenate([trace.noise_std[burn_in:] or trace.noise_std for trace in traces])
    low, high = np.quantile(kept, [0.05, 0.95])
    return {"std": float(kept.mean()), "lower": float(low), "upper": float(high)}


def damaged() -> InputError:
    """The error of a checkpoint that lacks something."""
    return InputError("the checkpoint is damaged: parts are missing", hint="run without --resume")
