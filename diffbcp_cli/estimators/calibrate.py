"""Calibration: hold out known pixels, see how far off they are, and rescale the standard deviation.

This is split conformal prediction. The held-out pixels are known only as noisy values y = x + e, so a factor f is
judged by the noisy interval |y - mean| <= z sqrt(f^2 std^2 + noise^2). The smallest f that pixel i asks for is
sqrt((y - mean)^2 / z^2 - noise^2) / std. The conformal quantile of these makes the noisy interval cover a new pixel
as claimed, if it is exchangeable with the held-out ones. The interval mean +- z f std then covers the clean pixel
as far as the noise level is right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..problem import Problem, Restoration
from ..run.diagnostics import conformal_factor
from ..run.posterior import Posterior
from ..units import Floats, level_to_unit
from .hold_out import HeldOut

LEVELS = (0.5, 0.8, 0.9, 0.95)
MAIN_LEVEL = 0.9  # the std is rescaled for this one
SMALLEST_FACTOR, SMALLEST_STD = 0.1, 1e-6


WITHOUT_MISFIT = 0.6  # share of the tensor model's noise that is noise, where no prior has measured it


class Calibratable(Protocol):
    """An estimator that can be calibrated."""

    @property
    def shown(self) -> Problem:
        """What the method may see."""
        ...

    def estimate(self, posterior: Posterior) -> tuple[Restoration, Callable[[], Floats]]:
        """The restoration without the held-out pixels, and a function that gives the mean with them."""
        ...


@dataclass(frozen=True)
class Calibrated:
    """An estimator whose standard deviations are rescaled by held-out pixels.

    values: the measured pixels (H, W, C) in [0, 1] units.
    """

    inner: Calibratable
    values: Floats
    held: HeldOut

    @property
    def shown(self) -> Problem:
        """What the method may see."""
        return self.inner.shown

    def __call__(self, posterior: Posterior) -> Restoration:
        """Sum up the draws, calibrate, and put the held-out pixels back."""
        found, refit = self.inner.estimate(posterior)
        assert found.std is not None
        calibration = calibrate(self.values, found.mean, found.std, self.held, self._noise(posterior, found))
        factor, samples = np.float32(calibration.factor), found.samples
        if samples is not None:
            samples = found.mean + factor * (samples - found.mean)
        numbers = {**found.numbers, "calibration": calibration.as_dict()}
        return replace(found, mean=refit(), std=found.std * factor, samples=samples, numbers=numbers)

    def _noise(self, posterior: Posterior, found: Restoration) -> float:
        """The noise std of the held-out values: given, by the prior, or a part of the tensor model's."""
        given = self.shown.noise_std
        if given is not None:
            return level_to_unit(given)
        chain = posterior.noise()["std"]
        if "rank" not in posterior.traces[0]:
            return chain
        if found.numbers["noise_source"] != "prior" or found.noise is None:
            return WITHOUT_MISFIT * chain
        return min(chain, found.noise["std"])


@dataclass(frozen=True)
class Calibration:
    """What the held-out entries said. factor: for the std. The lists go with `levels`."""

    factor: float
    factors: list[float]
    coverage_before: list[float]
    coverage_after: list[float]
    held_out: int
    strokes: bool

    def as_dict(self) -> dict[str, Any]:
        """As stored in JSON, with what is and is not promised."""
        return {
            "factor": self.factor,
            "levels": list(LEVELS),
            "factors": self.factors,
            "held_out_coverage_before": self.coverage_before,
            "held_out_coverage": self.coverage_after,
            "held_out": self.held_out,
            "held_out_shape": "strokes" if self.strokes else "pixels",
            "guarantee": _STROKES if self.strokes else _PIXELS,
        }


_PIXELS = (
    "held-out pixels were drawn at random, like the missing ones: the 90 % interval covers missing pixels "
    "in 90 % of cases on average over the picture, not at each place"
)
_STROKES = (
    "pieces shaped like the holes were held out elsewhere in the picture: the 90 % interval covers in 90 % of "
    "cases where the holes hide what the rest of the picture shows, and no promise holds for a hole larger "
    "than the pieces, or one that hides something that is nowhere else"
)


def calibrate(values: Floats, mean: Floats, std: Floats, held: HeldOut, noise_std: float) -> Calibration:
    """Find the factors from the held-out entries' noisy values; all arrays (H, W, C) in [0, 1] units."""
    error = np.abs(values - mean)[held.entries].astype(np.float64)
    spread = np.maximum(std[held.entries].astype(np.float64), SMALLEST_STD)
    noise_std = min(noise_std, _quietest(error, spread))
    factors = [_factor(error, spread, noise_std, level) for level in LEVELS]
    factor = min(max(factors[LEVELS.index(MAIN_LEVEL)], SMALLEST_FACTOR), 1e3)
    return Calibration(
        factor=factor,
        factors=[min(value, 1e3) for value in factors],
        coverage_before=_coverage(error, spread, noise_std),
        coverage_after=_coverage(error, factor * spread, noise_std),
        held_out=int(held.entries.sum()),
        strokes=held.strokes,
    )


def _quietest(error: NDArray[np.float64], spread: NDArray[np.float64]) -> float:
    """The smallest rms error among groups of alike spread: the noise cannot be more.

    The sampler's own noise level also holds what its model cannot explain.
    """
    groups = np.array_split(error[np.argsort(spread)], min(20, max(1, len(error) // 200)))
    return float(min(np.sqrt(np.square(group).mean()) for group in groups))


def _factor(error: NDArray[np.float64], spread: NDArray[np.float64], noise: float, level: float) -> float:
    z = NormalDist().inv_cdf(0.5 + 0.5 * level)
    beyond_noise = np.sqrt(np.maximum(error**2 - (z * noise) ** 2, 0.0))
    return float(conformal_factor(beyond_noise / spread, [level])[0])


def _coverage(error: NDArray[np.float64], spread: NDArray[np.float64], noise: float) -> list[float]:
    """Shares of the held-out values within the noisy intervals, at each level."""
    scale = np.hypot(spread, noise)
    return [float((error <= NormalDist().inv_cdf(0.5 + 0.5 * level) * scale).mean()) for level in LEVELS]
