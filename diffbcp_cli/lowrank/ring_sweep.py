"""One Gibbs sweep over a tensor ring: cores, weights, scales, noise and the priors of the bonds; rank adaptation."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import Generator, Tensor

from .. import random
from . import cusp, likelihood
from .cp import draw_scale
from .cp_sweep import MEMORY_BUDGET, split_in_blocks
from .grams import Grams
from .likelihood import Coupling, Observation, squared_error
from .ring import (
    RingHyper,
    RingState,
    Side,
    bond_energy,
    most,
    noise_energy,
    outer,
    reconstruct_ring,
    select_bond,
    widen_bond,
)
from .ring_draws import Seen, draw_bond, draw_core, draw_only_core


def sweep_ring(
    state: RingState,
    observation: Observation,
    hyper: RingHyper,
    *,
    coupling: Coupling | None = None,
    block: int = 25,
    budget: int = MEMORY_BUDGET,
    rng: Generator,
) -> tuple[RingState, Tensor]:
    """Draw every part of the model once; return the new state and X (U, V)."""
    o, tau, left = observation, state.noise_precision, len(observation.shape.left)
    pull = 0.0 if coupling is None else coupling.precision
    precision = tau * o.observed * o.weight  # m
    target = precision * o.values
    if coupling is not None:
        precision = precision + pull * o.pull
        target = target + pull * o.pull * o.shape.unfold(coupling.image)
    grams = Grams(o.left_plan, tau, pull, budget), Grams(o.right_plan, tau, pull, budget)
    for first in (left, 0):  # the right group, then the left one
        turned = first == left
        data = (precision.T, target.T) if turned else (precision, target)
        seen = Seen(data[0].contiguous(), data[1].contiguous(), outer(state, left)[turned])
        state = _draw_side(state, left, first, seen, grams[turned], block, rng)
        state = _draw_inner_bonds(state, left, first, seen, rng)
    state = _draw_outer_bonds(state, left, precision, target, rng)
    entries = reconstruct_ring(state, left)
    square = squared_error(entries, o)
    state = replace(
        state, noise_precision=likelihood.draw_noise_precision(square, o.count, hyper.noise, rng=rng)
    )
    state = draw_gauge(state, rng=rng)
    pairs = zip(state.weights, state.cusps, strict=True)
    return replace(state, cusps=tuple(cusp.draw(w, c, hyper.cusp, rng=rng) for w, c in pairs)), entries


def _draw_side(
    state: RingState, left: int, first: int, seen: Seen, grams: Grams, block: int, rng: Generator
) -> RingState:
    """Draw the cores of the group that begins with core `first`."""
    last = left if first == 0 else len(state.cores)
    cores = list(state.cores)
    if last - first == 1:
        side = state.side(first, last)
        members = split_in_blocks(seen.q[0].numel(), block, shuffle=True, rng=rng)
        entries = side.rows().flatten(1) @ seen.q.flatten(1).T
        cores[first], _ = draw_only_core(side, seen, grams, members, entries, rng)
        return replace(state, cores=tuple(cores))
    for n in range(first, last):
        side = Side(cores[first:last], state.weights[first : last - 1])
        cores[n] = draw_core(side, n - first, seen, f"core {n + 1}", rng)
    return replace(state, cores=tuple(cores))


def _draw_inner_bonds(state: RingState, left: int, first: int, seen: Seen, rng: Generator) -> RingState:
    """Draw the weights of the bonds inside a group."""
    last = left if first == 0 else len(state.cores)
    for bond in range(first, last - 1):
        before, after = state.side(first, bond + 1).rows(), state.side(bond + 1, last).rows()
        drawn = draw_bond(before, after, seen, state.weights[bond], state.cusps[bond].shrinkage, rng)
        state = with_weights(state, bond, drawn)
    return state


def _draw_outer_bonds(
    state: RingState, left: int, precision: Tensor, target: Tensor, rng: Generator
) -> RingState:
    """Draw the weights of the split and, in a true ring, of the closing bond."""
    one, other = (side.rows() for side in state.sides(left))  # (U, s, e), (V, e, s)
    eye = torch.eye(one.shape[2], dtype=one.dtype, device=one.device)[None]
    seen = Seen(precision, target, other.mT * state.closing[:, None])
    bond = left - 1
    state = with_weights(
        state, bond, draw_bond(one, eye, seen, state.weights[bond], state.cusps[bond].shrinkage, rng)
    )
    if len(state.weights) == len(state.cores):
        eye = torch.eye(one.shape[1], dtype=one.dtype, device=one.device)[None]
        seen = Seen(precision, target, other * state.weights[bond][:, None])  # (V, e, s)
        drawn = draw_bond(one.mT, eye, seen, state.weights[-1], state.cusps[-1].shrinkage, rng)
        state = with_weights(state, len(state.weights) - 1, drawn)
    return state


def with_weights(state: RingState, bond: int, weights: Tensor) -> RingState:
    """The state with other weights of one bond."""
    return replace(state, weights=(*state.weights[:bond], weights, *state.weights[bond + 1 :]))


def draw_gauge(state: RingState, *, rng: Generator) -> RingState:
    """Trade scale between each bond and its two cores, slice by slice, X unchanged, as CP does with its factors.

    Without it a bond can shrink into the spike as a whole while its neighbours grow. `cp.draw_scale` draws the norm
    of a slice exactly along that orbit.
    """
    for bond, prior in enumerate(state.cusps):
        weights, cores = state.weights[bond].cpu().double(), list(state.cores)
        for place, axis in ((bond, 2), ((bond + 1) % len(cores), 0)):
            slices = cores[place].movedim(axis, -1)
            if slices[..., 0].numel() > 1:
                norm = slices.double().square().flatten(0, -2).sum(0).cpu()
                length = slices[..., 0].numel()
                stretch, weights = draw_scale(norm, length, weights, prior.shrinkage, rng=rng)
                cores[place] = (slices * stretch.to(slices)).movedim(-1, axis).contiguous()
        state = replace(state, cores=tuple(cores))
        state = with_weights(state, bond, weights.to(state.weights[bond]))
    return state


def adapt_ring(
    state: RingState,
    observation: Observation,
    hyper: RingHyper,
    *,
    floor: float,
    shrink: bool = True,
    rng: Generator,
) -> RingState:
    """Drop or add components of each bond as `cusp.rank_change` decides; only add them unless `shrink`."""
    for bond in range(len(state.weights)):
        least = floor * noise_energy(state, bond, observation)
        change = cusp.rank_change(state.cusps[bond], bond_energy(state, bond, observation), least)
        for _ in range(min(change.grow, most(state, bond) - len(state.weights[bond]))):
            state = grow_bond(state, bond, hyper, rng=rng)
        if shrink and change.drop.any():
            state = select_bond(state, bond, (~change.drop).nonzero().flatten())
    return state


def grow_bond(state: RingState, bond: int, hyper: RingHyper, *, rng: Generator) -> RingState:
    """Add one component drawn from the prior, in the spike, on both sides of a bond."""
    before, after = state.cores[bond], state.cores[(bond + 1) % len(state.cores)]
    slices = (
        random.normal((*before.shape[:2], 1), rng=rng).to(before),
        random.normal((1, *after.shape[1:]), rng=rng).to(after),
    )
    weight = random.normal((1,), rng=rng).to(before) * math.sqrt(hyper.cusp.spike_var)
    return widen_bond(state, bond, slices, weight, state.cusps[bond].grow(hyper.cusp, rng=rng))
