"""Whether the uncertainty of a result can be believed: coverage, proper scores, and the ranking of errors.

Pictures and regions: see arrays.py. Everything is computed in float64, some rows at a time. Conventions:

CRPS  of draws: the fair (unbiased) estimate; of mean and std: the closed form of a Gaussian.
Ranks and orders are of at most some `MOST_RANKED` entries; of more, that many are chosen at random, always the same.
NLL   of a Gaussian whose std is at least `STD_FLOOR`, the rounding error of an 8-bit picture.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from .arrays import Array, Picture, as_picture, as_region, draws_in_strips, in_strips

LEVELS = (0.5, 0.8, 0.9, 0.95)
RELIABILITY_LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))
SPARSIFICATION_STEPS = 20
MOST_RANKED = 2**22
STD_FLOOR = 1.0 / (255.0 * math.sqrt(12.0))


def coverage(
    mean: Picture,
    std: Picture,
    truth: Picture,
    levels: Sequence[float] = LEVELS,
    where: Picture | None = None,
    *,
    step: float = 0.0,
) -> Array:
    """Share of the truth inside the central Gaussian intervals mean +- z std. All (H, W, C) -> (levels,).

    A perfectly calibrated std gives back the levels. An entry with std 0 is covered if it is exact.
    step: the rounding step of the truth, 1/255 for an 8-bit file. The true value lies anywhere in a cell of that
    width, so an entry counts by the share of its cell inside the interval. Otherwise the coverage of a small std
    would grow in jumps.
    """
    inside, count = np.zeros(len(levels)), 0
    for error, deviation in _errors(mean, std, truth, where):
        size = np.abs(error)
        exact = (deviation == 0.0) if step > 0.0 else np.ones(size.shape, dtype=bool)
        low, high = size[~exact] - 0.5 * step, size[~exact] + 0.5 * step
        for place, level in enumerate(levels):
            reach = NormalDist().inv_cdf(0.5 + 0.5 * level) * deviation
            inside[place] += float((size[exact] <= reach[exact]).sum())
            if step > 0.0:
                end = reach[~exact]
                inside[place] += float((np.clip(end, low, high) - np.clip(-end, low, high)).sum()) / step
        count += size.size
    return inside / count


def coverage_from_samples(
    samples: Picture,
    truth: Picture,
    levels: Sequence[float] = LEVELS,
    where: Picture | None = None,
) -> Array:
    """Share of the truth inside the central intervals of the draws. samples: (S, H, W, C) -> (levels,).

    If truth and draws are exchangeable, the rank k of the truth among S draws is uniform on 0..S. Rank k represents
    the interval [k, k + 1] / (S + 1), and an entry counts by the share of that interval inside
    [(1 - level)/2, (1 + level)/2]. So a calibrated sampler gives back every level for any S, even levels finer than
    1/S. A truth that ties with draws takes the most central rank among the ties.
    """
    count = len(samples)
    ranks = np.zeros(count + 1, dtype=np.int64)
    for draws, exact in draws_in_strips(samples, truth, where):
        below = np.zeros(exact.shape, dtype=np.int64)
        ties = np.zeros(exact.shape, dtype=np.int64)
        for draw in draws:
            below += draw < exact
            ties += draw == exact
        ranks += np.bincount(np.clip(count // 2, below, below + ties), minlength=count + 1)
    share = ranks / ranks.sum()  # (S + 1,) the rank histogram
    low = np.arange(count + 1) / (count + 1)
    high = low + 1.0 / (count + 1)
    inside = [
        np.clip(np.minimum(high, 0.5 + 0.5 * p) - np.maximum(low, 0.5 - 0.5 * p), 0.0, None) * (count + 1)
        for p in levels
    ]
    return np.array([float(share @ overlap) for overlap in inside])


def crps_gaussian(mean: Picture, std: Picture, truth: Picture, where: Picture | None = None) -> float:
    """Mean CRPS of N(mean, std^2): std (z (2 Phi(z) - 1) + 2 phi(z) - 1/sqrt(pi)), z = error/std.

    All (H, W, C). In the picture's units, lower is better; |error| where std is 0.
    """
    total, count = 0.0, 0
    for error, deviation in _errors(mean, std, truth, where):
        z = error / np.where(deviation > 0.0, deviation, 1.0)
        density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
        bracket = z * _erf(z / math.sqrt(2.0)) + 2.0 * density - 1.0 / math.sqrt(math.pi)
        total += float(np.where(deviation > 0.0, deviation * bracket, np.abs(error)).sum())
        count += error.size
    return total / count


def crps_from_samples(samples: Picture, truth: Picture, where: Picture | None = None) -> float:
    """Mean CRPS of the draws: E|X - y| - E|X - X'|/2 with the unbiased second term. samples: (S, H, W, C).

    sum_{i<j} |x_i - x_j| = sum_i (2 i - S - 1) x_(i) over the sorted draws, i = 1..S. Needs S >= 2.
    """
    count = len(samples)
    if count < 2:
        raise InputError("CRPS needs at least two draws", hint="save more: --iterations, or a smaller --thin")
    weights = 2.0 * np.arange(1, count + 1) - count - 1.0
    total, size = 0.0, 0
    for draws, exact in draws_in_strips(samples, truth, where):
        size += exact.size
        for part in np.array_split(np.arange(exact.size), max(1, exact.size * count // 4_000_000)):
            block = np.sort(draws[:, part].astype(np.float64), axis=0)  # (S, entries)
            to_truth = np.abs(block - exact[part]).mean(axis=0)
            total += float((to_truth - (weights @ block) / (count * (count - 1))).sum())
    return total / size


def gaussian_nll(
    mean: Picture, std: Picture, truth: Picture, where: Picture | None = None, *, floor: float = STD_FLOOR
) -> float:
    """Mean of log std + (error/std)^2/2 + log(2 pi)/2, with std at least `floor`. All (H, W, C)."""
    total, count = 0.0, 0
    for error, deviation in _errors(mean, std, truth, where):
        deviation = np.maximum(deviation, floor)
        total += float((np.log(deviation) + 0.5 * (error / deviation) ** 2).sum())
        count += error.size
    return total / count + 0.5 * math.log(2.0 * math.pi)


def error_correlation(mean: Picture, std: Picture, truth: Picture, where: Picture | None = None) -> float:
    """Pearson correlation of std and |error|; nan if either is constant. All (H, W, C)."""
    sums, count = np.zeros(2), 0
    for error, deviation in _errors(mean, std, truth, where):
        sums += (deviation.sum(), np.abs(error).sum())
        count += error.size
    middle, products = sums / count, np.zeros((2, 2))
    for error, deviation in _errors(mean, std, truth, where):
        both = np.stack([deviation - middle[0], np.abs(error) - middle[1]])
        products += both @ both.T
    return _over_scale(products)


def error_rank_correlation(
    mean: Picture, std: Picture, truth: Picture, where: Picture | None = None
) -> float:
    """Spearman correlation of std and |error|; ties get their mean rank. All (H, W, C)."""
    error, deviation = _some_errors(mean, std, truth, where)
    both = np.stack([_ranks(deviation), _ranks(np.abs(error))])
    both -= both.mean(axis=1, keepdims=True)
    return _over_scale(both @ both.T)


def _errors(
    mean: Picture, std: Picture, truth: Picture, where: Picture | None
) -> Iterator[tuple[Array, Array]]:
    """Yield truth - mean (n,) and std (n,) inside the region, some rows at a time."""
    for centre, deviation, exact in in_strips(where, mean, std, truth):
        yield exact - centre, deviation


def _some_errors(mean: Picture, std: Picture, truth: Picture, where: Picture | None) -> tuple[Array, Array]:
    """truth - mean (n,) and std (n,) of the region; of more entries than `MOST_RANKED`, about that many."""
    total = as_picture(mean).size if where is None else int(as_region(where, as_picture(mean).shape).sum())
    chance, rng = MOST_RANKED / max(1, total), np.random.default_rng(0)
    parts = []
    for error, deviation in _errors(mean, std, truth, where):
        kept = slice(None) if chance >= 1 else rng.random(error.size) < chance
        parts.append((error[kept], deviation[kept]))
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


@dataclass(frozen=True)
class Sparsification:
    """The error that remains when the least certain entries are removed.

    removed: (n,) removed shares, from 0 to just below 1. by_std, by_error: (n,) the mean absolute error of the rest
    relative to that of all entries, if those with the largest std, or with the largest error (the oracle), go first.
    area: the area between the two curves (AUSE); 0 if the std ranks the errors perfectly.
    """

    removed: Array
    by_std: Array
    by_error: Array
    area: float


def sparsification(
    mean: Picture,
    std: Picture,
    truth: Picture,
    where: Picture | None = None,
    *,
    steps: int = SPARSIFICATION_STEPS,
) -> Sparsification:
    """The sparsification curve of std, and that of the oracle. All (H, W, C).

    Entries of equal std count with their mean error, so the curve does not depend on the order of the pixels.
    """
    error, deviation = _some_errors(mean, std, truth, where)
    size = np.abs(error)
    removed = np.arange(steps) / steps
    kept = np.maximum(1, np.round((1.0 - removed) * size.size).astype(np.int64))
    total = float(size.mean())
    if total == 0.0:
        return Sparsification(removed, np.ones(steps), np.ones(steps), 0.0)
    by_std = _mean_of_first(_ordered_by(deviation, size), kept) / total
    by_error = _mean_of_first(np.sort(size), kept) / total
    gap = by_std - by_error
    area = (
        float(gap.sum() - 0.5 * gap[0]) / steps
    )  # trapezoidal rule; the curves meet where everything is removed
    return Sparsification(removed, by_std, by_error, area)


def _ordered_by(key: Array, value: Array) -> Array:
    """Values (n,) sorted by key, with the mean of the values where keys tie."""
    order = np.argsort(key, kind="stable")
    key, value = key[order], value[order]
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    sizes = np.diff(np.append(first, key.size))
    return np.asarray(np.repeat(np.add.reduceat(value, first) / sizes, sizes), dtype=np.float64)


def _mean_of_first(values: Array, counts: NDArray[np.int64]) -> Array:
    return np.asarray(np.cumsum(values)[counts - 1] / counts, dtype=np.float64)


def _ranks(values: Array) -> Array:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - 0.5 * (counts - 1))[inverse], dtype=np.float64)


def _over_scale(products: Array) -> float:
    """x'y / sqrt(x'x y'y) of the matrix of products; nan if x or y is nothing."""
    scale = math.sqrt(float(products[0, 0]) * float(products[1, 1]))
    return float(products[0, 1]) / scale if scale > 0.0 else math.nan


def _erf(x: Array) -> Array:
    return np.asarray(torch.special.erf(torch.from_numpy(x)).numpy(), dtype=np.float64)
