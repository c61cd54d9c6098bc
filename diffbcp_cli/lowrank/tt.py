"""Tensor trains: a ring whose last bond has size 1 and no weight, so that X is a product of matrices.

    x_j = G1[j1] L1 G2[j2] L2 ... GN[jN]

On patches (C, p, p, P) the last bond holds the atoms: any C p p numbers each, unlike those of CP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Generator

from .likelihood import Observation
from .ring import RingHyper, RingState, start


def train_ranks(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The N - 1 bonds of a train of at most `rank`: none is larger than what stands on either side of it."""
    return tuple(min(rank, math.prod(sizes[:n]), math.prod(sizes[n:])) for n in range(1, len(sizes)))


def initial(observation: Observation, ranks: Sequence[int], hyper: RingHyper, *, rng: Generator) -> RingState:
    """A train with the N - 1 bonds `ranks`, its cores drawn from their prior."""
    return start(observation, (*ranks, 1), hyper, weighted=len(ranks), rng=rng)
