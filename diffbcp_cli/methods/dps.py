"""DPS: ancestral sampling with a gradient step towards the data (Chung et al. 2023).

Assumes: any linear operator and a prior that can be differentiated; the noise level is not used.

Each step denoises x at level s to x0, clipped to [-1, 1], and draws x at the next level s' as if x0 were the picture:
N(x0 + q (x - x0), s'^2 (1 - q)), q = s'^2 / s^2. From it goes zeta times the gradient of |y - A x0(x)|, the norm over
the known pixels, through the network and the clip. Step and gradient are those of the variance-preserving picture
x / sqrt(1 + s^2), which makes the step in x zeta sqrt((1 + s^2) (1 + s'^2)) long.

Cost: a forward and a backward pass a step, about 3 network calls each, 1000 steps by default. The backward pass
holds what every layer of the network computed: several times the memory of the other methods.

Reference: Chung, Kim, McCann, Klasky, Ye, Diffusion Posterior Sampling for General Noisy Inverse Problems, ICLR 2023.

Ours differs: the norm is over known entries only (the published code has noise on the others, too, which shortens its
steps) and each colour has its own mask; the variance of a step is the exact posterior variance, not a learned one,
so any prior will do; the levels begin at --start-level, up to which the bundled network was
trained, not at 157.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import random
from ..options import Options
from ..priors import grids
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from .path import Path, PathState, levels_of

STATE_CLASSES = (PathState,)


@dataclass(frozen=True)
class DPS:
    """An ancestral step, then a gradient step of length zeta."""

    problem: Problem
    prior: Prior
    zeta: float

    def start(self, sigma: float, *, rng: Generator) -> Tensor:
        """Noise."""
        y = self.problem.operator.adjoint(self.problem.y)
        return sigma * random.normal_like(y, rng=rng)

    def down(self, x: Tensor, sigma: float, lower: float, *, rng: Generator) -> tuple[Tensor, Tensor]:
        """Draw x at the lower level, and go against the gradient."""
        clean, gradient = self.gradient(x, sigma)
        q = (lower / sigma) ** 2
        drawn = clean + q * (x - clean) + lower * math.sqrt(1 - q) * random.normal_like(x, rng=rng)
        length = self.zeta * math.sqrt((1 + sigma**2) * (1 + lower**2))
        return drawn - length * gradient, clean

    def gradient(self, x: Tensor, sigma: float) -> tuple[Tensor, Tensor]:
        """x0(x), and the gradient of |y - A x0(x)| by x, (C, H, W) each."""
        with torch.enable_grad():
            at = x.detach().requires_grad_()
            clean = self.prior.denoise(at[None], sigma)[0].clamp(-1, 1)
            norm = torch.linalg.vector_norm(self.problem.y - self.problem.operator.forward(clean))
            (gradient,) = torch.autograd.grad(norm, at)
        return clean.detach(), gradient


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Path:
    """The path of a problem."""
    if prior is None:
        raise ValueError("DPS needs a prior")
    levels = grids.vp_levels(options.start_level, options.iterations)
    return Path(DPS(problem, prior, options.dps_zeta), levels_of(levels), None)
