"""One Gibbs sweep over the CP model: factors and weights, then noise, scales and the prior of the rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Generator, Tensor

from .. import random
from . import cp, cp_blocks, cusp, likelihood, stream
from .cp import Hyper, State
from .likelihood import Coupling, Observation, image_of, squared_error
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
    if isinstance(observed, Stream):
        state = stream.draw_components(state, observed, coupling, blocks=blocks, budget=budget, rng=rng)
        image, square = stream.fold(state, observed)
    else:
        state, entries = cp_blocks.draw_components(
            state, observed, coupling, blocks=blocks, budget=budget, rng=rng
        )
        image, square = image_of(entries, observed), squared_error(entries, observed)
    tau = likelihood.draw_noise_precision(square, observed.count, hyper.noise, rng=rng)
    state = cp.draw_scales(replace(state, noise_precision=tau), rng=rng)
    return replace(state, cusp=cusp.draw(state.weights, state.cusp, hyper.cusp, rng=rng)), image


def split_in_blocks(rank: int, block: int, *, shuffle: bool, rng: Generator) -> Sequence[Tensor]:
    """Split the components into blocks of about `block`, at random or in their order."""
    order = random.permutation(rank, rng=rng) if shuffle else torch.arange(rank, device=rng.device)
    return order.tensor_split(max(1, round(rank / block)))
