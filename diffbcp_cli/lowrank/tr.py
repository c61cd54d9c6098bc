"""Tensor rings proper: the last bond joins the last core and the first one, and has weights as the others have."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Generator

from .likelihood import Observation
from .ring import RingHyper, RingState, start


def ring_ranks(sizes: Sequence[int], rank: int) -> tuple[int, ...]:
    """The N bonds of a ring of `rank`."""
    return (rank,) * len(sizes)


def initial(observation: Observation, ranks: Sequence[int], hyper: RingHyper, *, rng: Generator) -> RingState:
    """A ring with the N bonds `ranks`, its cores drawn from their prior."""
    return start(observation, ranks, hyper, weighted=len(ranks), rng=rng)
