"""Known entries that a chain does without for a while: what it predicts of them, and what that says of the prior."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..operators.mask import steps_from_known

MOST_MISFIT = 2.5  # of the prior's variance
_FEWEST = 100  # held-out entries beside a known one that can tell it
_TRUST = 0.5  # in what they say: they are not known entries, of which it is asked


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
    predicted: (2, C, H, W) mean and std. Only entries beside a known one count: deep in a hole is another matter.
    """
    near = held & (steps_from_known(known, most=2) == 1)
    if int(near.sum()) < _FEWEST:
        return 1.0
    mean, std = (part[near] for part in predicted)
    error = float((y[near] - mean).square().mean()) - noise_std**2
    ratio = error / max(float(std.square().mean()), 1e-12)
    return min(max(1 + _TRUST * (ratio - 1), 1.0), MOST_MISFIT)
