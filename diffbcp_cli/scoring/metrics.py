"""How close a restored picture is to the truth, and whether its uncertainty can be believed.

Pictures are (H, W, C) or (H, W) in [0, 1], NumPy arrays or tensors. `where` is a boolean array of the same
shape, or (H, W): the entries that count. Everything is computed in float64. Conventions:

SSIM     Gaussian window of 11 pixels, std 1.5, k = 0.01 and 0.03, data range 1, population covariance,
         valid region only, mean over channels (MONAI's defaults, and the paper's).
MS-SSIM  the same window on five scales with the published weights, halved by 2 x 2 means.
CRPS     of draws: the fair (unbiased) estimate; of mean and std: the closed form of a Gaussian.
NLL      of a Gaussian whose std is at least `STD_FLOOR`, the rounding error of an 8-bit picture.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, TypeAlias

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from .lpips import LpipsNetwork, load_lpips, lpips

__all__ = [
    "LEVELS",
    "MS_SSIM_MIN_SIDE",
    "RELIABILITY_LEVELS",
    "SPARSIFICATION_STEPS",
    "SSIM_MIN_SIDE",
    "STD_FLOOR",
    "Interval",
    "LpipsNetwork",
    "Sparsification",
    "bootstrap_mean",
    "coverage",
    "coverage_from_samples",
    "crps_from_samples",
    "crps_gaussian",
    "error_correlation",
    "error_rank_correlation",
    "gaussian_nll",
    "load_lpips",
    "lpips",
    "mae",
    "ms_ssim",
    "psnr",
    "sparsification",
    "ssim",
    "ssim_map",
    "window_mean",
]

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Picture: TypeAlias = NDArray[Any] | torch.Tensor

LEVELS = (0.5, 0.8, 0.9, 0.95)
RELIABILITY_LEVELS = tuple(round(0.05 * step, 2) for step in range(1, 20))
SPARSIFICATION_STEPS = 20
STD_FLOOR = 1.0 / (255.0 * math.sqrt(12.0))

_WINDOW = 11
_WINDOW_STD = 1.5
_K1, _K2 = 0.01, 0.03
_SCALE_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)

SSIM_MIN_SIDE = _WINDOW
MS_SSIM_MIN_SIDE = (_WINDOW - 1) * 2 ** (len(_SCALE_WEIGHTS) - 1) + 1


# ---- closeness to the truth ----


def mae(a: Picture, b: Picture, where: Picture | None = None) -> float:
    """Mean of |a - b|. a, b: (H, W, C)."""
    a, b = _pair(a, b)
    return float(np.abs(_chosen(a - b, where)).mean())


def psnr(a: Picture, b: Picture, where: Picture | None = None) -> float:
    """Return -10 log10 mean (a - b)^2, in dB for data range 1; infinite if equal. a, b: (H, W, C)."""
    a, b = _pair(a, b)
    mse = float(np.square(_chosen(a - b, where)).mean())
    return math.inf if mse == 0.0 else -10.0 * math.log10(mse)


def ssim(a: Picture, b: Picture, where: Picture | None = None) -> float:
    """Mean structural similarity. a, b: (H, W, C), both sides at least 11.

    With `where`, the mean over the windows whose centre is chosen; nan when none is.
    """
    return window_mean(ssim_map(a, b), where)


def ssim_map(a: Picture, b: Picture) -> Array:
    """Structural similarity around each pixel. a, b: (H, W, C) -> (H - 10, W - 10, C)."""
    a, b = _pair(a, b)
    _require_side(a, SSIM_MIN_SIDE, "SSIM")
    luminance, contrast = _ssim_terms(a, b)
    return luminance * contrast


def window_mean(similarity: Array, where: Picture | None = None) -> float:
    """Mean of an SSIM map (H - 10, W - 10, C) over the windows whose centre is in `where`, (H, W, C)."""
    if where is None:
        return float(similarity.mean())
    r = _WINDOW // 2
    h, w, c = similarity.shape
    chosen = _where(where, (h + 2 * r, w + 2 * r, c))[r:-r, r:-r]
    return float(similarity[chosen].mean()) if chosen.any() else math.nan


def ms_ssim(a: Picture, b: Picture) -> float:
    """Multi-scale SSIM: the contrast of five scales and the luminance of the coarsest. a, b: (H, W, C).

    MS-SSIM = mean over channels of SSIM_5^w5 prod_{j<5} CS_j^wj, where negative factors count as 0. Each
    scale halves the one before by means of 2 x 2 pixels; both sides must be at least 161.
    """
    a, b = _pair(a, b)
    _require_side(a, MS_SSIM_MIN_SIDE, "MS-SSIM")
    product = np.ones(a.shape[2])
    coarsest = len(_SCALE_WEIGHTS) - 1
    for scale, weight in enumerate(_SCALE_WEIGHTS):
        luminance, contrast = _ssim_terms(a, b)
        factor = (luminance * contrast if scale == coarsest else contrast).mean(axis=(0, 1))  # (C,)
        product *= np.maximum(factor, 0.0) ** weight
        if scale < coarsest:
            a, b = _halved(a), _halved(b)
    return float(product.mean())


def _ssim_terms(a: Array, b: Array) -> tuple[Array, Array]:
    """Return luminance (2 ab + c1)/(a^2 + b^2 + c1) and contrast (2 cov + c2)/(var + var + c2) per window."""
    c1, c2 = _K1**2, _K2**2
    mean_a, mean_b = _windowed(a), _windowed(b)
    var_a = _windowed(a * a) - mean_a**2
    var_b = _windowed(b * b) - mean_b**2
    cov = _windowed(a * b) - mean_a * mean_b
    luminance = (2.0 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    contrast = (2.0 * cov + c2) / (var_a + var_b + c2)
    return luminance, contrast


def _windowed(x: Array) -> Array:
    """Gaussian means of (H, W, C) over windows that lie inside: (H - 10, W - 10, C)."""
    offsets = np.arange(_WINDOW) - _WINDOW // 2
    weights = np.exp(-0.5 * (offsets / _WINDOW_STD) ** 2)
    weights /= weights.sum()
    r = _WINDOW // 2
    filtered: Array = np.asarray(cv2.sepFilter2D(x, cv2.CV_64F, weights, weights), dtype=np.float64)
    return filtered.reshape(x.shape)[r:-r, r:-r]


def _halved(x: Array) -> Array:
    """Means of 2 x 2 pixels; an odd side is first padded by a line of zeros on both ends, as is customary."""
    h, w, c = x.shape
    x = np.pad(x, ((h % 2, h % 2), (w % 2, w % 2), (0, 0)))
    h, w = x.shape[0] // 2, x.shape[1] // 2
    halved: Array = x[: 2 * h, : 2 * w].reshape(h, 2, w, 2, c).mean(axis=(1, 3))
    return halved


# ---- calibration of the uncertainty ----


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

    A perfectly calibrated std gives back the levels. An entry with std 0 is covered when it is exact.
    step: the truth was rounded to multiples of it, 1/255 in an 8-bit file. It then lies anywhere in a cell of
    that width, and counts by the share of the cell inside: else small stds would be covered in stairs.
    """
    error, spread = _error_and_std(mean, std, truth, where)
    size = np.abs(error)
    exact = (spread == 0.0) if step > 0.0 else np.ones(size.shape, dtype=bool)
    low, high = size[~exact] - 0.5 * step, size[~exact] + 0.5 * step
    shares = []
    for level in levels:
        reach = NormalDist().inv_cdf(0.5 + 0.5 * level) * spread
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

    If truth and draws are exchangeable, the truth's rank k among S draws is uniform on 0..S. Rank k stands
    for [k, k + 1] / (S + 1); an entry counts by the share of it inside [(1 - level)/2, (1 + level)/2]. So a
    calibrated sampler gives back the levels for any S, also those finer than 1/S. A truth that equals some
    draws takes the most central rank it can.
    """
    draws, exact = _samples(samples, truth, where)
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

    All (H, W, C). Lower is better; in the picture's units; |error| where std is 0.
    """
    error, spread = _error_and_std(mean, std, truth, where)
    z = error / np.where(spread > 0.0, spread, 1.0)
    density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
    bracket = z * _erf(z / math.sqrt(2.0)) + 2.0 * density - 1.0 / math.sqrt(math.pi)
    return float(np.where(spread > 0.0, spread * bracket, np.abs(error)).mean())


