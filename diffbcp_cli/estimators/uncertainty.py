"""How uncertain the refined picture is: draws of it from the prior, given the known pixels.

The draws of the tensor model say little about the refined picture, which has detail that no component carries. So
the refined picture x gets noise of some level and is denoised again, a few levels at a time. Known pixels have
noise of std `level` already; at a level s they get what they lack:

    u = y + sqrt(s^2 - level^2) e where known, x + s e elsewhere,      x <- D(u, s)

At the last level, s = level, x is drawn given u instead. Draws agree where the known pixels determine the picture,
and differ along edges, in texture and in holes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import random
from ..operators.mask import mean_of_neighbours
from ..priors.base import Prior
from ..priors.reverse import sample

_START = 0.4  # noise level on [-1, 1] that a filled pixel gets first
_LAST_CALLS = 3  # of the network for the draw at the last level


@dataclass(frozen=True)
class Effort:
    """How many draws, through how many levels, and how often their variance is smoothed."""

    draws: int
    levels: int
    rounds: int

    @property
    def calls(self) -> int:
        """Of the network, where something is missing."""
        return self.draws * (self.levels - 1 + _LAST_CALLS)


USUAL, FEW = Effort(6, 3, 1), Effort(3, 2, 2)  # for a photograph, and for a large one


def draw_pictures(
    prior: Prior,
    values: Tensor,
    known: Tensor,
    refined: Tensor,
    level: float,
    *,
    levels: int = USUAL.levels,
    rng: Generator,
) -> Iterator[Tensor]:
    """Yield draws (C, H, W) without end. values, known, refined: (C, H, W) on [-1, 1], level on the same scale."""
    schedule = [level]
    if not bool(known.all()):
        step = (max(_START, level) / level) ** (1 / (levels - 1))
        schedule = [level * step**k for k in reversed(range(levels))]
    while True:
        x = refined
        for s in schedule:
            noise = random.normal_like(x, rng=rng)
            lacking = math.sqrt(max(0.0, s**2 - level**2))
            u = torch.where(known, values + lacking * noise, x + s * noise)
            if s > level:
                x = prior.denoise(u[None], s)[0]
        yield sample(prior, u[None], level, calls=_LAST_CALLS, rng=rng).sample[0]


def smooth_std(std: Tensor, known: Tensor, *, rounds: int = USUAL.rounds) -> Tensor:
    """Smooth the variance (C, H, W) over the 3 x 3 neighbours of the same kind, known or filled.

    A few draws give a noisy variance; the fewer there are, the more rounds of smoothing.
    """
    for _ in range(rounds):
        std = mean_of_neighbours(std.square(), known).sqrt()
    return std
