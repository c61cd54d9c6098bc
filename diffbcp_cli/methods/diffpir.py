"""DiffPIR: denoise, fit the data, go down a noise level; a few steps (Zhu et al. 2023).

Assumes: Gaussian noise of known level, any linear operator, any prior.

Each step denoises x at level sigma to x0, then solves min |A x - y|^2 / noise^2 + lambda |x - x0|^2 / sigma^2, which
gives x0'. The noise that this leaves in x, eps = (x - x0') / sigma, is mixed with fresh noise: x' = x0' + sigma'
(sqrt(1 - zeta) eps + sqrt(zeta) N). The last step returns x0' itself.

Cost: one network call a step, 20 by default.

Reference: Zhu, Zhang, Liang, Cao, Wen, Timofte, Van Gool, Denoising Diffusion Models for Plug-and-Play Image
Restoration, CVPR Workshops 2023.

Ours differs: noise and picture are on one scale (the published code has the noise on [0, 1] and the picture on
[-1, 1], so its lambda is 4 times ours); the last data step is returned, not the state before it; missing pixels
start grey, not black; the levels begin at --start-level, up to which the bundled network was trained, not at 157.

Chosen: --start-level, on the middle 128 x 128 of two photographs (guitar, nyc), noise 0.025, 70 % missing and
stripes: 2 gives 24.43 dB, 4 gives 26.30, 8 gives 26.09. On two others (house, dog): 26.48, 27.94, 27.86. 2 is the
best of them, by 0.5 dB, where single entries are missing, and the worst, by up to 7 dB, for stripes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Generator, Tensor

from .. import random
from ..options import Options
from ..priors import grids
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from .path import Path, PathState, levels_of, needed

DENSER = 0.5  # the times of the levels are 1 - (i / n)^DENSER: most of them are low
STATE_CLASSES = (PathState,)


@dataclass(frozen=True)
class DiffPIR:
    """Denoise, fit the data, add noise. weight: lambda; fresh: zeta, the share of the noise that is new."""

    problem: Problem
    prior: Prior
    noise_std: float
    weight: float
    fresh: float

    def start(self, sigma: float, *, rng: Generator) -> Tensor:
        """The data with noise."""
        y = self.problem.operator.adjoint(self.problem.y)
        return y + sigma * random.normal_like(y, rng=rng)

    def down(self, x: Tensor, sigma: float, lower: float, *, rng: Generator) -> tuple[Tensor, Tensor]:
        """x' = x0' + sigma' (sqrt(1 - zeta) eps + sqrt(zeta) N)."""
        clean = self.fit(self.prior.denoise(x[None], sigma)[0], sigma)
        left = (x - clean) / sigma
        fresh = random.normal_like(x, rng=rng)
        noise = math.sqrt(1 - self.fresh) * left + math.sqrt(self.fresh) * fresh
        return clean + lower * noise, clean

    def fit(self, clean: Tensor, sigma: float) -> Tensor:
        """x0' = (A'A + r I)^-1 (A'y + r x0) with r = lambda noise^2 / sigma^2."""
        operator, pull = self.problem.operator, self.weight * (self.noise_std / sigma) ** 2
        return operator.solve(operator.adjoint(self.problem.y) + pull * clean, data=1.0, pull=pull)


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Path:
    """The path of a problem whose noise level is known."""
    found, noise_std = needed(problem, prior, "DiffPIR")
    descent = DiffPIR(problem, found, noise_std, options.pir_lambda, options.pir_zeta)
    levels = grids.vp_levels(options.start_level, options.iterations, power=DENSER)
    return Path(descent, levels_of(levels), noise_std)
