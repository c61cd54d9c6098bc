"""Score one result against its truth: a record of all metrics.

A record is a plain dictionary in the layout of `diffbcp eval --json` (docs/reference/eval-json.md). Every number is
finite or None. If a number could not be computed, `not_computed` says why.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..photos.masks import Polarity
from ..photos.photo import Photo
from . import calibration, metrics
from .arrays import Mask
from .lpips import Feed, LpipsNetwork, Net, lpips
from .pairs import Pair
from .read import Floats, read_pair, read_region, read_samples, read_std

Record: TypeAlias = dict[str, Any]
Curves: TypeAlias = Mapping[str, list[float]]

METRICS = ("psnr", "ssim", "ms_ssim", "lpips", "mae")
_ROUNDING = {"uint8": 1.0 / 255.0, "uint16": 1.0 / 65535.0}


@dataclass(frozen=True)
class Settings:
    """How to score.

    lpips: the input range of its network, None to leave LPIPS out. lpips_net: its features.
    seed, resamples: of the bootstrap.
    """

    lpips: Feed | None = None
    lpips_net: Net = "vgg"
    mask_polarity: Polarity = "white-fills"
    seed: int = 0
    resamples: int = 2000

    @classmethod
    def of(cls, network: LpipsNetwork | None, lpips: str, *, mask_polarity: Polarity, seed: int) -> Settings:
        """Settings for a network of LPIPS, None to leave it out; lpips: what was asked for, `paper` or another."""
        if network is None:
            return cls(mask_polarity=mask_polarity, seed=seed)
        feed: Feed = "paper" if lpips == "paper" else "standard"
        return cls(feed, network.net, mask_polarity, seed)


@dataclass(frozen=True)
class Score:
    """The scores of one pair. curves: by region, to be averaged over the set; not part of the record."""

    pair: Pair
    record: Record
    curves: Mapping[str, Curves] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A pair that could not be scored, and why."""

    name: str
    error: InputError


def score_all(
    pairs: Iterable[Pair], settings: Settings, network: LpipsNetwork | None = None
) -> Iterator[Score | Failure]:
    """Score pair after pair. A pair that cannot be scored yields a Failure, and the rest go on."""
    for pair in pairs:
        try:
            yield score(pair, settings, network)
        except InputError as error:
            yield Failure(pair.name, error)
        except MemoryError:
            raise
        except Exception as error:  # a damaged file beside one result must not end the others
            reason = f"{type(error).__name__}: {error}".split("\n")[0]
            yield Failure(pair.name, InputError(f"{pair.name} cannot be scored: {reason}"))


def score(pair: Pair, settings: Settings, network: LpipsNetwork | None = None) -> Score:
    """Read one pair and compute every metric that its files allow."""
    restored, exact = read_pair(pair)
    result, truth = restored.pixels, exact.pixels
    missing: dict[str, str] = {}
    observed, problem = read_region(pair, restored, settings.mask_polarity)
    if problem is not None:
        missing["regions"] = problem
    record: Record = {
        "name": pair.name,
        "result": str(pair.result),
        "truth": str(pair.truth),
        "width": truth.shape[1],
        "height": truth.shape[0],
        "channels": truth.shape[2],
    }
    record |= _fidelity(result, truth, settings, network, missing)
    regions = {} if observed is None else {"filled": ~observed, "observed": observed}
    record["regions"] = {
        name: _region(result, truth, where) for name, where in regions.items() if where.any()
    }
    curves: Mapping[str, Curves] = {}
    if pair.std is not None or pair.samples is not None:
        record["calibration"], curves = _calibration(pair, result, exact, regions)
    record["not_computed"] = missing
    return Score(pair, record, curves)


def _fidelity(
    result: Floats,
    truth: Floats,
    settings: Settings,
    network: LpipsNetwork | None,
    missing: dict[str, str],
) -> Record:
    """All metrics of the whole picture. A metric that cannot be computed is None, and `missing` says why."""
    feed = settings.lpips
    todo: dict[str, Callable[[], float]] = {
        "psnr": lambda: metrics.psnr(result, truth),
        "ssim": lambda: metrics.ssim(result, truth),
        "ms_ssim": lambda: metrics.ms_ssim(result, truth),
        "mae": lambda: metrics.mae(result, truth),
    }
    if network is not None and feed is not None:
        todo["lpips"] = lambda: lpips(result, truth, network, feed=feed)
    record: Record = dict.fromkeys(METRICS)
    for name, compute in todo.items():
        try:
            value = compute()
        except InputError as error:
            record[name], missing[name] = None, error.message
            continue
        record[name] = _finite(value)
        if math.isinf(value):
            missing[name] = "infinite: the pictures are equal"
    return record


def _region(result: Floats, truth: Floats, where: Mask) -> Record:
    small = min(truth.shape[:2]) < metrics.SSIM_MIN_SIDE
    return {
        "share": float(where.mean()),
        "psnr": _finite(metrics.psnr(result, truth, where)),
        "ssim": None if small else _finite(metrics.ssim(result, truth, where)),
        "mae": metrics.mae(result, truth, where),
    }


def _calibration(
    pair: Pair, result: Floats, exact: Photo, regions: Mapping[str, Mask]
) -> tuple[Record, dict[str, Curves]]:
    """Scores of the uncertainty, and its curves, for the whole picture and each region."""
    truth, step = exact.pixels, _ROUNDING.get(exact.depth, 0.0)
    std = read_std(pair, truth.shape)
    draws = read_samples(pair, truth.shape)
    if std is None:
        raise InputError(f"{pair.name} has a single draw and no std to check", hint="save more draws")
    record: Record = {
        "source": "gaussian" if draws is None else "samples",
        "draws": None if draws is None else len(draws),
    }
    curves: dict[str, Curves] = {}
    for name, where in {"whole": None, **regions}.items():
        if where is None or where.any():
            record[name], curves[name] = _calibration_in(result, std, draws, truth, where, step)
    return record, curves


def _calibration_in(
    mean: Floats,
    std: Floats,
    draws: NDArray[Any] | None,
    truth: Floats,
    where: Mask | None,
    step: float,
) -> tuple[Record, Curves]:
    """Scores and curves of one region: from the draws if there are any, else from mean and std."""
    levels = calibration.RELIABILITY_LEVELS
    if draws is None:
        covered = calibration.coverage(mean, std, truth, levels, where, step=step)
        crps = calibration.crps_gaussian(mean, std, truth, where)
    else:
        covered = calibration.coverage_from_samples(draws, truth, levels, where)
        crps = calibration.crps_from_samples(draws, truth, where)
    curve = calibration.sparsification(mean, std, truth, where)
    inside = std if where is None else std[where]
    record = {
        "coverage": {f"{100 * p:g}": float(covered[levels.index(p)]) for p in calibration.LEVELS},
        "correlation": _finite(calibration.error_correlation(mean, std, truth, where)),
        "rank_correlation": _finite(calibration.error_rank_correlation(mean, std, truth, where)),
        "ause": curve.area,
        "crps": crps,
        "nll": calibration.gaussian_nll(mean, std, truth, where),
        "mean_std": float(inside.mean(dtype=np.float64)),
    }
    return record, {
        "reliability": covered.tolist(),
        "by_std": curve.by_std.tolist(),
        "by_error": curve.by_error.tolist(),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
