"""A first guess at missing entries: averages of the known ones over squares of growing size."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def interpolate(x: Tensor, known: Tensor) -> Tensor:
    """x (B, C, H, W) where known, elsewhere a smooth guess from the nearest known entries; zero if none is known.

    The known entries are averaged over squares of 2, 4, 8, ... pixels. A square without a known entry gets its value
    from the squares twice as large, by bilinear interpolation.
    known: bool, or weights in [0, 1] of the entries against the guess.
    """
    return _fill(torch.where(known > 0, x, 0), known.to(x.dtype))


def _fill(value: Tensor, weight: Tensor) -> Tensor:
    """Mix value (B, C, h, w), with weight in [0, 1], and a guess from the coarser levels."""
    height, width = value.shape[-2:]
    if max(height, width) == 1:
        return value * weight
    total, count = (F.avg_pool2d(part, 2, ceil_mode=True) for part in (value * weight, weight))
    coarse = _fill(total / count.clamp_min(1e-6), (4 * count).clamp_max(1))
    guess = F.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False)[..., :height, :width]
    return guess + weight * (value - guess)