def crps_from_samples(samples: Picture, truth: Picture, where: Picture | None = None) -> float:
    """Mean CRPS of the draws: E|X - y| - E|X - X'|/2 with the unbiased second term. samples: (S, H, W, C).

    sum_{i<j} |x_i - x_j| = sum_i (2 i - S - 1) x_(i) over the sorted draws, i = 1..S. Needs S >= 2.
    """
    draws, exact = _samples(samples, truth, where)
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
    error, spread = _error_and_std(mean, std, truth, where)
    spread = np.maximum(spread, floor)
    return float((np.log(spread) + 0.5 * (error / spread) ** 2).mean() + 0.5 * math.log(2.0 * math.pi))


def error_correlation(mean: Picture, std: Picture, truth: Picture, where: Picture | None = None) -> float:
    """Pearson correlation of std and |error|; nan when either does not vary. All (H, W, C)."""
    error, spread = _error_and_std(mean, std, truth, where)
    return _pearson(spread, np.abs(error))


def error_rank_correlation(
    mean: Picture, std: Picture, truth: Picture, where: Picture | None = None
) -> float:
    """Spearman correlation of std and |error|, ties at their mean rank. All (H, W, C)."""
    error, spread = _error_and_std(mean, std, truth, where)
    return _pearson(_ranks(spread), _ranks(np.abs(error)))


