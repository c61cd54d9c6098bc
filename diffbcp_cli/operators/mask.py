"""The operator of inpainting and denoising: some entries are measured, or all of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..problem import Problem
from ..transfer import has_float64
from ..units import GREY, Bools, Floats, to_signed


class Mask:
    """A selects entries: A x = x where the mask is True. Denoising is the mask that is True everywhere."""

    def __init__(self, mask: Tensor) -> None:
        """mask: (C, H, W) bool, True where an entry was measured."""
        self.mask = mask

    @cached_property
    def complete(self) -> bool:
        """Whether every entry was measured."""
        return bool(self.mask.all())

    def forward(self, x: Tensor) -> Tensor:
        """A x, zero where nothing was measured."""
        return torch.where(self.mask, x, 0)

    def adjoint(self, y: Tensor) -> Tensor:
        """A' y: the mask is its own adjoint."""
        return torch.where(self.mask, y, 0)

    def solve(self, b: Tensor, *, data: float, pull: float) -> Tensor:
        """(data A'A + pull I)^-1 b, exact: the matrix is diagonal."""
        return b / (data * self.mask + pull)


def masked_problem(
    pixels: Floats,
    observed: Bools,
    *,
    noise_std: float | None = None,
    name: str = "",
    device: torch.device | None = None,
) -> Problem:
    """The problem of a photograph: pixels (H, W, C) on [0, 1], observed (H, W, C) True where they are known.

    noise_std: on the [-1, 1] scale.
    """
    known = torch.from_numpy(observed.transpose(2, 0, 1).copy()).to(device)
    y = to_signed(np.where(observed, pixels, np.float32(GREY)), device)
    return Problem(y, Mask(known), noise_std, name)


def where_float64(problem: Problem) -> Problem:
    """A problem of known and missing entries where float64 is: on its device, or on the host."""
    if has_float64(problem.device):
        return problem
    return replace(problem, y=problem.y.cpu(), operator=Mask(problem.known.cpu()))


def steps_from_known(known: Tensor, most: int = 32) -> Tensor:
    """How many steps of one pixel, diagonal ones too, the nearest known entry is away: (C, H, W) -> (C, H, W)."""
    steps, reached = torch.zeros(known.shape, device=known.device), known.float()
    for _ in range(most):
        if bool(reached.all()):
            break
        steps += 1 - reached
        reached = functional.max_pool2d(reached[:, None], 3, stride=1, padding=1)[:, 0]
    return steps


def missing_around(known: Tensor) -> float:
    """The share of missing entries among the eight neighbours of known ones: known (C, H, W)."""
    around = (9 * _average(known.float()) - 1) / 8
    return float(1 - around[known].mean()) if bool(known.any()) else 1.0


def mean_of_neighbours(values: Tensor, known: Tensor) -> Tensor:
    """Means over the 3 x 3 neighbours of the same kind, known or missing: values and known (C, H, W)."""
    result = torch.empty_like(values)
    for kind in (known, ~known):
        total, count = (_average(part) for part in (values * kind, kind.to(values.dtype)))
        result = torch.where(kind, total / count.clamp_min(1e-6), result)
    return result


def smoothed(values: Tensor, known: Tensor, *, rounds: int) -> Tensor:
    """Values (C, H, W) averaged over neighbours so many times, and over channels, each with those of its kind."""
    for _ in range(rounds):
        values = mean_of_neighbours(values, known)
    result = torch.empty_like(values)
    for kind in (known, ~known):
        mean = (values * kind).sum(0) / kind.sum(0).clamp_min(1)
        result = torch.where(kind, mean, result)
    return result


def _average(image: Tensor) -> Tensor:
    """Means over 3 x 3 pixels, (C, H, W)."""
    padded = functional.pad(image[:, None], (1, 1, 1, 1), mode="replicate")
    return functional.avg_pool2d(padded, 3, stride=1)[:, 0]
