"""Stacking: the best weighted average of several restorations of one picture, by hold-out pixels.

Restorations that are wrong in different places are better together than each alone. Let e_k be their errors on the
hold-out pixels and C = mean(e e^T). The average with the least squared error has the weights w that minimise w^T C
w with sum(w) = 1. Here w >= 0 as well, and a ridge pulls the weights towards equal shares. The ridge is stronger
where pieces of holes are held out, because they are few, than where single pixels are.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

_FEWEST = 20


def stacking_weights(
    restored: Sequence[Tensor], values: Tensor, held: Tensor, *, ridge: float
) -> list[float]:
    """Weights of the restorations (..., C, H, W); values are the measured ones, held says where they count.

    ridge: relative to the mean squared error. If one of them is not finite there, the first has all the weight.
    """
    count = len(restored)
    if int(held.sum()) < _FEWEST:
        return [1 / count] * count
    errors = torch.stack([(picture - values)[held] for picture in restored]).cpu().double()
    square = errors @ errors.T / errors.shape[1]
    if not bool(square.isfinite().all()):
        return [1.0, *[0.0] * (count - 1)]
    square += ridge * square.diagonal().mean() * torch.eye(count, dtype=square.dtype)
    taking_part = list(range(count))
    while True:
        among = square[taking_part][:, taking_part]
        solved = torch.linalg.solve(among, torch.ones(len(taking_part), dtype=square.dtype))
        if float(solved.min()) >= 0:
            break
        del taking_part[int(solved.argmin())]
    weights = [0.0] * count
    for index, share in zip(taking_part, (solved / solved.sum()).tolist(), strict=True):
        weights[index] = share
    return weights


def stack(restored: Sequence[Tensor], weights: Sequence[float]) -> Tensor:
    """The weighted average of the restorations."""
    total = torch.zeros_like(restored[0])
    for picture, weight in zip(restored, weights, strict=True):
        if weight:  # one that is not finite has none
            total.add_(picture, alpha=weight)
    return total
