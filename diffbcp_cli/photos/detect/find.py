"""From a picture to what is damaged in it, by one detector or another."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata

import cv2
import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ..mask_edit import grow
from . import lines, specks, stamps
from .ground import Bools, Floats, Ground
from .judge import beyond_doubt, judge_of

KINDS = ("dust", "scratch", "fold", "text")
_DOUBT = 2  # the same odds are divided by so many more powers of the sensitivity where a picture is judged
CLASSICAL, GROUP = "classical", "diffbcp.detectors"


@dataclass(frozen=True)
class Settings:
    """kinds: what to look for. sensitivity: the odds that are enough are divided by it. min_size: pixels.

    grow: pixels.
    """

    kinds: tuple[str, ...] = KINDS
    sensitivity: float = 1.0
    min_size: float = 0.0
    grow: float = 1.0


@dataclass(frozen=True)
class Found:
    """observed: (H, W, 1), False where there is damage. counts: places by kind."""

    observed: Bools
    counts: Mapping[str, int] = field(default_factory=dict)


Detector = Callable[[Floats, Settings], Mapping[str, Bools]]
"""Gets a picture (H, W, 3) in [0, 1], and what is wanted; returns for each kind where it is, (H, W) bool."""


def detectors() -> dict[str, Callable[[], Detector]]:
    """Every detector by name, to be loaded when it is called."""
    found: dict[str, Callable[[], Detector]] = {CLASSICAL: lambda: classical}
    for point in metadata.entry_points(group=GROUP):
        found[point.name] = point.load
    return found


def detect(pixels: Floats, settings: Settings, *, detector: str = CLASSICAL) -> Found:
    """Find the damage of a picture (H, W, C) in [0, 1]; NaN counts as mid-grey."""
    known = detectors()
    if detector not in known:
        raise UsageError(
            f"there is no detector {detector!r}", hint=f"--detector {' or '.join(sorted(known))}"
        )
    finite = np.nan_to_num(pixels, nan=0.5, posinf=1.0, neginf=0.0).clip(0, 1)
    rgb = np.ascontiguousarray(np.broadcast_to(finite, (*pixels.shape[:2], 3)), np.float32)
    everything, counts = np.zeros(pixels.shape[:2], bool), {}
    for kind, where in known[detector]()(rgb, settings).items():
        kept = _large_enough(where, settings.min_size)
        counts[kind] = int(cv2.connectedComponents(kept.astype(np.uint8), connectivity=8)[0]) - 1
        everything |= kept
    observed = ~everything[..., None]
    return Found(grow(observed, settings.grow) if everything.any() and settings.grow else observed, counts)


def _large_enough(where: Bools, least: float) -> Bools:
    if least <= 1:
        return where
    _, labels, stats, _ = cv2.connectedComponentsWithStats(where.astype(np.uint8), connectivity=8)
    kept = stats[:, cv2.CC_STAT_AREA] >= least
    kept[0] = False
    return np.asarray(kept[labels])


@dataclass(frozen=True)
class _Candidates:
    """features: (count, F). draw(chosen (count,)): where the chosen ones are, (H, W)."""

    features: Floats
    draw: Callable[[NDArray[np.bool_]], Bools]


def classical(pixels: Floats, settings: Settings) -> dict[str, Bools]:
    """Candidates by their residual, judged by their numbers.

    Where all of them together leave no doubt that the picture is a damaged one, lower odds are enough.
    """
    ground, gain = Ground(pixels), math.log(settings.sensitivity)
    find = {"dust": _dust, "scratch": _scratches, "fold": _folds, "text": _text}
    found = {kind: find[kind](ground) for kind in settings.kinds}
    odds = {kind: judge_of(kind).odds(one.features) + gain for kind, one in found.items()}
    damaged = beyond_doubt({kind: one + _DOUBT * gain for kind, one in odds.items()})
    least = {kind: judge_of(kind).usual if damaged else judge_of(kind).strict for kind in found}
    return {kind: one.draw(odds[kind] > least[kind]) for kind, one in found.items()}


def _dust(ground: Ground) -> _Candidates:
    found = specks.find_specks(ground)
    return _Candidates(found.features, lambda good: np.asarray(np.concatenate([[False], good])[found.labels]))


def _scratches(ground: Ground) -> _Candidates:
    found = lines.find_lines(ground, lines.SCRATCH)
    return _Candidates(found.features, lambda good: lines.draw_lines(ground, found, good))


def _folds(ground: Ground) -> _Candidates:
    found = lines.find_lines(ground, lines.FOLD)
    return _Candidates(found.features, lambda good: lines.draw_lines(ground, found, good))


def _text(ground: Ground) -> _Candidates:
    found = stamps.find_stamps(ground)
    height, width = ground.pixels.shape[:2]

    def draw(chosen: NDArray[np.bool_]) -> Bools:
        where: Bools = np.zeros((height, width), bool)
        for mask, good in zip(found.masks, chosen, strict=True):
            if good:
                full = cv2.resize(
                    mask.astype(np.uint8), (width, height), interpolation=cv2.INTER_LINEAR_EXACT
                )
                where |= full > 0
        return where

    return _Candidates(found.features, draw)
