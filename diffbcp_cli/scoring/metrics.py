"""How close a restored picture is to the truth.

Pictures and regions: see arrays.py. Everything is computed in float64, some rows at a time. Conventions:

SSIM     Gaussian window of 11 pixels, std 1.5, k = 0.01 and 0.03, data range 1, population covariance,
         valid region only, mean over channels (MONAI's defaults, and the paper's).
MS-SSIM  the same window on five scales with the published weights; each scale is the 2 x 2 mean of the one before.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .arrays import Array, Picture, as_pair, as_region, in_strips, require_side, rows_at_once

_WINDOW = 11
_WINDOW_STD = 1.5
_K1, _K2 = 0.01, 0.03
_SCALE_WEIGHTS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)

SSIM_MIN_SIDE = _WINDOW
MS_SSIM_MIN_SIDE = (_WINDOW - 1) * 2 ** (len(_SCALE_WEIGHTS) - 1) + 1


def mae(a: Picture, b: Picture, where: Picture | None = None) -> float:
    """Mean of |a - b|. a, b: (H, W, C)."""
    return _mean(np.abs(x - y) for x, y in in_strips(where, a, b))


def psnr(a: Picture, b: Picture, where: Picture | None = None) -> float:
    """Return -10 log10 mean (a - b)^2, in dB for data range 1; infinite if equal. a, b: (H, W, C)."""
    mse = _mean(np.square(x - y) for x, y in in_strips(where, a, b))
    return math.inf if mse == 0.0 else -10.0 * math.log10(mse)


def ssim(a: Picture, b: Picture, where: Picture | None = None) -> float:
    """Mean structural similarity. a, b: (H, W, C), both sides at least 11.

    With `where`, the mean over the windows centred in the region; nan if there are none.
    """
    a, b = as_pair(a, b)
    require_side(a, SSIM_MIN_SIDE, "SSIM")
    region = None if where is None else as_region(where, a.shape)
    total, count, r = 0.0, 0, _WINDOW // 2
    for top, luminance, contrast in _terms_in_strips(a, b):
        similarity = luminance * contrast
        if region is not None:
            similarity = similarity[region[top + r : top + r + len(similarity), r:-r]]
        total, count = total + float(similarity.sum()), count + similarity.size
    return total / count if count else math.nan


def ms_ssim(a: Picture, b: Picture) -> float:
    """Multi-scale SSIM: the contrast of five scales and the luminance of the coarsest. a, b: (H, W, C).

    MS-SSIM = mean over channels of SSIM_5^w5 prod_{j<5} CS_j^wj, where negative factors count as 0. Both sides must
    be at least 161.
    """
    a, b = as_pair(a, b)
    require_side(a, MS_SSIM_MIN_SIDE, "MS-SSIM")
    product = np.ones(a.shape[2])
    coarsest = len(_SCALE_WEIGHTS) - 1
    for scale, weight in enumerate(_SCALE_WEIGHTS):
        total, count = np.zeros(a.shape[2]), 0
        for _, luminance, contrast in _terms_in_strips(a, b):
            kept = luminance * contrast if scale == coarsest else contrast
            total, count = total + kept.sum(axis=(0, 1)), count + kept.shape[0] * kept.shape[1]
        product *= np.maximum(total / count, 0.0) ** weight  # (C,)
        if scale < coarsest:
            a, b = _halved(a), _halved(b)
    return float(product.mean())


def _mean(parts: Iterator[Array]) -> float:
    """The mean of all entries of all parts."""
    sizes, sums = zip(*((part.size, float(part.sum())) for part in parts), strict=True)
    return float(sum(sums) / sum(sizes))


def _terms_in_strips(a: NDArray[Any], b: NDArray[Any]) -> Iterator[tuple[int, Array, Array]]:
    """The SSIM terms of the windows that begin in some rows at a time, (n, W - 10, C), with the first such row."""
    count = rows_at_once(a.shape)
    for top in range(0, len(a) - _WINDOW + 1, count):
        rows = slice(top, top + count + _WINDOW - 1)
        yield top, *_ssim_terms(a[rows].astype(np.float64), b[rows].astype(np.float64))


def _ssim_terms(a: Array, b: Array) -> tuple[Array, Array]:
    """Luminance (2 ab + c1)/(a^2 + b^2 + c1) and contrast (2 cov + c2)/(var_a + var_b + c2) of each window."""
    c1, c2 = _K1**2, _K2**2
    mean_a, mean_b = _windowed(a), _windowed(b)
    var_a = _windowed(a * a) - mean_a**2
    var_b = _windowed(b * b) - mean_b**2
    cov = _windowed(a * b) - mean_a * mean_b
    luminance = (2.0 * mean_a * mean_b + c1) / (mean_a**2 + mean_b**2 + c1)
    contrast = (2.0 * cov + c2) / (var_a + var_b + c2)
    return luminance, contrast


def _windowed(x: Array) -> Array:
    """Gaussian means of (H, W, C) over the windows inside the picture: (H - 10, W - 10, C)."""
    offsets = np.arange(_WINDOW) - _WINDOW // 2
    weights = np.exp(-0.5 * (offsets / _WINDOW_STD) ** 2)
    weights /= weights.sum()
    r = _WINDOW // 2
    filtered: Array = np.asarray(cv2.sepFilter2D(x, cv2.CV_64F, weights, weights), dtype=np.float64)
    return filtered.reshape(x.shape)[r:-r, r:-r]


def _halved(x: NDArray[Any]) -> Array:
    """Means of 2 x 2 pixels. An odd side is first padded with zeros at both ends, as other implementations do."""
    h, w, c = x.shape
    if h % 2 or w % 2:
        x = np.pad(x, ((h % 2, h % 2), (w % 2, w % 2), (0, 0)))
    h, w = x.shape[0] // 2, x.shape[1] // 2
    halved: Array = x[: 2 * h, : 2 * w].reshape(h, 2, w, 2, c).mean(axis=(1, 3), dtype=np.float64)
    return halved
