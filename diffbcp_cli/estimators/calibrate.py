"""Calibration: hold out known pixels, see how far off they are, and rescale the standard deviation.

This is split conformal prediction. The held-out pixels are known only as noisy values y = x + e, so a factor f is
judged by the noisy interval |y - mean| <= z sqrt(f^2 std^2 + noise^2). The smallest f that pixel i asks for is
sqrt((y - mean)^2 / z^2 - noise^2) / std. The conformal quantile of these makes the noisy interval cover a new pixel
as claimed, if it is exchangeable with the held-out ones. The interval mean +- z f std then covers the clean pixel
as far as the noise level is right. Each region has a factor of its own: near to and far from known pixels, and in
each of the two smooth or textured, as the std says. Known pixels keep their std.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from ..operators.mask import steps_from_known
from ..problem import Problem, Restoration
from ..run.diagnostics import conformal_factor
from ..run.posterior import Posterior
from ..units import Bools, Floats, level_to_unit, std_to_unit, to_unit
from .hold_out import HeldOut

LEVELS = (0.5, 0.8, 0.9, 0.95)
MAIN_LEVEL = 0.9  # the std is rescaled for this one
SMALLEST_FACTOR, MOST_FACTOR, SMALLEST_STD = 0.1, 1e3, 1e-6
FEWEST_OF_REGION = 60  # held-out entries; where a region has fewer, one factor serves all


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
        """Sum up the draws, calibrate, and put the held-out pixels back, unless the method did so itself."""
        found, refit = self.inner.estimate(posterior)
        assert found.std is not None
        mean, std, known = self._predicted(posterior, found)
        calibration = calibrate(
            self.values,
            mean,
            std,
            self.held,
            self._noise(posterior, found),
            regions=Regions.of(known, std, self.held),
            least=SMALLEST_FACTOR if self.shown.noise_std is None else 1.0,
        )
        factor, samples = calibration.factors_of(found.std), found.samples
        new = refit()
        if samples is not None:
            samples = new + factor * (samples - found.mean)
        numbers = {**found.numbers, "calibration": calibration.as_dict()}
        maps = {**found.maps, "raw_std": found.std}
        return replace(found, mean=new, std=found.std * factor, samples=samples, numbers=numbers, maps=maps)

    def _predicted(self, posterior: Posterior, found: Restoration) -> tuple[Floats, Floats, Bools]:
        """Mean and std of the picture without the held-out entries, and which entries were known then."""
        problem = self.shown
        known = np.ascontiguousarray(problem.known.permute(1, 2, 0).cpu().numpy()) & ~self.held.entries
        if not posterior.predicted:
            assert found.std is not None
            return found.mean, found.std, known
        means, stds = torch.stack(posterior.predicted).unbind(1)
        return to_unit(means.mean(0)), std_to_unit(stds.square().mean(0).sqrt()), known

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
class Regions:
    """Four kinds of missing entries: near or far, each smooth or textured.

    distance: (H, W, C) steps from the nearest known pixel of the channel. Beyond `far` an entry is far. smooth:
    the std, in [0, 1] units, up to which a near and a far entry is smooth.
    """

    distance: Floats
    far: float
    smooth: tuple[float, float]

    @classmethod
    def of(cls, known: Bools, std: Floats, held: HeldOut) -> Regions:
        """Limits that cut the held-out entries into four groups of about the same size."""
        steps = steps_from_known(torch.from_numpy(known.transpose(2, 0, 1).copy()))
        distance = steps.permute(1, 2, 0).contiguous().numpy()
        spread, away = std[held.entries], distance[held.entries]
        far = float(np.median(away))
        parts = [spread[away <= far], spread[away > far]]
        near_smooth, far_smooth = (float(np.median(part)) if part.size else 0.0 for part in parts)
        return cls(distance, far, (near_smooth, far_smooth))

    def labels(self, std: Floats) -> NDArray[np.int64]:
        """The region of each entry, 0 to 3, in the order of NAMES."""
        is_far = self.distance > self.far
        limit = np.where(is_far, self.smooth[1], self.smooth[0])
        return np.asarray(2 * is_far + (std > limit), np.int64)


NAMES = ("near, smooth", "near, textured", "far, smooth", "far, textured")


@dataclass(frozen=True)
class Calibration:
    """What the held-out entries said. factor: for the std. The lists go with `levels`.

    regions, by_region: the regions and their factors; None and () if there are too few held-out entries for them.
    """

    factor: float
    factors: list[float]
    coverage_before: list[float]
    coverage_after: list[float]
    held_out: int
    strokes: bool
    regions: Regions | None = None
    by_region: tuple[float, ...] = ()

    def factors_of(self, std: Floats) -> Floats:
        """The factor of each entry (H, W, C), given its std before: one where a pixel is known."""
        if self.regions is None:
            return np.full_like(std, self.factor)
        factors = np.asarray(self.by_region, np.float32)[self.regions.labels(std)]
        return np.where(self.regions.distance > 0, factors, np.float32(1))

    def as_dict(self) -> dict[str, Any]:
        """As stored in JSON, with what is and is not promised."""
        return {
            "factor": self.factor,
            "regions": dict(zip(NAMES, self.by_region, strict=False)),
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


def calibrate(
    values: Floats,
    mean: Floats,
    std: Floats,
    held: HeldOut,
    noise_std: float,
    *,
    regions: Regions | None = None,
    least: float = SMALLEST_FACTOR,
) -> Calibration:
    """Find the factors from the held-out entries' noisy values; all arrays (H, W, C) in [0, 1] units.

    least: the smallest factor. Where the noise was not inferred with the rest, errors below it show nothing.
    """
    error = np.abs(values - mean)[held.entries].astype(np.float64)
    spread = np.maximum(std[held.entries].astype(np.float64), SMALLEST_STD)
    noise_std = min(noise_std, _quietest(error, spread))
    factors = [_factor(error, spread, noise_std, level) for level in LEVELS]
    factor = _bounded(factors[LEVELS.index(MAIN_LEVEL)], least)
    labels = np.zeros(len(error), np.int64) if regions is None else regions.labels(std)[held.entries]
    counts = np.bincount(labels, minlength=len(NAMES))
    if regions is None or counts.min() < FEWEST_OF_REGION:
        regions, labels = None, np.zeros(len(error), np.int64)
    by_region = _by_region(error, spread, noise_std, labels, least)
    return Calibration(
        factor=factor,
        factors=[min(value, MOST_FACTOR) for value in factors],
        coverage_before=_coverage(error, spread, noise_std),
        coverage_after=_cross_checked(error, spread, noise_std, labels, least),
        held_out=int(held.entries.sum()),
        strokes=held.strokes,
        regions=regions,
        by_region=() if regions is None else tuple(by_region.tolist()),
    )


def _by_region(
    error: NDArray[np.float64],
    spread: NDArray[np.float64],
    noise: float,
    labels: NDArray[np.int64],
    least: float,
) -> NDArray[np.float64]:
    """The factor of each label; one that has no entry gets 1."""
    factors = np.ones(len(NAMES))
    for label in np.unique(labels):
        here = labels == label
        factors[label] = _bounded(_factor(error[here], spread[here], noise, MAIN_LEVEL), least)
    return factors


def _cross_checked(
    error: NDArray[np.float64],
    spread: NDArray[np.float64],
    noise: float,
    labels: NDArray[np.int64],
    least: float,
) -> list[float]:
    """Coverage of each half of the held-out entries with the factors of the other half, averaged."""
    half = np.arange(len(error)) % 2 == 0
    found = []
    for judged in (half, ~half):
        factors = _by_region(error[~judged], spread[~judged], noise, labels[~judged], least)
        found.append(_coverage(error[judged], factors[labels[judged]] * spread[judged], noise))
    return [float(value) for value in np.mean(found, axis=0)]


def _bounded(factor: float, least: float) -> float:
    return min(max(factor, least), MOST_FACTOR)


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
