"""Rank adaptation: carry fewer components while the chain is still finding its way.

With probability exp(-1 - 0.005 i) at step i, spike components (zeta_r <= r) whose energy is below `floor` times
the noise energy of their own degrees of freedom are dropped; one spare is kept, and one is added from the
prior when there is none. It stops after burn-in, so that the kept draws come from one fixed kernel.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Generator, Tensor

from .. import random
from .state import Hyper, Observed, State


def adaptation_due(step: int, *, rng: Generator) -> bool:
    """Whether to adapt at this step: with probability exp(-1 - 0.005 step)."""
    return bool(random.uniform((), rng=rng) < math.exp(-1 - 0.005 * step))


def energy(state: State, observation: Observed) -> Tensor:
    """Mean over tensor entries times the pixel count: how much each component adds to |X|^2, (R,) float64."""
    total = state.weights.cpu().double().square()
    for factor in (*state.left, *state.right):
        total = total * factor.double().square().sum(0).cpu()
    return total * observation.mean_weight


def adapt(state: State, observation: Observed, hyper: Hyper, *, floor: float, rng: Generator) -> State:
    """Drop spike components below the noise, keep one spare, add one from the prior when none is spare."""
    freedom = sum(len(f) for f in (*state.left, *state.right))
    weak = ~state.in_slab & (energy(state, observation) < floor * freedom / state.noise_precision)
    if weak.any():
        strongest = torch.where(weak, energy(state, observation), -math.inf).argmax()
        weak[strongest] = False  # the spare
        return state.select(~weak) if weak.any() else state
    return grow(state, hyper, rng=rng) if bool(state.in_slab.all()) else state


def grow(state: State, hyper: Hyper, *, rng: Generator) -> State:
    """Add one component drawn from the prior, in the spike."""

    def widen(factor: Tensor) -> Tensor:
        return torch.cat([factor, random.normal((len(factor), 1), rng=rng)], 1)

    weight = random.normal((1,), rng=rng) * math.sqrt(hyper.spike_var)
    stick = random.beta(torch.ones(1), torch.full((1,), hyper.stick), rng=rng)
    sticks = torch.cat([state.sticks[:-1], stick, torch.ones(1, dtype=torch.float64)])
    return replace(
        state,
        left=tuple(widen(f) for f in state.left),
        right=tuple(widen(f) for f in state.right),
        weights=torch.cat([state.weights, weight]),
        shrinkage=torch.cat([state.shrinkage, torch.tensor([hyper.spike_var], dtype=torch.float64)]),
        allocation=torch.cat([state.allocation, torch.tensor([state.rank + 1])]),
        sticks=sticks,
    )
