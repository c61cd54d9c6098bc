"""What is known of a photograph, as tensor entries: measured values, the pull of the prior's image, the noise.

Each entry j has a weight w_j, which may count a pixel that several entries hold only once. The measured entries are
N(x_j, 1/tau)^w_j. All of it is the same for every decomposition.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import total
from .grams import GramPlan, plan
from .solve import Searches
from .tensorize import Tensorization, entry_weight, fold_average


@dataclass(frozen=True)
class NoisePrior:
    """tau ~ Gamma(shape, rate), and not below `least`."""

    shape: float = 1e-3
    rate: float = 1e-3
    least: float = 0.0


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

    @property
    def count(self) -> float:
        """The sum of w over the observed entries."""

    @property
    def searches(self) -> Searches:
        """What `on_trust` keeps from one sweep to the next."""


@dataclass(frozen=True)
class Observation:
    """The photograph as tensor entries, all (U, V), with the prepared Grams of both groups.

    weight: w. pull: the share c of an entry in the coupling of its pixel, w over the sum of w of the pixel's entries.
    """

    shape: Tensorization
    values: Tensor
    observed: Tensor
    weight: Tensor
    pull: Tensor
    left_plan: GramPlan
    right_plan: GramPlan
    count: float  # sum of w over observed entries
    searches: Searches = field(default_factory=dict, compare=False)  # of the last sweep; they change no draw

    @property
    def device(self) -> torch.device:
        """Where the entries are."""
        return self.values.device

    @cached_property
    def mean_weight(self) -> float:
        """The mean of w over all entries, padding included."""
        return total(self.weight) / self.weight.numel()


@dataclass(frozen=True)
class Coupling:
    """Eq. (5): the pull of the prior's image, exp(-sum_j c_j (z_j - x_j)^2 / (2 rho^2)).

    precision: rho^-2. image: Z (C, H, W), of which z_j are the entries. The c_j of a pixel add up to one, so given X
    the pixel of Z is held to their average by N(z; x, rho^2), wherever it is.
    """

    precision: float
    image: Tensor


def observe(
    image: Tensor,
    mask: Tensor,
    shape: Tensorization,
    *,
    once: bool = True,
    pixel_weight: Tensor | None = None,
    pixel_pull: Tensor | None = None,
) -> Observation:
    """Tensorize an image (C, H, W) on [-1, 1] with its mask (C, H, W), True = observed.

    once: whether w counts each pixel once or each of its copies. pixel_weight, pixel_pull: (1, H, W) w and c by
    pixel, instead.
    """
    size = (image.shape[0], image.shape[1], image.shape[2])
    if pixel_weight is None or pixel_pull is None:
        weight = entry_weight(shape, size, once=once, device=image.device)
        pull = entry_weight(shape, size, once=True, device=image.device)
    else:
        weight, pull = (shape.unfold(part.expand(size)) for part in (pixel_weight, pixel_pull))
    observed = shape.unfold(mask.to(image.dtype)) * (weight > 0)
    values = shape.unfold(torch.where(mask, image, torch.zeros_like(image)))
    return Observation(
        shape=shape,
        values=values,
        observed=observed,
        weight=weight,
        pull=pull,
        left_plan=plan(weight, observed, pull=pull),
        right_plan=plan(weight.T.contiguous(), observed.T.contiguous(), pull=pull.T.contiguous()),
        count=total(weight * observed),
    )


def image_of(entries: Tensor, observation: Observation) -> Tensor:
    """Fold entries (U, V) back to an image (C, H, W)."""
    return fold_average(observation.shape, entries, observation.weight)


def squared_error(entries: Tensor, observation: Observation) -> float:
    """Sum of w (y - x)^2 over the observed entries; entries = X (U, V)."""
    return total(squares(entries, observation))


def squares(entries: Tensor, observation: Observation) -> Tensor:
    """w (y - x)^2 of every entry (U, V), zero where nothing was observed; entries = X (U, V)."""
    residual = (observation.values - entries) * observation.observed
    return observation.weight * residual.square()


def draw_noise_precision(square: float, count: float, prior: NoisePrior, *, rng: Generator) -> float:
    """Eq. (8): draw tau ~ Gamma(shape + sum(w)/2, rate + sum(w (y - x)^2)/2), sums over the observed entries.

    square: `squared_error`. count: sum of w.
    """
    shape = torch.tensor(prior.shape + 0.5 * count, dtype=torch.float64)
    rate = prior.rate + 0.5 * square
    return float(random.gamma_above(shape, prior.least * rate, rng=rng)) / rate
