"""PnP-DM: any picture at all, held by a diffusion prior (Wu et al. 2024).

Assumes: Gaussian noise of known level, any linear operator, any prior.

X | Z, y is Gaussian, entry by entry for a mask; Z | X is the reverse diffusion. The draw that counts is Z: X has
the noise of the coupling on top. The noise level of the data must be known.

Cost: --calls network calls an iteration.

Reference: Wu, Sun, Chen, Zhang, Yue, Bouman, Principled Probabilistic Imaging using Diffusion Models as Plug-and-Play
Priors, NeurIPS 2024.

Ours differs: --pnp-step repo leaves missing entries of X at Z, as the code beside the DiffBCP paper does; the default
draws them, as the Gibbs sampler must.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from ..operators.draw import draw_image
from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from .split_gibbs import Drawn, Pull, SplitGibbs, SplitState

DECAY = 0.9  # of rho, from one step to the next
STATE_CLASSES = (SplitState,)


@dataclass(frozen=True)
class Annealed:
    """rho falls by DECAY a step, from largest to smallest; faster if burn-in would otherwise end before."""

    largest: float
    smallest: float
    burn_in: int

    def rho(self, noise_precision: float, step: int) -> float:
        """The coupling distance, on the [-1, 1] scale; every draw after burn-in has the smallest."""
        if step >= self.burn_in:
            return self.smallest
        decay = min(DECAY, math.pow(self.smallest / self.largest, 1 / self.burn_in))
        return max(self.largest * math.pow(decay, step), self.smallest)

    def planned(self, *, burn_in: int) -> Annealed:
        """The same rule for another burn-in."""
        return replace(self, burn_in=burn_in)


@dataclass(frozen=True)
class Unconstrained:
    """X is any picture: it is drawn given the data and Z alone, and has no model to keep.

    exact: False leaves missing entries of X at Z, as the published code does. The chain is then too sure of them.
    """

    problem: Problem
    noise_precision: float
    rule: Annealed
    exact: bool = True
    warm_up: int = 0

    def init(self, *, rng: Generator) -> tuple[None, Tensor]:
        """Start from a grey Z."""
        return None, self._draw(torch.zeros_like(self.problem.y), 0, rng)

    def step(self, state: None, pull: Pull | None, index: int, *, rng: Generator) -> tuple[None, Drawn]:
        """Draw X for the next call of the prior, with the rho of that call."""
        if pull is None:
            raise ValueError("without the pull of a prior any picture fits the missing entries")
        return None, Drawn(self._draw(pull.image, index + 1, rng), self.noise_precision)

    def _draw(self, centre: Tensor, step: int, rng: Generator) -> Tensor:
        problem, tau = self.problem, self.noise_precision
        rho = self.rule.rho(tau, step)
        x = draw_image(problem.operator, problem.y, centre, data=tau, pull=rho**-2, rng=rng)
        return x if self.exact else torch.where(problem.known, x, centre)

    def planned(self, *, burn_in: int) -> Unconstrained:
        """The same step for another burn-in."""
        return replace(self, rule=self.rule.planned(burn_in=burn_in))

    def without_warm_up(self) -> Unconstrained:
        """The same step: the prior is called from the first one on."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def build(
    problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch
) -> SplitGibbs[None]:
    """The sampler of a problem whose noise level is known."""
    if problem.noise_std is None:
        raise ValueError("PnP-DM needs the noise level of the data")
    rule = Annealed(options.rho_max, options.rho_min, options.burn_in)
    step = Unconstrained(problem, problem.noise_std**-2, rule, options.pnp_step == "exact")
    return SplitGibbs(step, prior, rule, options.solver, options.calls, result="Z")
