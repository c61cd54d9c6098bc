"""One Gibbs sweep over a tensor ring: cores, weights, scales, noise and the priors of the bonds; rank adaptation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import add_up, send, sums
from . import cusp, likelihood
from .cp import draw_scale
from .cp_sweep import MEMORY_BUDGET, split_in_blocks
from .grams import Grams
from .likelihood import Coupling, Observation, squares
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
    square_norms,
    widen_bond,
)
from .ring_draws import Seen, draw_bond, draw_core, draw_only_core
from .solve import on_trust


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

    def draw() -> tuple[tuple[RingState, Tensor], list[Tensor]]:
        new = state
        for first in (left, 0):  # the right group, then the left one
            turned = first == left
            data = (precision.T, target.T) if turned else (precision, target)
            seen = Seen(data[0].contiguous(), data[1].contiguous(), outer(new, left)[turned])
            new = _draw_side(new, left, first, seen, grams[turned], block, rng)
            new = _draw_inner_bonds(new, left, first, seen, rng)
        new = _draw_outer_bonds(new, left, precision, target, rng)
        entries = reconstruct_ring(new, left)
        return (new, entries), [sums(squares(entries, o)), *new.weights, *square_norms(new)]

    (state, entries), (square, *rest) = on_trust(draw, o.searches, rng=rng)
    drawn = likelihood.draw_noise_precision(add_up(square), o.count, hyper.noise, rng=rng)
    bonds = len(state.weights)
    state, weights = draw_gauge(state, rest[:bonds], rest[bonds:], rng=rng)
    pairs = zip(weights, state.cusps, strict=True)
    cusps = tuple(cusp.draw(w, c, hyper.cusp, rng=rng) for w, c in pairs)
    return replace(state, noise_precision=drawn, cusps=cusps), entries


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
        state = with_weights(state, bond, draw_bond(before, after, seen, state, bond, rng))
    return state


def _draw_outer_bonds(
    state: RingState, left: int, precision: Tensor, target: Tensor, rng: Generator
) -> RingState:
    """Draw the weights of the split and, in a true ring, of the closing bond."""
    one, other = (side.rows() for side in state.sides(left))  # (U, s, e), (V, e, s)
    eye = torch.eye(one.shape[2], dtype=one.dtype, device=one.device)[None]
    seen = Seen(precision, target, other.mT * state.closing[:, None])
    bond = left - 1
    state = with_weights(state, bond, draw_bond(one, eye, seen, state, bond, rng))
    if len(state.weights) == len(state.cores):
        eye = torch.eye(one.shape[1], dtype=one.dtype, device=one.device)[None]
        seen = Seen(precision, target, other * state.weights[bond][:, None])  # (V, e, s)
        last = len(state.weights) - 1
        state = with_weights(state, last, draw_bond(one.mT, eye, seen, state, last, rng))
    return state


def with_weights(state: RingState, bond: int, weights: Tensor) -> RingState:
    """The state with other weights of one bond."""
    return replace(state, weights=(*state.weights[:bond], weights, *state.weights[bond + 1 :]))


def draw_gauge(
    state: RingState, weights: Sequence[Tensor], norms: Sequence[Tensor], *, rng: Generator
) -> tuple[RingState, list[Tensor]]:
    """Trade scale between each bond and its two cores, slice by slice, X unchanged, as CP does with its factors.

    Without it a bond can shrink into the spike as a whole while its neighbours grow. `cp.draw_scale` draws the norm
    of a slice exactly along that orbit.

    weights (R_n,) and norms, as `square_norms`: those of the state, float64 on the host. Also return the new weights,
    as the state has them, but on the host.
    """
    weights, norms, count = [*weights], [*norms], len(state.cores)
    moves = [torch.ones_like(norm) for norm in norms]
    for bond, prior in enumerate(state.cusps):
        for place, axis in ((bond, 1), ((bond + 1) % count, 0)):
            length = state.cores[place].numel() // len(weights[bond])
            if length > 1:
                slices = norms[place].sum(1 - axis)
                stretch, weights[bond] = draw_scale(slices, length, weights[bond], prior.shrinkage, rng=rng)
                across = stretch.unsqueeze(1 - axis)
                norms[place], moves[place] = norms[place] * across.square(), moves[place] * across
    like = state.cores[0]
    rounded = torch.cat([part.flatten() for part in (*weights, *moves)]).to(like.dtype)
    sizes = [part.numel() for part in (*weights, *moves)]
    there = torch.split(send(rounded, like.device), sizes)
    stretched = [move.view(norm.shape)[:, None] for move, norm in zip(there[-count:], norms, strict=True)]
    cores = tuple(core * move for core, move in zip(state.cores, stretched, strict=True))
    moved = replace(state, cores=cores, weights=tuple(there[:-count]))
    return moved, [*torch.split(rounded, sizes)[:-count]]


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
        energy = bond_energy(state, bond, observation).cpu()
        change = cusp.rank_change(state.cusps[bond], energy, least)
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
