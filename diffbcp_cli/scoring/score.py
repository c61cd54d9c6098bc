"""Score results against the truth: one record per picture, means with intervals per set.

Records are plain dictionaries in the layout of `diffbcp eval --json` (docs/reference/eval-json.md): every
number is finite or None, and a number that could not be computed has its reason under `not_computed`.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..photos.masks import ALPHA, Polarity, missing_share, read_mask
from ..photos.photo import Photo, read_photo
from . import metrics
from .lpips import Feed, LpipsNetwork
from .pairs import Matches, Pair, read_run
from .report import View

Record: TypeAlias = dict[str, Any]
Floats: TypeAlias = NDArray[np.float32]
Mask: TypeAlias = NDArray[np.bool_]

METRICS = ("psnr", "ssim", "ms_ssim", "lpips", "mae")
_STEPS = {"uint8": 1.0 / 255.0, "uint16": 1.0 / 65535.0}


@dataclass(frozen=True)
class Settings:
    """How to score. lpips: how its network is fed, None to leave it out. seed: of the bootstrap."""

    lpips: Feed | None = None
    mask_polarity: Polarity = "white-fills"
    seed: int = 0
    resamples: int = 2000


@dataclass(frozen=True)
class Score:
    """What one pair came to. curves: by region, for the means over the set; not part of the record."""

    pair: Pair
    record: Record
    curves: Mapping[str, Mapping[str, list[float]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A pair that could not be scored, and why."""

    name: str
    error: InputError


def score_all(
    pairs: Iterable[Pair], settings: Settings, network: LpipsNetwork | None = None
) -> Iterator[Score | Failure]:
    """Score pair after pair; a pair that cannot be scored becomes a Failure and the rest go on."""
    for pair in pairs:
        try:
            yield score(pair, settings, network)
        except InputError as error:
            yield Failure(pair.name, error)


def score(pair: Pair, settings: Settings, network: LpipsNetwork | None = None) -> Score:
    """Read one pair and compute all that can be computed of it."""
    restored, exact = read_pair(pair)
    result, truth = restored.pixels, exact.pixels
    missing: dict[str, str] = {}
    observed = read_region(pair, restored, settings, missing)
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
    curves: Mapping[str, Mapping[str, list[float]]] = {}
    if pair.std is not None or pair.samples is not None:
        record["calibration"], curves = _calibration(pair, result, exact, regions)
    record["not_computed"] = missing
    return Score(pair, record, curves)


def read_pair(pair: Pair) -> tuple[Photo, Photo]:
    """Read result and truth: pixels (H, W, C) in [0, 1], all of them numbers, and of one size."""
    result, truth = read_photo(pair.result), read_photo(pair.truth)
    for photo in (result, truth):
        if not np.isfinite(photo.pixels).all():
            raise InputError(f"{photo.path} has pixels that are not numbers", hint="export it once more")
    if result.pixels.shape != truth.pixels.shape:
        raise InputError(
            f"{pair.result.name} is {_size(result)} but {pair.truth.name} is {_size(truth)}",
            hint="compare pictures of one size and kind; was one of them resized or turned?",
        )
    return result, truth


def read_region(pair: Pair, result: Photo, settings: Settings, missing: dict[str, str]) -> Mask | None:
    """Read the pair's mask, (H, W, C) True = observed; None without one.

    Without a mask of its own the pair has the one that the run's JSON file names, if that is still there
    and still leaves out what it did; `missing` says so if not.
    """
    if pair.mask is not None:
        return read_mask(pair.mask, result, polarity=settings.mask_polarity)
    run = read_run(pair.run)
    if run.mask is None:
        return None
    if not run.mask.is_file() and str(run.mask) != ALPHA:
        missing["regions"] = f"the run's mask {run.mask} is not there; give it with --mask"
        return None
    polarity: Polarity = "white-keeps" if run.polarity == "white-keeps" else "white-fills"
    observed = read_mask(run.mask, result, polarity=polarity)
    if run.missing_share is not None and abs(missing_share(observed) - run.missing_share) > 1e-6:
        missing["regions"] = f"{run.mask} is no longer the mask of the run; give the right one with --mask"
        return None
    return observed


def read_std(pair: Pair, shape: tuple[int, ...]) -> Floats | None:
    """Read the pair's standard deviations, (H, W, C); from the draws if there is no file of its own."""
    if pair.std is not None:
        std = read_photo(pair.std).pixels
        if std.shape != shape:
            raise InputError(f"{pair.std.name} has shape {std.shape} but the picture has {shape}")
        return std
    draws = read_samples(pair, shape)
    return None if draws is None else np.asarray(draws.std(axis=0, ddof=1, dtype=np.float64), np.float32)


