"""What the chain carries, what it conditions on, and what it assumes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Generator, Tensor

from .. import random
from .grams import GramPlan, plan
from .tensorize import Tensorization, entry_weight, fold_average


@dataclass(frozen=True)
class Hyper:
    """Constants of the prior (section 2 of the model)."""

    tau_shape: float = 1e-3
    tau_rate: float = 1e-3
    slab_shape: float = 2.0  # theta_r ~ InvGamma(slab_shape, slab_rate) in the slab
    slab_rate: float = 2.0
    spike_var: float = 1e-3  # theta_r in the spike, a variance
    stick: float = 5.0  # nu_l ~ Beta(1, stick)


@dataclass(frozen=True)
class State:
    """One draw of everything but the image: X = sum_r weights_r a1_r o ... o aN_r.

    left, right:      factors of the two groups of modes, (I_n, R) each.
    weights:          (R,) lambda.
    shrinkage:        (R,) theta, the variance of each weight, float64 on the CPU like what follows.
    allocation:       (R,) zeta, counted from 1: component r is in the slab when zeta_r > r.
    sticks:           (R,) nu.
    noise_precision:  tau.
    """

    left: tuple[Tensor, ...]
    right: tuple[Tensor, ...]
    weights: Tensor
    shrinkage: Tensor
    allocation: Tensor
    sticks: Tensor
    noise_precision: float

    @property
    def rank(self) -> int:
        """How many components the state carries."""
        return len(self.weights)

    @property
    def in_slab(self) -> Tensor:
        """(R,) which components the prior calls active."""
        return self.allocation > torch.arange(1, self.rank + 1)

    def select(self, keep: Tensor) -> State:
        """Keep some components, in order; their labels are renumbered against the new length."""
        left = tuple(f[:, keep.to(f.device)] for f in self.left)
        right = tuple(f[:, keep.to(f.device)] for f in self.right)
        kept = keep.nonzero().flatten() if keep.dtype == torch.bool else keep
        position = torch.arange(1, len(kept) + 1)
        slab = self.in_slab[kept]
        return replace(
            self,
            left=left,
            right=right,
            weights=self.weights[keep.to(self.weights.device)],
            shrinkage=self.shrinkage[kept],
            allocation=torch.where(slab, torch.full_like(position, len(kept) + 1), position),
            sticks=self.sticks[kept],
        )


class Observed(Protocol):
    """What is known of a photograph, all at once or in chunks."""

    @property
    def shape(self) -> Tensorization:
        """How the image is laid out."""

    @property
    def device(self) -> torch.device:
        """Where the entries are."""

    @property
    def mean_weight(self) -> float:
        """The mean of w over all entries, padding included."""


@dataclass(frozen=True)
class Observation:
    """The photograph as tensor entries, all (U, V), with the prepared Grams of both groups."""

    shape: Tensorization
    values: Tensor
    observed: Tensor
    weight: Tensor
    left_plan: GramPlan
    right_plan: GramPlan
    count: float  # sum of w over observed entries
    share: float  # of one entry in its pixel's coupling to Z: 1 if w counts a pixel once, else 1 / copies on average

    @property
    def device(self) -> torch.device:
        """Where the entries are."""
        return self.values.device

    @property
    def mean_weight(self) -> float:
        """The mean of w over all entries, padding included."""
        return float(self.weight.mean(dtype=torch.float64))


def observe(
    image: Tensor,
    mask: Tensor,
    shape: Tensorization,
    *,
    once: bool = True,
    pixel_weight: Tensor | None = None,
) -> Observation:
    """Tensorize an image (C, H, W) on [-1, 1] with its mask (C, H, W), True = observed.

    once: whether w counts each pixel once or each of its copies. pixel_weight: (1, H, W) w by pixel, instead.
    """
    size = (image.shape[0], image.shape[1], image.shape[2])
    if pixel_weight is None:
        weight = entry_weight(shape, size, once=once, device=image.device)
    else:
        weight = shape.unfold(pixel_weight.expand(size))
    observed = shape.unfold(mask.to(image.dtype)) * (weight > 0)
    values = shape.unfold(torch.where(mask, image, torch.zeros_like(image)))
    return Observation(
        shape=shape,
        values=values,
        observed=observed,
        weight=weight,
        left_plan=plan(weight, observed),
        right_plan=plan(weight.T.contiguous(), observed.T.contiguous()),
        count=float((weight * observed).sum(dtype=torch.float64)),
        share=image.numel() / float(weight.sum(dtype=torch.float64)),
    )


def image_of(entries: Tensor, observation: Observation) -> Tensor:
    """Fold entries (U, V) back to an image (C, H, W)."""
    return fold_average(observation.shape, entries, observation.weight)


def initial(observation: Observed, rank: int, hyper: Hyper, *, rng: Generator) -> State:
    """Start the chain at X = 0: cosine factors on the left, lowest frequencies first, and hardly any weight.

    Only the constant component starts with a weight; the others grow as the data ask for them. Started at
    once, they alias: where whole rows are missing, fine waves fit the known ones as well as coarse waves do,
    and the chain takes long to forget it. A little noise keeps chains with different seeds apart.
    """
    shape, device = observation.shape, observation.device
    tables = [cosines(size).to(device) for size in shape.left]
    picks = _lowest_frequencies(shape.left, rank)
    constant = torch.stack([pick == 0 for pick in picks]).all(0)
    left = [table[:, pick.to(device)] for table, pick in zip(tables, picks, strict=True)]
    return State(
        left=tuple(f + 0.1 * random.normal((len(f), rank), rng=rng) for f in left),
        right=tuple(
            random.normal((size, rank), rng=rng) * (1.0 if mode else 0.0)
            for mode, size in enumerate(shape.right)
        ),
        weights=torch.where(constant, 0.5, 3e-4).to(device),
        shrinkage=torch.ones(rank, dtype=torch.float64),
        allocation=torch.full((rank,), rank + 1, dtype=torch.long),
        sticks=torch.full((rank,), 1 / (1 + hyper.stick), dtype=torch.float64),
        noise_precision=100.0,
    )


def cosines(size: int) -> Tensor:
    """The discrete cosine basis, one column each, mean square 1, (size, size)."""
    place = (torch.arange(size, dtype=torch.float64) + 0.5) * (torch.pi / size)
    table = torch.cos(place[:, None] * torch.arange(size)) * 2**0.5
    table[:, 0] = 1.0
    return table.float()


def _lowest_frequencies(sizes: tuple[int, ...], rank: int) -> list[Tensor]:
    """Choose `rank` products of cosines, the lowest first: their frequency in each mode, (R,) each.

    A step in frequency counts more in a short mode: colours vary less than places do.
    """
    grids = torch.meshgrid(*[torch.arange(size) for size in sizes], indexing="ij")
    cost = torch.zeros(sizes)
    for grid, size in zip(grids, sizes, strict=True):
        cost += grid * (max(sizes) / size) ** 0.5
    order = cost.flatten().argsort(stable=True)
    order = order.repeat(-(-rank // len(order)))[:rank]
    return [grid.flatten()[order] for grid in grids]
