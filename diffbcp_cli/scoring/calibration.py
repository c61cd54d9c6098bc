"""Whether the uncertainty of a result can be believed: coverage, proper scores, and the ranking of errors.

Pictures and regions: see arrays.py. Everything is computed in float64. Conventions:

CRPS  of draws: the fair (unbiased) estimate; of mean and std: the closed form of a Gaussian.
NLL   of a Gaussian whose std is at least `STD_FLOOR`, the rounding error of an 8-bit picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from .arrays import Array, Picture, draws_and_truth, error_and_std

LEVELS = (0.5, 0.8, 0.9, 0.95)
RELIABILITY_LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))
SPARSIFICATION_STEPS = 20
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
    error, deviation = error_and_std(mean, std, truth, where)
    size = np.abs(error)
    exact = (deviation == 0.0) if step > 0.0 else np.ones(size.shape, dtype=bool)
    low, high = size[~exact] - 0.5 * step, size[~exact] + 0.5 * step
    shares = []
    for level in levels:
        reach = NormalDist().inv_cdf(0.5 + 0.5 * level) * deviation
        inside = float((size[exact] <= reach[exact]).sum())
        if step > 0.0:
            end = reach[~exact]
            inside += float((np.clip(end, low, high) - np.clip(-end, low, high)).sum()) / step
        shares.append(inside / size.size)
    return np.array(shares)


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
    draws, exact = draws_and_truth(samples, truth, where)
    below = np.zeros(exact.shape, dtype=np.int64)
    ties = np.zeros(exact.shape, dtype=np.int64)
    for draw in draws:
        below += draw < exact
        ties += draw == exact
    count = len(draws)
    rank = np.clip(count // 2, below, below + ties)
    share = np.bincount(rank, minlength=count + 1) / exact.size  # (S + 1,) the rank histogram
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
    error, deviation = error_and_std(mean, std, truth, where)
    z = error / np.where(deviation > 0.0, deviation, 1.0)
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    bracket = z * _erf(z / math.sqrt(2.0)) + 2.0 * density - 1.0 / math.sqrt(math.pi)
    return float(np.where(deviation > 0.0, deviation * bracket, np.abs(error)).mean())


def crps_from_samples(samples: Picture, truth: Picture, where: Picture | None = None) -> float:
    """Mean CRPS of the draws: E|X - y| - E|X - X'|/2 with the unbiased second term. samples: (S, H, W, C).

    sum_{i<j} |x_i - x_j| = sum_i (2 i - S - 1) x_(i) over the sorted draws, i = 1..S. Needs S >= 2.
    """
    draws, exact = draws_and_truth(samples, truth, where)
    count = len(draws)
    if count < 2:
        raise InputError("CRPS needs at least two draws", hint="save more: --iterations, or a smaller --thin")
    weights = 2.0 * np.arange(1, count + 1) - count - 1.0
    total = 0.0
    for part in np.array_split(np.arange(exact.size), max(1, exact.size * count // 4_000_000)):
        block = np.sort(draws[:, part].astype(np.float64), axis=0)  # (S, entries)
        to_truth = np.abs(block - exact[part]).mean(axis=0)
        total += float((to_truth - (weights @ block) / (count * (count - 1))).sum())
    return total / exact.size


def gaussian_nll(
    mean: Picture, std: Picture, truth: Picture, where: Picture | None = None, *, floor: float = STD_FLOOR
) -> float:
    """Mean of log std + (error/std)^2/2 + log(2 pi)/2, with std at least `floor`. All (H, W, C)."""
    error, deviation = error_and_std(mean, std, truth, where)
    deviation = np.maximum(deviation, floor)
    return float((np.log(deviation) + 0.5 * (error / deviation) ** 2).mean() + 0.5 * math.log(2.0 * math.pi))


def error_correlation(mean: Picture, std: Picture, truth: Picture, where: Picture | None = None) -> float:
    """Pearson correlation of std and |error|; nan if either is constant. All (H, W, C)."""
    error, deviation = error_and_std(mean, std, truth, where)
    return _pearson(deviation, np.abs(error))


def error_rank_correlation(
    mean: Picture, std: Picture, truth: Picture, where: Picture | None = None
) -> float:
    """Spearman correlation of std and |error|; ties get their mean rank. All (H, W, C)."""
    error, deviation = error_and_std(mean, std, truth, where)
    return _pearson(_ranks(deviation), _ranks(np.abs(error)))


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
    error, deviation = error_and_std(mean, std, truth, where)
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


def _pearson(x: Array, y: Array) -> float:
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / scale if scale > 0.0 else math.nan


def _erf(x: Array) -> Array:
    return np.asarray(torch.special.erf(torch.from_numpy(x)).numpy(), dtype=np.float64)
