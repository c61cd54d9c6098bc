"""The split Gibbs sampler: a picture X under its model and a copy Z under the prior, drawn in turn.

X is tied to the data and, by exp(-|z - x|^2 / (2 rho^2)), to Z; Z is tied to the prior. What X is allowed to be
is the image step: a low-rank tensor gives DiffBCP, or Bayesian CP if there is no prior, and any picture at all gives
PnP-DM.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

import torch
from torch import Generator, Tensor

from ..priors.base import Prior
from ..priors.reverse import Solver, sample
from .base import Info, Kind

S = TypeVar("S")


@dataclass(frozen=True)
class Pull:
    """The prior's image Z (C, H, W), and the distance rho within which it holds X."""

    image: Tensor
    rho: float


@dataclass(frozen=True)
class Drawn:
    """What an image step drew: X folded to an image (C, H, W), and the precision of the noise."""

    image: Tensor
    noise_precision: float
    numbers: Mapping[str, float | None] = field(default_factory=dict)


class ImageStep(Protocol[S]):
    """Draws X given the data and the pull of the prior's image. warm_up: steps before the prior's first call."""

    @property
    def warm_up(self) -> int:
        """Steps before the prior's first call."""
        ...

    def init(self, *, rng: Generator) -> tuple[S, Tensor | None]:
        """The state before the first step, and X (C, H, W) if there is one already."""
        ...

    def step(self, state: S, pull: Pull | None, index: int, *, rng: Generator) -> tuple[S, Drawn]:
        """Draw X; index: the number of the step."""
        ...

    def planned(self, *, burn_in: int) -> Self:
        """The same step for another burn-in."""
        ...

    def without_warm_up(self) -> Self:
        """The same step with the prior's first call in the third step."""
        ...

    def with_less_memory(self) -> Self | None:
        """The same step with smaller batches, None if they cannot be smaller."""
        ...


class Rule(Protocol):
    """How tightly X and Z hold each other."""

    def rho(self, noise_precision: float, step: int) -> float:
        """The coupling distance, on the [-1, 1] scale."""
        ...

    def planned(self, *, burn_in: int) -> Self:
        """The same rule for another burn-in."""
        ...


@dataclass(frozen=True)
class Adaptive:
    """rho = clip(sqrt(strength / tau), smallest, largest), on the [-1, 1] scale."""

    strength: float = 15.0
    smallest: float = 0.1
    largest: float = 10.0

    def rho(self, noise_precision: float, step: int = 0) -> float:
        """The coupling distance at noise precision tau."""
        return min(max(math.sqrt(self.strength / noise_precision), self.smallest), self.largest)

    def planned(self, *, burn_in: int) -> Adaptive:
        """The same rule: burn-in does not matter to it."""
        return self


@dataclass(frozen=True)
class SplitState(Generic[S]):
    """Where a chain stands: the state of the image step, X and Z (C, H, W) once drawn, tau, steps done, rho."""

    model: S
    image: Tensor | None = None
    prior_image: Tensor | None = None
    noise_precision: float = 1.0
    step: int = 0
    rho: float | None = None


@dataclass(frozen=True)
class SplitGibbs(Generic[S]):
    """Draw Z given X, then X given Z and the data.

    solver, calls: of the reverse diffusion that draws Z. result: which of the two is the draw that counts. settled:
    the step from which on rho stays as it is. A rho that follows the noise has no joint density with it; burn-in may
    use one, the draws that count may not. None: the rule alone says.
    """

    image_step: ImageStep[S]
    prior: Prior | None
    rule: Rule = field(default_factory=Adaptive)
    solver: Solver = "second-order"
    calls: int = 2
    kind: Kind = "chain"
    length: int | None = None
    result: Literal["X", "Z"] = "X"
    settled: int | None = None

    def init(self, *, rng: Generator) -> SplitState[S]:
        """Start a chain."""
        model, image = self.image_step.init(rng=rng)
        return SplitState(model, image)

    @torch.no_grad()
    def step(self, state: SplitState[S], *, rng: Generator) -> tuple[SplitState[S], Info]:
        """Alg. 1: one iteration of the split Gibbs sampler."""
        pull, rho = None, state.rho
        if self.prior is not None and state.image is not None and state.step >= self.image_step.warm_up:
            if rho is None or self.settled is None or state.step < self.settled:
                rho = self.rule.rho(state.noise_precision, state.step)
            pull = Pull(self._draw_prior_image(self.prior, state.image, rho, rng), rho)
        model, drawn = self.image_step.step(state.model, pull, state.step, rng=rng)
        z = None if pull is None else pull.image
        image, before = drawn.image, state.image
        if self.result == "Z" and z is not None:
            image, before = z, state.prior_image
        change = None if before is None else (image - before).square().mean().sqrt()
        after = SplitState(model, drawn.image, z, drawn.noise_precision, state.step + 1, rho)
        numbers = {**drawn.numbers, "rho": None if pull is None else pull.rho}
        return after, Info(image, drawn.noise_precision**-0.5, z, numbers, change=change)

    def _draw_prior_image(self, prior: Prior, image: Tensor, rho: float, rng: Generator) -> Tensor:
        """Eq. (12): draw Z | X by the reverse diffusion from noise level rho, started at X."""
        draw = sample(prior, image[None], rho, solver=self.solver, calls=self.calls, rng=rng)
        return draw.sample[0]

    def planned(self, *, burn_in: int) -> Self:
        """The same sampler for another burn-in."""
        step, rule = self.image_step.planned(burn_in=burn_in), self.rule.planned(burn_in=burn_in)
        settled = None if self.settled is None else burn_in
        return replace(self, image_step=step, rule=rule, settled=settled)

    def without_warm_up(self) -> Self:
        """The same sampler with the prior's first call in the third step."""
        return replace(self, image_step=self.image_step.without_warm_up())

    def with_less_memory(self) -> Self | None:
        """The same sampler with smaller batches, None if they cannot be smaller."""
        smaller: Any = self.image_step.with_less_memory()
        return None if smaller is None else replace(self, image_step=smaller)
