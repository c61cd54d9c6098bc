"""Known entries that a chain does without for a while: what it predicts of them, and what that says of the prior."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..operators.mask import missing_around, steps_from_known

MOST_MISFIT = 2.5  # of the prior's variance
_CROWDED = 1 / 3  # of the neighbours of known entries are missing, or fewer: these are easy to tell
_FEWEST = 100  # held-out entries beside a known one that can tell it


@dataclass(frozen=True)
class Tally:
    """Sums over steps and over the chains of a pair: of pictures (C, H, W), of their squares, and how many."""

    first: Tensor | float = 0.0
    second: Tensor | float = 0.0
    count: int = 0

    def plus(self, pictures: Tensor) -> Tally:
        """Take pictures (B, C, H, W) into account."""
        first, second = self.first + pictures.sum(0), self.second + pictures.square().sum(0)
        return Tally(first, second, self.count + len(pictures))

    @property
    def mean(self) -> Tensor:
        """The mean picture."""
        return torch.as_tensor(self.first / self.count)

    @property
    def variance(self) -> Tensor:
        """The variance of the pictures, entry by entry."""
        return torch.as_tensor(self.second / self.count - self.mean**2).clamp_min(0)


def misfit(y: Tensor, held: Tensor, known: Tensor, predicted: Tensor, noise_std: float) -> float:
    """How many times larger than it says the prior's variance of a picture is, at least one.

    y: the measurements (C, H, W). held: the entries of it that were predicted, known: those that were used.
    predicted: (2, C, H, W) mean and std.

    Only held-out entries beside a known one count, and what they say counts by how alone the known ones are: from not
    at all where a third of the entries around them is missing, or less, to fully where all are. Known entries among
    known ones are easy to tell, and what is deep in a hole says nothing of them.
    """
    near = held & (steps_from_known(known, most=2) == 1)
    if int(near.sum()) < _FEWEST:
        return 1.0
    mean, std = (part[near] for part in predicted)
    error = float((y[near] - mean).square().mean()) - noise_std**2
    ratio = error / max(float(std.square().mean()), 1e-12)
    alone = max(0.0, missing_around(known) - _CROWDED) / (1 - _CROWDED)
    return min(max(1 + alone * (ratio - 1), 1.0), MOST_MISFIT)
