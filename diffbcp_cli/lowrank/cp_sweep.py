"""One Gibbs sweep over the CP model: factors and weights, then noise, scales and the prior of the rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from .. import random
from ..devices import full_precision
from ..transfer import add_up, fetch, sums
from . import cp, cp_blocks, cusp, likelihood, stream
from .cp import Hyper, State
from .likelihood import Coupling, Observation, image_of, squares
from .solve import unseen
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

    def draw() -> tuple[State, Tensor, Tensor]:
        if isinstance(observed, Stream):
            new = stream.draw_components(state, observed, coupling, blocks=blocks, budget=budget, rng=rng)
            return new, *stream.fold(new, observed)
        new, entries = cp_blocks.draw_components(
            state, observed, coupling, blocks=blocks, budget=budget, rng=rng
        )
        return new, image_of(entries, observed), sums(squares(entries, observed))

    with full_precision(state.weights.device):
        state, image, facts = _on_trust(draw, rng)
    tau = likelihood.draw_noise_precision(facts.square, observed.count, hyper.noise, rng=rng)
    state = replace(state, noise_precision=tau)
    state, weights = cp.draw_scales(state, facts.weights, facts.norms, rng=rng)
    return replace(state, cusp=cusp.draw(weights, state.cusp, hyper.cusp, rng=rng)), image


@dataclass(frozen=True)
class _Facts:
    """What the host must know of a sweep, float64: sum of w (y - x)^2, the weights, and |a_r|^2 of each factor."""

    square: float
    weights: Tensor
    norms: list[Tensor]


def _on_trust(
    draw: Callable[[], tuple[State, Tensor, Tensor]], rng: Generator
) -> tuple[State, Tensor, _Facts]:
    """Draw, and fetch what the host must know in one copy. If a factorisation failed, draw again and look at each."""
    before = rng.get_state()
    with unseen() as failed:
        state, image, found = draw()
    facts, bad = _facts(state, found, failed)
    if bad:
        rng.set_state(before)
        state, image, found = draw()
        facts, _ = _facts(state, found, [])
    return state, image, facts


def _facts(state: State, found: Tensor, failed: list[Tensor]) -> tuple[_Facts, bool]:
    flags = torch.stack(failed) if failed else found[:0]
    numbers, bad, weights, *norms = fetch(found, flags, state.weights, *cp.square_norms(state))
    return _Facts(add_up(numbers), weights, norms), bool(bad.any())


def split_in_blocks(rank: int, block: int, *, shuffle: bool, rng: Generator) -> Sequence[Tensor]:
    """Split the components into blocks of about `block`, at random or in their order; indices on the host."""
    order = random.permutation(rank, rng=rng) if shuffle else torch.arange(rank)
    return order.tensor_split(max(1, round(rank / block)))
