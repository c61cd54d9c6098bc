"""The document of `diffbcp eval`: means over the pictures of each set, with bootstrap intervals.

Its layout is that of docs/reference/eval-json.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import calibration
from .arrays import Array
from .pairs import Matches
from .score import METRICS, Failure, Record, Score, Settings


@dataclass(frozen=True)
class Results:
    """Everything about one set of results: which files matched, their scores, and what failed."""

    matches: Matches
    scores: Sequence[Score]
    failures: Sequence[Failure]


def document(sets: Mapping[str, Results], settings: Settings, not_computed: Mapping[str, str]) -> Record:
    """Return the document. One set has its summary at the top level.

    Several sets are under `methods` by name, and their paired differences from the first set under `differences`.
    """
    head: Record = {
        "conventions": conventions(settings, lpips_computed="lpips" not in not_computed),
        "not_computed": dict(not_computed),
    }
    bodies = {name: _body(found, settings) for name, found in sets.items()}
    if len(bodies) == 1:
        return head | next(iter(bodies.values()))
    (first, base), *others = sets.items()
    against = {name: differences(base.scores, found.scores, settings) for name, found in others}
    return head | {"methods": bodies, "differences": {"from": first, "to": against}}


def _body(found: Results, settings: Settings) -> Record:
    failed = [(failure.name, failure.error) for failure in found.failures]
    return summarize(found.scores, settings) | {
        "failed": [{"name": name, "error": error.message, "hint": error.hint} for name, error in failed],
        "unmatched": {"results": list(found.matches.lone_results), "truth": list(found.matches.lone_truths)},
    }


def conventions(settings: Settings, *, lpips_computed: bool) -> Record:
    """How each number was computed; printed with the table and stored with the numbers."""
    fed = {"standard": "[-1, 1]", "paper": "[0, 1], as the paper's code does"}
    trunk = "AlexNet" if settings.lpips_net == "alex" else "VGG16"
    window = "Gaussian window 11, std 1.5, k 0.01 and 0.03, data range 1"
    return {
        "psnr": "data range 1, over all pixels and channels",
        "ssim": f"{window}, valid region, mean over channels (MONAI's defaults)",
        "ms_ssim": f"{window}, five scales, weights 0.0448 0.2856 0.3001 0.2363 0.1333",
        "lpips": f"{settings.lpips}: {trunk}, linear heads v0.1, fed {fed[settings.lpips]}"
        if settings.lpips and lpips_computed
        else "not computed",
        "mae": "mean absolute error, pictures in [0, 1]",
        "regions": "SSIM counts the windows centred in the region; a mask may differ by channel",
        "mask_polarity": settings.mask_polarity,
        "coverage": "share of the truth inside central intervals: of the draws by rank when there are draws, "
        "else mean +- z std, where a truth of 8 or 16 bits counts by the share of its rounding cell inside",
        "crps": "of the draws (unbiased) when there are draws, else of a Gaussian; pictures in [0, 1]",
        "nll": f"Gaussian, natural logarithm, std at least {calibration.STD_FLOOR:.2g}",
        "ause": "mean absolute error left over that of all, area between std and oracle",
        "interval": f"95 %, percentile bootstrap over images, {settings.resamples} resamples, "
        f"seed {settings.seed}",
    }


# ---- means and differences ----


def summarize(scores: Sequence[Score], settings: Settings) -> Record:
    """Means over the pictures of a set with 95 % intervals, in the layout of a record, and mean curves."""
    numbers: dict[str, list[float]] = {}
    for one in scores:
        for path, value in _numbers(one.record):
            numbers.setdefault(path, []).append(value)
    mean: Record = {}
    interval: Record = {}
    for path, values in numbers.items():
        found = _bootstrap(values, settings)
        _put(mean, path, found.mean)
        _put(interval, path, found.ends)
    return {
        "count": len(scores),
        "mean": mean,
        "interval": interval,
        "curves": _mean_curves(scores),
        "images": [one.record for one in scores],
    }


def differences(first: Sequence[Score], other: Sequence[Score], settings: Settings) -> Record:
    """Mean of other - first over the pictures in both, with 95 % intervals of the paired differences."""
    mine = {one.record["name"]: one.record for one in first}
    found: Record = {}
    for metric in METRICS:
        gaps = [
            one.record[metric] - mine[one.record["name"]][metric]
            for one in other
            if one.record.get(metric) is not None and mine.get(one.record["name"], {}).get(metric) is not None
        ]
        if gaps:
            mean = _bootstrap(gaps, settings)
            found[metric] = {"mean": mean.mean, "interval": mean.ends, "count": mean.count}
    return found


def _mean_curves(scores: Sequence[Score]) -> Record:
    """Curves by region, averaged over the pictures that have them; empty without uncertainty."""
    regions: dict[str, dict[str, list[list[float]]]] = {}
    for one in scores:
        for region, curves in one.curves.items():
            for name, values in curves.items():
                regions.setdefault(region, {}).setdefault(name, []).append(values)
    if not regions:
        return {}
    steps = calibration.SPARSIFICATION_STEPS
    return {
        "levels": list(calibration.RELIABILITY_LEVELS),
        "removed": [step / steps for step in range(steps)],
        **{
            region: {name: np.mean(values, axis=0).tolist() for name, values in curves.items()}
            for region, curves in regions.items()
        },
    }


_NOT_AVERAGED = ("width", "height", "channels", "draws")


def _numbers(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a record with its dotted path."""
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and key not in _NOT_AVERAGED:
            yield prefix + key, float(value)


def _put(tree: Record, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        tree = tree.setdefault(parent, {})
    tree[last] = value


# ---- the bootstrap ----


@dataclass(frozen=True)
class Interval:
    """A mean over `count` pictures and its bootstrap interval; fewer than two pictures give no interval."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def ends(self) -> list[float] | None:
        """The interval as the document has it."""
        return None if self.low is None or self.high is None else [self.low, self.high]


def bootstrap_mean(
    values: Sequence[float] | Array,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = 2000,
) -> Interval:
    """Mean of values (n,) and its percentile bootstrap interval; nan and infinite values are left out."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    n = finite.size
    if n == 0:
        return Interval(math.nan, None, None, 0)
    mean = float(finite.mean())
    if n < 2:
        return Interval(mean, None, None, n)
    rows = max(1, 1_000_000 // n)  # resamples at a time
    blocks = [min(rows, resamples - done) for done in range(0, resamples, rows)]
    means = np.concatenate([finite[rng.integers(0, n, size=(block, n))].mean(axis=1) for block in blocks])
    low, high = np.quantile(means, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    return Interval(mean, float(low), float(high), n)


def _bootstrap(values: Sequence[float], settings: Settings) -> Interval:
    """Every metric gets the same resamples, from the same seed."""
    rng = np.random.default_rng(settings.seed)
    return bootstrap_mean(values, rng=rng, resamples=settings.resamples)
