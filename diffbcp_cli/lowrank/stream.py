"""CP factors and weights drawn over one chunk of patches at a time, where all entries do not fit in memory.

A chunk is a band of whole rows of the grid of patches. Given the left factors and the weights, patches are
independent, so the right factor is drawn chunk by chunk. The left factors and the weights need only sums over chunks:
of the Grams, and of E q. The draws, and the random numbers behind them, are those of `cp_blocks`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import sums, total
from .algebra import khatri_rao
from .cp import State
from .cp_blocks import Block, beside, draw_left, draw_only, placed
from .grams import Grams
from .likelihood import Coupling, Observation, observe, squares
from .solve import Searches
from .tensorize import Patches, SomePatches

_MATRICES = 12  # of U x v floats that a chunk needs while it is worked on


@dataclass(frozen=True)
class Chunk:
    """A band of patches: its columns of the (U, V) matrix, its rows of the image, and its entries."""

    columns: slice
    rows: slice
    observation: Observation


@dataclass(frozen=True)
class Stream:
    """The photograph as chunks of patches; count as in `Observation`, copies (1, H, W) = sum of w."""

    shape: Patches
    chunks: tuple[Chunk, ...]
    copies: Tensor
    count: float
    searches: Searches = field(default_factory=dict, compare=False)

    @property
    def device(self) -> torch.device:
        """Where the entries are."""
        return self.copies.device

    @cached_property
    def mean_weight(self) -> float:
        """The mean of w over all entries, padding included."""
        weight = self.shape.channels * total(self.copies)
        return weight / (math.prod(self.shape.left) * math.prod(self.shape.right))


def observe_in_chunks(
    image: Tensor, mask: Tensor, shape: Patches, *, once: bool = True, budget: int
) -> Stream:
    """Tensorize an image (C, H, W) with its mask, in chunks that need about `budget` bytes each."""
    (down, across), pixel_weight = shape.grid, _pixel_weight(shape, once=once, device=image.device)
    copies = pixel_weight * shape.copies().to(image.device)
    pixel_pull = pixel_weight / copies
    step = max(1, budget // (_MATRICES * 4 * math.prod(shape.left) * across))
    chunks = []
    for first in range(0, down, step):
        last = min(first + step, down)
        band = slice(first * shape.stride, min((last - 1) * shape.stride + shape.patch, shape.height))
        part = replace(shape, height=band.stop - band.start)
        weights = pixel_weight[:, band], pixel_pull[:, band]
        observation = observe(
            image[:, band], mask[:, band], part, pixel_weight=weights[0], pixel_pull=weights[1]
        )
        chunks.append(Chunk(slice(first * across, last * across), band, observation))
    return Stream(
        shape=shape,
        chunks=tuple(chunks),
        copies=copies,
        count=sum(chunk.observation.count for chunk in chunks),
    )


def observe_some(
    image: Tensor, mask: Tensor, shape: Patches, count: int, *, once: bool = True, rng: Generator
) -> Observation:
    """Tensorize `count` random patches of an image, with the weights they have among all patches."""
    index = random.permutation(math.prod(shape.right), rng=rng)[:count].to(image.device)
    pixel_weight = _pixel_weight(shape, once=once, device=image.device)
    pixel_pull = 1 / shape.copies().to(image.device)
    some = SomePatches(shape, index)
    return observe(image, mask, some, pixel_weight=pixel_weight, pixel_pull=pixel_pull)


def _pixel_weight(shape: Patches, *, once: bool, device: torch.device) -> Tensor:
    """w of a pixel's entries, (1, H, W): with `once` 1 / (patches that hold the pixel), else 1."""
    copies = shape.copies().to(device)
    return 1 / copies if once else torch.ones_like(copies)


def fold(state: State, stream: Stream) -> tuple[Tensor, Tensor]:
    """X as an image (C, H, W), the weighted average over patches, and sums (n,) of w (y - x)^2 where observed."""
    left, found = khatri_rao(state.left) * state.weights, []
    image = left.new_zeros(stream.shape.channels, stream.shape.height, stream.shape.width)
    for chunk in stream.chunks:
        o = chunk.observation
        entries = left @ state.right[0][chunk.columns].T
        found.append(sums(squares(entries, o)))
        image[:, chunk.rows] += o.shape.fold(entries * o.weight)
    return image / stream.copies, torch.cat(found)


def draw_components(
    state: State,
    stream: Stream,
    coupling: Coupling | None,
    *,
    blocks: Sequence[Tensor],
    budget: int,
    rng: Generator,
) -> State:
    """Draw factors and weights block by block, each block in one pass over the chunks."""
    left, right = [f.clone() for f in state.left], state.right[0].clone()
    weights = state.weights.clone()
    theta, others = beside(state.cusp.shrinkage, weights.device), [_others(state.rank, b) for b in blocks]
    there = placed(blocks, weights.device), placed(others, weights.device)
    for members, outside, here in zip(*there, blocks, strict=True):
        rest = (khatri_rao([f[:, outside] for f in left]) * weights[outside], right[:, outside])
        part = Block([f[:, members] for f in left], [right[:, members]], weights[members])
        drawn, packed, pulled = _draw_right(part, rest, stream, coupling, state.noise_precision, budget, rng)
        some = theta[members if theta.device == members.device else here]
        part = draw_left(replace(part, right=[drawn]), packed, pulled, some, rng)
        for factor, new in zip(left, part.left, strict=True):
            factor[:, members] = new
        right[:, members], weights[members] = drawn, part.weights
    return replace(state, left=tuple(left), right=(right,), weights=weights)


def _others(rank: int, members: Tensor) -> Tensor:
    """The components that are not members, in order."""
    outside = torch.ones(rank, dtype=torch.bool)
    outside[members] = False
    return outside.nonzero().flatten()


def _draw_right(
    part: Block,
    rest: tuple[Tensor, Tensor],
    stream: Stream,
    coupling: Coupling | None,
    tau: float,
    budget: int,
    rng: Generator,
) -> tuple[Tensor, Tensor, Tensor]:
    """Draw a block's right factor q (V, S); also return the packed left Grams (U, T) and E q (U, S).

    rest: left rows (U, R - S), weights included, and right factor (V, R - S) of the components outside the block.
    """
    k = khatri_rao(part.left)
    drawn = torch.empty_like(part.right[0])
    noise = random.normal(tuple(drawn.shape), rng=rng).to(drawn)
    pull = coupling.precision if coupling is not None else 0.0
    packed: Tensor | None = None
    pulled = torch.zeros_like(k)
    for chunk in stream.chunks:
        o, columns = chunk.observation, chunk.columns
        target = None if coupling is None else coupling.image[:, chunk.rows]
        error = _error(o, rest[0] @ rest[1][columns].T, tau, pull, target)
        right = Grams(o.right_plan, tau, pull, budget)
        q = draw_only(part.weights, error.T @ k, k, right, noise[columns], "right")
        sums = Grams(o.left_plan, tau, pull, budget).packed(q)
        packed = sums if packed is None else packed.add_(sums)
        pulled.addmm_(error, q)
        drawn[columns] = q
    assert packed is not None
    return drawn, packed, pulled


def _error(o: Observation, rest: Tensor, tau: float, pull: float, target: Tensor | None) -> Tensor:
    """E = tau w o (y - X_rest) + rho^-2 c (z - X_rest), (U, v)."""
    error = (o.values - rest).mul_(o.observed).mul_(tau).mul_(o.weight)
    if target is not None:
        error.add_((o.shape.unfold(target) - rest).mul_(pull).mul_(o.pull))
    return error
