"""Harmonic filling: every missing pixel becomes the mean of its four neighbours, again and again.

Assumes: a mask, and data without noise, which it keeps.

Cost: an average over four neighbours for each iteration. No network.
"""

from dataclasses import dataclass
from typing import Self

import torch
from torch import Generator, Tensor
from torch.nn import functional as F

from diffbcp_cli.methods import Info
from diffbcp_cli.options import Options
from diffbcp_cli.priors.base import Prior
from diffbcp_cli.problem import Problem
from diffbcp_cli.random import Seeds
from diffbcp_cli.watch import Watch


@dataclass(frozen=True)
class State:
    """The picture (C, H, W) on [-1, 1]; a checkpoint holds it."""

    image: Tensor


STATE_CLASSES = (State,)


@dataclass(frozen=True)
class Harmonic:
    """A path of `length` steps without any randomness."""

    problem: Problem
    length: int
    kind: str = "path"

    def init(self, *, rng: Generator) -> State:
        """Begin with grey where nothing is known."""
        return State(torch.where(self.problem.known, self.problem.y, 0.0))

    def step(self, state: State, *, rng: Generator) -> tuple[State, Info]:
        """Average over the four neighbours; the input is left alone."""
        framed = F.pad(state.image[None], (1, 1, 1, 1), mode="replicate")[0]
        mean = (framed[:, :-2, 1:-1] + framed[:, 2:, 1:-1] + framed[:, 1:-1, :-2] + framed[:, 1:-1, 2:]) / 4
        image = torch.where(self.problem.known, self.problem.y, mean)
        return State(image), Info(image, self.problem.noise_std)

    def planned(self, *, burn_in: int) -> Self:
        """There is no burn-in."""
        return self

    def without_warm_up(self) -> Self:
        """Every step costs the same."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Harmonic:
    """Make the method for one problem."""
    return Harmonic(problem, options.iterations)