@dataclass(frozen=True)
class Sparsification:
    """The error that is left once the least certain entries are taken away.

    removed: (n,) shares taken away, from 0 to just below 1. by_std, by_error: (n,) the mean absolute error of
    the rest over that of all, when the largest std, or (the oracle) the largest errors go first.
    area: the area between the two curves (AUSE); 0 when std ranks the errors perfectly.
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
    """Sparsification curve of std against the oracle's. All (H, W, C).

    Entries of equal std share their mean error, so the curve does not depend on the order of the pixels.
    """
    error, spread = _error_and_std(mean, std, truth, where)
    size = np.abs(error)
    removed = np.arange(steps) / steps
    kept = np.maximum(1, np.round((1.0 - removed) * size.size).astype(np.int64))
    total = float(size.mean())
    if total == 0.0:
        return Sparsification(removed, np.ones(steps), np.ones(steps), 0.0)
    by_std = _mean_of_first(_ordered_by(spread, size), kept) / total
    by_error = _mean_of_first(np.sort(size), kept) / total
    gap = by_std - by_error
    area = float(gap.sum() - 0.5 * gap[0]) / steps  # trapezoids; both curves meet where nothing is left
    return Sparsification(removed, by_std, by_error, area)


def _ordered_by(key: Array, value: Array) -> Array:
    """value sorted by key, with the mean of value wherever keys are equal."""
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


# ---- means over pictures ----


@dataclass(frozen=True)
class Interval:
    """A mean over `count` pictures and a bootstrap interval of it; no interval from fewer than two."""

    mean: float
    low: float | None
    high: float | None
    count: int


def bootstrap_mean(
    values: Sequence[float] | Array,
    *,
    rng: np.random.Generator,
    level: float = 0.95,
    resamples: int = 2000,
) -> Interval:
    """Mean of values and its percentile bootstrap interval. values: (n,), nan and infinite ones left out."""
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    n = finite.size
    if n == 0:
        return Interval(math.nan, None, None, 0)
    mean = float(finite.mean())
    if n < 2:
        return Interval(mean, None, None, n)
    rows = max(1, 1_000_000 // n)  # resamples at a time
    parts = [min(rows, resamples - done) for done in range(0, resamples, rows)]
    means = np.concatenate([finite[rng.integers(0, n, size=(part, n))].mean(axis=1) for part in parts])
    low, high = np.quantile(means, [0.5 - 0.5 * level, 0.5 + 0.5 * level])
    return Interval(mean, float(low), float(high), n)


# ---- shapes ----


def _array(x: Picture) -> NDArray[Any]:
    return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def _picture(x: Picture) -> Array:
    """(H, W) or (H, W, C) -> (H, W, C) float64."""
    array = _array(x)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise InputError(f"a picture must be (H, W) or (H, W, C), not {array.shape}")
    return array.astype(np.float64)


def _pair(a: Picture, b: Picture) -> tuple[Array, Array]:
    left, right = _picture(a), _picture(b)
    if left.shape != right.shape:
        raise InputError(f"the pictures differ in size: {_size(left)} and {_size(right)}")
    return left, right


def _size(x: NDArray[Any]) -> str:
    h, w, c = x.shape
    return f"{w}x{h} with {c} channel{'s' if c > 1 else ''}"


def _require_side(x: Array, side: int, metric: str) -> None:
    h, w, _ = x.shape
    if min(h, w) < side:
        raise InputError(f"{metric} needs at least {side}x{side} pixels, the picture is {w}x{h}")


def _where(where: Picture, shape: tuple[int, int, int]) -> Mask:
    """(H, W) or (H, W, C) -> (H, W, C) boolean."""
    chosen = _array(where).astype(bool)
    if chosen.ndim == 2:
        chosen = chosen[:, :, None]
    if chosen.ndim != 3 or chosen.shape[:2] != shape[:2] or chosen.shape[2] not in (1, shape[2]):
        raise InputError(f"the region has shape {chosen.shape} but the picture has {shape}")
    return np.broadcast_to(chosen, shape)


def _chosen(x: Array, where: Picture | None) -> Array:
    """Entries of (H, W, C) that count, flat."""
    if where is None:
        return x.reshape(-1)
    flat: Array = x[_where(where, (x.shape[0], x.shape[1], x.shape[2]))]
    if flat.size == 0:
        raise InputError("the region to score is empty")
    return flat


def _error_and_std(mean: Picture, std: Picture, truth: Picture, where: Picture | None) -> tuple[Array, Array]:
    """(n,) truth - mean and (n,) std at the entries that count."""
    centre, exact = _pair(mean, truth)
    _, spread = _pair(mean, std)
    return _chosen(exact - centre, where), _chosen(spread, where)


def _samples(samples: Picture, truth: Picture, where: Picture | None) -> tuple[NDArray[Any], Array]:
    """(S, n) draws, in their own precision, and (n,) truth at the entries that count."""
    exact = _picture(truth)
    draws = _array(samples)
    draws = draws.reshape(*draws.shape, 1) if draws.ndim == 3 and exact.shape[2] == 1 else draws
    if draws.shape[1:] != exact.shape or len(draws) == 0:
        raise InputError(f"the draws have shape {draws.shape} but the truth has {exact.shape}")
    if where is None:
        return draws.reshape(len(draws), -1), exact.reshape(-1)
    chosen = _where(where, (exact.shape[0], exact.shape[1], exact.shape[2]))
    return draws[:, chosen], _chosen(exact, where)


def _erf(x: Array) -> Array:
    return np.asarray(torch.special.erf(torch.from_numpy(x)).numpy(), dtype=np.float64)
