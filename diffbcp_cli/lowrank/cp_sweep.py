"""One Gibbs sweep over the CP model: factors and weights, then noise, scales and the prior of the rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Generator, Tensor

from .. import random
from ..devices import full_precision
from ..transfer import add_up, sums
from . import cp, cp_blocks, cusp, likelihood, stream
from .cp import Hyper, State
from .likelihood import Coupling, Observation, image_of, squares
from .solve import on_trust
from .stream import Stream

MEMORY_BUDGET = 256 * 2**20  # bytes that one batch of Gram matrices may take


def sweep(
    state: State,
    observed: Observation | Stream,
    hyper: Hyper,
    *,
    coupling: Coupling | None = None,
    block: int = 25,
    budget: int = MEMORY_BUDGET,
    shuffle: bool = True,
    rng: Generator,
) -> tuple[State, Tensor]:
    """Draw every part of the model once; return the new state and X folded to an image (C, H, W).

    shuffle: split the components into blocks at random. Otherwise the blocks follow their order. A chain starts with
    the coarsest component first, so that no block of fine detail explains what a coarse one should.
    """
    blocks = split_in_blocks(state.rank, block, shuffle=shuffle, rng=rng)

    def draw() -> tuple[tuple[State, Tensor], list[Tensor]]:
        if isinstance(observed, Stream):
            new = stream.draw_components(state, observed, coupling, blocks=blocks, budget=budget, rng=rng)
            image, square = stream.fold(new, observed)
        else:
            new, entries = cp_blocks.draw_components(
                state, observed, coupling, blocks=blocks, budget=budget, rng=rng
            )
            image, square = image_of(entries, observed), sums(squares(entries, observed))
        return (new, image), [square, new.weights, *cp.square_norms(new)]

    with full_precision(state.weights.device):
        (state, image), (square, weights, *norms) = on_trust(draw, observed.searches, rng=rng)
    tau = likelihood.draw_noise_precision(add_up(square), observed.count, hyper.noise, rng=rng)
    state = replace(state, noise_precision=tau)
    state, weights = cp.draw_scales(state, weights, norms, rng=rng)
    return replace(state, cusp=cusp.draw(weights, state.cusp, hyper.cusp, rng=rng)), image


def split_in_blocks(rank: int, block: int, *, shuffle: bool, rng: Generator) -> Sequence[Tensor]:
    """Split the components into blocks of about `block`, at random or in their order; indices on the host."""
    order = random.permutation(rank, rng=rng) if shuffle else torch.arange(rank)
    return order.tensor_split(max(1, round(rank / block)))