def read_samples(pair: Pair, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Read the pair's draws, (S, H, W, C) in [0, 1]; None without at least two."""
    if pair.samples is None:
        return None
    try:
        with np.load(pair.samples, allow_pickle=False) as file:
            key = "samples" if "samples" in file.files else file.files[0]
            draws = file[key]
    except (OSError, ValueError, IndexError, zipfile.BadZipFile) as error:
        raise InputError(f"{pair.samples.name} cannot be read as draws: {error}") from error
    if draws.dtype.kind in "ui":
        draws = draws.astype(np.float32) / np.float32(np.iinfo(draws.dtype).max)
    draws = draws[..., None] if draws.ndim == 3 else draws
    if draws.ndim != 4 or draws.shape[1:] != shape:
        raise InputError(f"{pair.samples.name} has shape {draws.shape} but the picture has {shape}")
    return draws if len(draws) > 1 else None


def _size(photo: Photo) -> str:
    return f"{photo.width}x{photo.height} {'grey' if photo.grey else 'RGB'}"


def _fidelity(
    result: Floats,
    truth: Floats,
    settings: Settings,
    network: LpipsNetwork | None,
    missing: dict[str, str],
) -> Record:
    """All metrics of the whole picture; what cannot be had is None, with its reason in `missing`."""
    feed = settings.lpips
    todo: dict[str, Callable[[], float]] = {
        "psnr": lambda: metrics.psnr(result, truth),
        "ssim": lambda: metrics.ssim(result, truth),
        "ms_ssim": lambda: metrics.ms_ssim(result, truth),
        "mae": lambda: metrics.mae(result, truth),
    }
    if network is not None and feed is not None:
        todo["lpips"] = lambda: metrics.lpips(result, truth, network, feed=feed)
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


# ---- uncertainty ----


def _calibration(
    pair: Pair, result: Floats, exact: Photo, regions: Mapping[str, Mask]
) -> tuple[Record, dict[str, Mapping[str, list[float]]]]:
    truth, step = exact.pixels, _STEPS.get(exact.depth, 0.0)
    std = read_std(pair, truth.shape)
    draws = read_samples(pair, truth.shape)
    if std is None:
        raise InputError(f"{pair.name} has a single draw and no std to check", hint="save more draws")
    record: Record = {
        "source": "gaussian" if draws is None else "samples",
        "draws": None if draws is None else len(draws),
    }
    curves: dict[str, Mapping[str, list[float]]] = {}
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
) -> tuple[Record, Mapping[str, list[float]]]:
    levels = metrics.RELIABILITY_LEVELS
    if draws is None:
        covered = metrics.coverage(mean, std, truth, levels, where, step=step)
        crps = metrics.crps_gaussian(mean, std, truth, where)
    else:
        covered = metrics.coverage_from_samples(draws, truth, levels, where)
        crps = metrics.crps_from_samples(draws, truth, where)
    curve = metrics.sparsification(mean, std, truth, where)
    spread = std if where is None else std[where]
    record = {
        "coverage": {_percent(level): float(covered[levels.index(level)]) for level in metrics.LEVELS},
        "correlation": _finite(metrics.error_correlation(mean, std, truth, where)),
        "rank_correlation": _finite(metrics.error_rank_correlation(mean, std, truth, where)),
        "ause": curve.area,
        "crps": crps,
        "nll": metrics.gaussian_nll(mean, std, truth, where),
        "mean_std": float(spread.mean(dtype=np.float64)),
    }
    return record, {
        "reliability": covered.tolist(),
        "by_std": curve.by_std.tolist(),
        "by_error": curve.by_error.tolist(),
    }


def _percent(level: float) -> str:
    return f"{100 * level:g}"


# ---- sets ----


def summarize(scores: Sequence[Score], settings: Settings) -> Record:
    """Means over the pictures of a set with 95 % intervals, in the layout of a record, and mean curves."""
    numbers: dict[str, list[float]] = {}
    for one in scores:
        for key, value in _numbers(one.record):
            numbers.setdefault(key, []).append(value)
    mean: Record = {}
    interval: Record = {}
    for key, values in numbers.items():
        rng = np.random.default_rng(settings.seed)  # the same resamples for every metric
        found = metrics.bootstrap_mean(values, rng=rng, resamples=settings.resamples)
        _put(mean, key, found.mean)
        _put(interval, key, None if found.low is None else [found.low, found.high])
    return {
        "count": len(scores),
        "mean": mean,
        "interval": interval,
        "curves": _mean_curves(scores),
        "images": [one.record for one in scores],
    }


@dataclass(frozen=True)
class Results:
    """All that came of one set of results."""

    matches: Matches
    scores: Sequence[Score]
    failures: Sequence[Failure]


