"""One Gibbs sweep over the CP model.

The R components are split at random into blocks of about S. A block's factors and weights are drawn given all
other components, which enter through the residual E = w (tau o (y - X_rest) + rho^-2 (z - X_rest)). Every split
leaves the joint density invariant. One block of all R is the paper's update. Smaller blocks make the Grams R / S
times cheaper, and the Cholesky factors (R / S)^2 times. Each block takes two masked Grams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from .. import random
from . import cp, cp_cg, cusp, likelihood
from .algebra import contract, khatri_rao
from .cp import Hyper, State, reconstruct
from .grams import Grams, packed_squares, unpack
from .likelihood import Coupling, Observation, squared_error

MEMORY_BUDGET = 256 * 2**20  # bytes that one batch of Gram matrices may take


@dataclass(frozen=True)
class Info:
    """By-products of a sweep."""

    square: float  # sum of w (y - x)^2 over observed entries
    entries: Tensor  # (U, V) X after the sweep


def sweep(
    state: State,
    observation: Observation,
    hyper: Hyper,
    *,
    coupling: Coupling | None = None,
    block: int = 25,
    budget: int = MEMORY_BUDGET,
    shuffle: bool = True,
    rng: Generator,
) -> tuple[State, Info]:
    """Draw every part of the CP model once. Inputs are left alone.

    shuffle: split the components at random. Otherwise the blocks follow their order. A chain starts with the
    coarsest component first, so that no block of fine detail explains what a coarse one should.
    """
    blocks = split_in_blocks(state.rank, block, shuffle=shuffle, rng=rng)
    state, entries = draw_components(state, observation, coupling, blocks=blocks, budget=budget, rng=rng)
    square = squared_error(entries, observation)
    return draw_noise_and_rank(state, square, observation.count, hyper, rng=rng), Info(square, entries)


def split_in_blocks(rank: int, block: int, *, shuffle: bool, rng: Generator) -> Sequence[Tensor]:
    """Split the components into blocks of about `block`, at random or in their order."""
    order = random.permutation(rank, rng=rng) if shuffle else torch.arange(rank, device=rng.device)
    return order.tensor_split(max(1, round(rank / block)))


def draw_noise_and_rank(state: State, square: float, count: float, hyper: Hyper, *, rng: Generator) -> State:
    """Draw the noise precision, given `squared_error` and sum of w, then the scales and the prior of the rank."""
    tau = likelihood.draw_noise_precision(square, count, hyper.noise, rng=rng)
    state = cp.draw_scales(replace(state, noise_precision=tau), rng=rng)
    return replace(state, cusp=cusp.draw(state.weights, state.cusp, hyper.cusp, rng=rng))


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
    tau = state.noise_precision
    precision = tau * observation.observed * observation.weight  # m
    target = precision * observation.values
    if coupling is not None:
        precision = precision + coupling.precision * observation.weight
        target = target + coupling.precision * observation.weight * coupling.entries
    extra = coupling.precision if coupling is not None else 0.0
    grams = (
        Grams(observation.left_plan, tau, extra, budget),
        Grams(observation.right_plan, tau, extra, budget),
    )
    left, right = [f.clone() for f in state.left], [f.clone() for f in state.right]
    weights = state.weights.clone()
    entries = reconstruct(state)
    for members in blocks:
        part = Block([f[:, members] for f in left], [f[:, members] for f in right], weights[members])
        rest = entries - reconstruct(part)
        error = target - precision * rest  # E, (U, V)
        part = _draw_block(part, error, precision, grams, state.cusp.shrinkage[members.cpu()], rng)
        for factor, new in zip([*left, *right], [*part.left, *part.right], strict=True):
            factor[:, members] = new
        weights[members] = part.weights
        entries = rest + reconstruct(part)
    return replace(state, left=tuple(left), right=tuple(right), weights=weights), entries


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
