"""Intervals that cover what they claim: hold out known pixels, see how far off they are, rescale the std.

Split conformal prediction. Of the held-out pixels only noisy values y = x + e are known, so a factor f is
judged by the noisy interval: |y - mean| <= z sqrt(f^2 std^2 + noise^2). The smallest f that pixel i asks for
is sqrt((y - mean)^2 / z^2 - noise^2) / std, and the conformal quantile of these makes the noisy interval
cover a new pixel as claimed, if it is exchangeable with the held-out ones. mean +- z f std then covers the
clean pixel as far as the noise level is right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ..errors import InputError
from ..run.diagnostics import conformal_factor

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

LEVELS = (0.5, 0.8, 0.9, 0.95)
MAIN_LEVEL = 0.9  # the std is rescaled for this one
SHARE = 0.05  # of the known entries
MOST, FEWEST = 30_000, 100  # entries held out
SMALLEST_FACTOR, SMALLEST_STD = 0.1, 1e-6
_SCATTERED = 0.7
_TRIES = 20000


@dataclass(frozen=True)
class HeldOut:
    """Known entries (H, W, C) that the sampler is not shown; strokes: in pieces shaped like the holes."""

    entries: Bools
    strokes: bool


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


def pooled(found: Sequence[Calibration]) -> Calibration:
    """What the held-out entries of all windows say: means by their numbers. Each window kept its own factor."""
    total = sum(one.held_out for one in found)

    def mean(values: Sequence[float]) -> float:
        return sum(one.held_out * value for one, value in zip(found, values, strict=True)) / total

    def means(lists: Sequence[list[float]]) -> list[float]:
        return [mean(values) for values in zip(*lists, strict=True)]

    return Calibration(
        factor=mean([one.factor for one in found]),
        factors=means([one.factors for one in found]),
        coverage_before=means([one.coverage_before for one in found]),
        coverage_after=means([one.coverage_after for one in found]),
        held_out=total,
        strokes=any(one.strokes for one in found),
    )


_PIXELS = (
    "held-out pixels were drawn at random, like the missing ones: the 90 % interval covers missing pixels "
    "in 90 % of cases on average over the picture, not at each place"
)
_STROKES = (
    "pieces shaped like the holes were held out elsewhere in the picture: the 90 % interval covers in 90 % of "
    "cases where the holes hide what the rest of the picture shows, and no promise holds for a hole larger "
    "than the pieces, or one that hides something that is nowhere else"
)


def can_hold_out(observed: Bools) -> bool:
    """Whether enough is known to hold some of it out."""
    return bool(observed.sum() >= 4 * FEWEST)


def hold_out(observed: Bools, *, rng: Generator) -> HeldOut:
    """Choose known entries to hold out, observed (H, W, C): single ones if the missing are, else strokes."""
    wanted = min(MOST, max(FEWEST, int(SHARE * observed.sum())))
    if not can_hold_out(observed):
        raise InputError("too few known pixels to hold some out", hint="run without --calibrate")
    strokes = not is_scattered(observed)
    return HeldOut(like_missing(observed, wanted, side=min(observed.shape[:2]) // 6, rng=rng), strokes)


def like_missing(observed: Bools, wanted: int, *, side: int, rng: Generator) -> Bools:
    """Choose about `wanted` known entries: single ones if the missing are, else strokes in windows of this side."""
    if is_scattered(observed):
        return scatter(observed, wanted, rng=rng)
    return _strokes(observed, wanted, max(4, side), rng)


def is_scattered(observed: Bools) -> bool:
    """Whether missing entries have about as many known neighbours as known ones have."""
    if observed.all() or not observed.any():
        return True
    padded = np.pad(observed.astype(np.float32), ((1, 1), (1, 1), (0, 0)), mode="edge")
    height, width = observed.shape[:2]
    around = sum(
        padded[1 + down : 1 + down + height, 1 + right : 1 + right + width]
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if down or right
    )
    counts = np.asarray(around)
    return bool(counts[~observed].mean() >= _SCATTERED * counts[observed].mean())


def scatter(observed: Bools, wanted: int, *, rng: Generator) -> Bools:
    """Choose known entries at random; whole pixels if the mask is the same in every channel."""
    whole = bool((observed == observed[..., :1]).all())
    choices = np.flatnonzero(observed[..., 0] if whole else observed)
    count = max(1, wanted // observed.shape[2]) if whole else wanted
    held = np.zeros(observed.shape[:2] if whole else observed.shape, bool)
    held.flat[rng.choice(choices, min(count, len(choices) // 2), replace=False)] = True
    return np.repeat(held[..., None], observed.shape[2], axis=2) if whole else held


def _strokes(observed: Bools, wanted: int, side: int, rng: Generator) -> Bools:
    """Pieces of the missing pattern itself, `side` pixels wide, mirrored and moved to known places."""
    height, width = observed.shape[:2]
    held = np.zeros_like(observed)
    missing = np.flatnonzero((~observed).any(2))
    known = np.flatnonzero(observed.any(2))
    count = 0
    for _ in range(_TRIES):
        if count >= wanted:
            break
        (row, column), (top, left) = (divmod(int(rng.choice(places)), width) for places in (missing, known))
        across, down = (rng.choice([-1, 1]) * np.arange(-(side // 2), side - side // 2) for _ in range(2))
        pattern = ~observed[(row + down)[:, None] % height, (column + across) % width]
        window = (
            slice(max(0, top - side // 2), top - side // 2 + side),
            slice(max(0, left - side // 2), left - side // 2 + side),
        )
        there = observed[window] & ~held[window]
        piece = there & pattern[-there.shape[0] :, -there.shape[1] :]
        held[window] |= piece
        count += int(piece.sum())
    return held


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