def document(sets: Mapping[str, Results], settings: Settings, not_computed: Mapping[str, str]) -> Record:
    """Everything that is known, in the layout of docs/reference/eval-json.md.

    One set gives its summary at the top level; several are under `methods` by name, with the paired
    differences from the first under `differences`.
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


def views(sets: Mapping[str, Results], settings: Settings, *, limit: int) -> Iterator[View]:
    """Read the pictures of at most `limit` names again, for show: evenly from the worst to the best PSNR.

    Results are under the names that the document has for the sets: a single set has the empty one.
    """
    sets = sets if len(sets) > 1 else {"": next(iter(sets.values()))}
    first = next(iter(sets.values()))
    ranked = sorted(first.scores, key=lambda one: one.record["psnr"] or math.inf)
    places = np.unique(np.linspace(0, len(ranked) - 1, min(limit, len(ranked))).round().astype(int))
    chosen = {ranked[place].pair.name for place in places}
    for one in first.scores:
        if one.pair.name in chosen:
            yield _view(one.pair, sets, settings)


def _view(pair: Pair, sets: Mapping[str, Results], settings: Settings) -> View:
    restored, exact = read_pair(pair)
    truth = exact.pixels
    results: dict[str, Floats] = {}
    stds: dict[str, Floats] = {}
    for method, found in sets.items():
        mine = next((one.pair for one in found.scores if one.pair.name == pair.name), None)
        if mine is None:
            continue
        results[method] = read_pair(mine)[0].pixels
        std = read_std(mine, truth.shape)
        if std is not None:
            stds[method] = std
    observed = read_region(pair, restored, settings, {})
    return View(pair.name, truth, _before(pair, truth, observed), results, stds)


def _before(pair: Pair, truth: Floats, observed: Mask | None) -> Floats | None:
    """What the run had to go by: its photograph (else the truth) with missing entries 0; None if unknown."""
    source = read_run(pair.run).photo
    given = None
    if source is not None and source.is_file():
        try:
            given = read_photo(source).pixels
        except InputError:
            given = None
    if given is None or given.shape != truth.shape:
        given = None if observed is None else truth
    if given is None or observed is None:
        return given
    return np.where(observed, np.nan_to_num(given), np.float32(0.0))


def differences(first: Sequence[Score], other: Sequence[Score], settings: Settings) -> Record:
    """Mean of other - first over the pictures that both have, with 95 % intervals of the differences."""
    mine = {one.record["name"]: one.record for one in first}
    found: Record = {}
    for metric in METRICS:
        gaps = [
            one.record[metric] - mine[one.record["name"]][metric]
            for one in other
            if one.record.get(metric) is not None and mine.get(one.record["name"], {}).get(metric) is not None
        ]
        if gaps:
            rng = np.random.default_rng(settings.seed)
            mean = metrics.bootstrap_mean(gaps, rng=rng, resamples=settings.resamples)
            interval = None if mean.low is None else [mean.low, mean.high]
            found[metric] = {"mean": mean.mean, "interval": interval, "count": mean.count}
    return found


def conventions(settings: Settings, *, lpips_computed: bool) -> Record:
    """Say how each number was made; printed with the table and stored with the numbers."""
    fed = {"standard": "[-1, 1]", "paper": "[0, 1], as the paper's code does"}
    window = "Gaussian window 11, std 1.5, k 0.01 and 0.03, data range 1"
    return {
        "psnr": "data range 1, over all pixels and channels",
        "ssim": f"{window}, valid region, mean over channels (MONAI's defaults)",
        "ms_ssim": f"{window}, five scales, weights 0.0448 0.2856 0.3001 0.2363 0.1333",
        "lpips": f"{settings.lpips}: VGG16, linear heads v0.1, fed {fed[settings.lpips]}"
        if settings.lpips and lpips_computed
        else "not computed",
        "mae": "mean absolute error, pictures in [0, 1]",
        "regions": "SSIM counts the windows centred in the region; a mask may differ by channel",
        "mask_polarity": settings.mask_polarity,
        "coverage": "share of the truth inside central intervals: of the draws by rank when there are draws, "
        "else mean +- z std, where a truth of 8 or 16 bits counts by the share of its rounding cell inside",
        "crps": "of the draws (unbiased) when there are draws, else of a Gaussian; pictures in [0, 1]",
        "nll": f"Gaussian, natural logarithm, std at least {metrics.STD_FLOOR:.2g}",
        "ause": "mean absolute error left over that of all, area between std and oracle",
        "interval": f"95 %, percentile bootstrap over images, {settings.resamples} resamples, "
        f"seed {settings.seed}",
    }


def _mean_curves(scores: Sequence[Score]) -> Record:
    """Curves averaged over the pictures that have them, by region; empty without uncertainty."""
    regions: dict[str, dict[str, list[list[float]]]] = {}
    for one in scores:
        for region, curves in one.curves.items():
            for name, values in curves.items():
                regions.setdefault(region, {}).setdefault(name, []).append(values)
    if not regions:
        return {}
    steps = metrics.SPARSIFICATION_STEPS
    return {
        "levels": list(metrics.RELIABILITY_LEVELS),
        "removed": [step / steps for step in range(steps)],
        **{
            region: {name: np.mean(values, axis=0).tolist() for name, values in curves.items()}
            for region, curves in regions.items()
        },
    }


_NOT_AVERAGED = ("width", "height", "channels", "draws")


def _numbers(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Yield every number of a record under its dotted path."""
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


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
