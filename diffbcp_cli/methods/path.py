"""A path down the noise levels: what the diffusion posterior samplers have in common.

The picture is x = x0 + sigma eps all along, with sigma falling from level to level to zero. What a method does
between two levels is its descent. Samplers that were written for the variance-preserving process, whose picture is
x / sqrt(1 + sigma^2), are the same in these coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Generator, Tensor

from ..errors import UsageError
from ..priors.base import Prior
from ..problem import Problem
from .base import Info, Kind


@dataclass(frozen=True)
class PathState:
    """Where a path stands: x (C, H, W) at the noise level of the next step, the clean picture of the last, steps."""

    x: Tensor
    clean: Tensor | None = None
    step: int = 0


class Descent(Protocol):
    """What a method does between two noise levels."""

    def start(self, sigma: float, *, rng: Generator) -> Tensor:
        """The picture x (C, H, W) at the first level."""
        ...

    def down(self, x: Tensor, sigma: float, lower: float, *, rng: Generator) -> tuple[Tensor, Tensor]:
        """From x at sigma to x at the lower level, and the clean picture that it was made of, (C, H, W) each."""
        ...


@dataclass(frozen=True)
class Path:
    """Goes down the levels, one a step; levels: (length + 1) values that end in zero. noise_std: of the data."""

    descent: Descent
    levels: tuple[float, ...]
    noise_std: float | None
    kind: Kind = "path"

    @property
    def length(self) -> int:
        """How many steps there are."""
        return len(self.levels) - 1

    def init(self, *, rng: Generator) -> PathState:
        """Start at the highest level."""
        return PathState(self.descent.start(self.levels[0], rng=rng))

    @torch.no_grad()
    def step(self, state: PathState, *, rng: Generator) -> tuple[PathState, Info]:
        """Go down one level. The picture shown is the clean one; at the end it is x itself."""
        sigma, lower = self.levels[state.step], self.levels[state.step + 1]
        x, clean = self.descent.down(state.x, sigma, lower, rng=rng)
        shown, before = (clean if lower else x), state.clean
        change = None if before is None else float((shown - before).square().mean().sqrt())
        after = PathState(x, shown, state.step + 1)
        return after, Info(shown, self.noise_std, numbers={"level": sigma, "change": change})

    def planned(self, *, burn_in: int) -> Self:
        """The same path: it has no burn-in."""
        return self

    def without_warm_up(self) -> Self:
        """The same path: every step costs the same."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def levels_of(grid: Tensor) -> tuple[float, ...]:
    """The levels of a grid as plain numbers."""
    return tuple(float(level) for level in grid)


def needed(problem: Problem, prior: Prior | None, name: str) -> tuple[Prior, float]:
    """The prior and the noise level of the data, on [-1, 1]; both are there if the table of methods is right."""
    if prior is None or problem.noise_std is None:
        raise ValueError(f"{name} needs a prior and the noise level of the data")
    return prior, problem.noise_std


def known_entries(problem: Problem, name: str) -> Tensor:
    """Which entries are known (C, H, W); an operator that mixes pixels is refused."""
    if problem.operator.mask is None:
        raise UsageError(
            f"--method {name} takes single known and missing pixels only, no blur and no smaller copy",
            hint="--method diffpir or pnp-dm",
        )
    return problem.operator.mask
