"""CP factors and weights drawn in blocks of components, over all entries at once.

A block's factors and weights are drawn given all other components, which enter through the residual
E = w (tau o (y - X_rest) + rho^-2 (z - X_rest)). Every split into blocks leaves the joint density invariant. One
block of all R is the paper's update. Blocks of S make the Grams R / S times cheaper, and the Cholesky factors
(R / S)^2 times. Each block takes two masked Grams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import has_float64, send
from . import cp, cp_cg
from .algebra import contract, khatri_rao
from .cp import State, reconstruct
from .grams import Grams, packed_squares, unpack
from .likelihood import Coupling, Observation


@dataclass(frozen=True)
class Block:
    """The components being drawn: factors (I_n, S) and weights (S,)."""

    left: list[Tensor]
    right: list[Tensor]
    weights: Tensor


def draw_components(
    state: State,
    observation: Observation,
    coupling: Coupling | None,
    *,
    blocks: Sequence[Tensor],
    budget: int,
    rng: Generator,
) -> tuple[State, Tensor]:
    """Draw factors and weights block by block; return the new state and X (U, V)."""
    o, tau = observation, state.noise_precision
    pull = coupling.precision if coupling is not None else 0.0
    precision = tau * o.observed * o.weight  # m
    target = precision * o.values
    if coupling is not None:
        precision = precision + pull * o.pull
        target = target + pull * o.pull * o.shape.unfold(coupling.image)
    grams = Grams(o.left_plan, tau, pull, budget), Grams(o.right_plan, tau, pull, budget)
    left, right = [f.clone() for f in state.left], [f.clone() for f in state.right]
    weights = state.weights.clone()
    entries = reconstruct(state)
    theta = beside(state.cusp.shrinkage, weights.device)
    for members, here in zip(placed(blocks, weights.device), blocks, strict=True):
        part = Block([f[:, members] for f in left], [f[:, members] for f in right], weights[members])
        rest = entries - reconstruct(part)
        error = target - precision * rest  # E, (U, V)
        some = theta[members if theta.device == members.device else here]
        part = _draw_block(part, error, precision, grams, some, rng)
        for factor, new in zip([*left, *right], [*part.left, *part.right], strict=True):
            factor[:, members] = new
        weights[members] = part.weights
        entries = rest + reconstruct(part)
    return replace(state, left=tuple(left), right=tuple(right), weights=weights), entries


def placed(blocks: Sequence[Tensor], device: torch.device) -> Sequence[Tensor]:
    """The indices of the blocks on a device, in one copy."""
    return torch.split(send(torch.cat(list(blocks)), device), [len(members) for members in blocks])


def beside(shrinkage: Tensor, device: torch.device) -> Tensor:
    """theta where the weights are drawn: on the device if it has float64."""
    return send(shrinkage, device) if has_float64(device) else shrinkage


def _draw_block(
    part: Block,
    error: Tensor,
    precision: Tensor,
    grams: tuple[Grams, Grams],
    shrinkage: Tensor,
    rng: Generator,
) -> Block:
    """Draw the right factors, then the left ones, then the weights of one block; error E and precision m (U, V)."""
    k, size = khatri_rao(part.left), len(part.weights)
    if len(part.right) > 1 and cp_cg.is_cheaper(size, len(part.right)):
        right = cp_cg.draw_modes(part.right, part.weights, error.T, k, precision.T, "right", rng)
        q = khatri_rao(right)
        left = cp_cg.draw_modes(part.left, part.weights, error, q, precision, "left", rng)
        return Block(left, right, cp_cg.draw_weights(left, error, q, precision, shrinkage, rng))
    right = _draw_group(part.right, part.weights, error.T @ k, k, grams[1], "right", rng)
    q = khatri_rao(right)
    return draw_left(replace(part, right=right), grams[0].packed(q), error @ q, shrinkage, rng)


def draw_left(part: Block, packed: Tensor, pulled: Tensor, shrinkage: Tensor, rng: Generator) -> Block:
    """Draw the left factors and the weights from the packed Grams (U, T) of the right rows q and E q (U, S)."""
    left = _draw_modes(part.left, part.weights, pulled, packed, "left", rng)
    gram = unpack(contract(packed, [packed_squares(f) for f in left], None), len(part.weights))[0]
    weights = cp.draw_weights(gram, contract(pulled, left, None)[0], shrinkage, rng=rng)
    return Block(left, part.right, weights.to(part.weights))


def _draw_group(
    factors: list[Tensor], weights: Tensor, pulled: Tensor, q: Tensor, grams: Grams, side: str, rng: Generator
) -> list[Tensor]:
    """Draw the factors of a group, given the other group's rows q (K, S); pulled = E q is (G, S)."""
    if len(factors) == 1:
        noise = random.normal(tuple(pulled.shape), rng=rng)
        return [draw_only(weights, pulled, q, grams, noise, side)]
    return _draw_modes(factors, weights, pulled, grams.packed(q), side, rng)


def _draw_modes(
    factors: list[Tensor], weights: Tensor, pulled: Tensor, packed: Tensor, side: str, rng: Generator
) -> list[Tensor]:
    """Draw the factors of a group one after the other, from the packed Grams (G, T) of its G rows and E q (G, S)."""
    factors, scale = list(factors), packed_squares(weights[None])
    for mode in range(len(factors)):
        gram = unpack(contract(packed, [packed_squares(f) for f in factors], mode) * scale, len(weights))
        linear = contract(pulled, factors, mode) * weights
        noise = random.normal(tuple(linear.shape), rng=rng)
        factors[mode] = cp.draw_rows(gram, linear, noise, what=f"mode {mode} of the {side} group")
    return factors


def draw_only(weights: Tensor, pulled: Tensor, q: Tensor, grams: Grams, noise: Tensor, side: str) -> Tensor:
    """Draw the only factor of a group, (G, S) like pulled and noise, a batch of rows at a time."""
    linear = pulled * weights
    drawn = torch.empty_like(linear)
    for rows, gram, which in grams.batches(q * weights):
        drawn[rows] = cp.draw_rows(gram, linear[rows], noise[rows], which, what=f"the {side} factor")
    return drawn
