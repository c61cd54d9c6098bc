"""DDRM: go down the noise levels with the data mixed in, entry by entry; 20 steps (Kawar et al. 2022).

Assumes: Gaussian noise of known level, single known and missing pixels, any prior.

Each step denoises x at level s to x0 and draws x at the next level s', with n the noise level of the data:
a missing entry from N(x0 + sqrt(1 - eta^2) s' (x - x0) / s, eta^2 s'^2);
a known one, while s' >= n, from N((1 - eta_b) x0 + eta_b y, s'^2 - eta_b^2 n^2);
and below that from N(x0 + sqrt(1 - eta^2) s' (y - x0) / n, eta^2 s'^2). The last step returns x0.

Cost: one network call a step, 20 by default.

Reference: Kawar, Elad, Ermon, Song, Denoising Diffusion Restoration Models, NeurIPS 2022.

Ours differs: masks only, whose singular values are 0 and 1; the levels begin at --start-level, up to which the
bundled network was trained, not at 157.

Chosen: --start-level, on the middle 128 x 128 of two photographs (guitar, nyc), noise 0.025, 70 % missing and
stripes: 2 gives 22.96 dB, 4 gives 24.60, 8 gives 24.35. On two others (house, dog): 24.25, 25.42, 24.91. 2 is the
best of them, by 0.5 to 1 dB, where single entries are missing, and the worst, by up to 6 dB, for stripes.
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
from .path import Path, PathState, known_entries, levels_of, needed

STATE_CLASSES = (PathState,)


@dataclass(frozen=True)
class DDRM:
    """Mixes the data in. y, known: (C, H, W). eta: the share of fresh noise; eta_b: the pull of the data."""

    y: Tensor
    known: Tensor
    prior: Prior
    noise_std: float
    eta: float
    eta_b: float

    def start(self, sigma: float, *, rng: Generator) -> Tensor:
        """Known entries from N(y, sigma^2 - n^2), missing ones from N(0, sigma^2)."""
        at_known = math.sqrt(max(0.0, sigma**2 - self.noise_std**2))
        noise = random.normal_like(self.y, rng=rng)
        return torch.where(self.known, self.y + at_known * noise, sigma * noise)

    def down(self, x: Tensor, sigma: float, lower: float, *, rng: Generator) -> tuple[Tensor, Tensor]:
        """Draw x at the lower level, known and missing entries each by its own law."""
        clean = self.prior.denoise(x[None], sigma)[0]
        noise = random.normal_like(x, rng=rng)
        kept, n = math.sqrt(1 - self.eta**2), self.noise_std
        missing = clean + kept * lower * (x - clean) / sigma + self.eta * lower * noise
        if lower >= n:
            spread = math.sqrt(max(0.0, lower**2 - (self.eta_b * n) ** 2))
            known = (1 - self.eta_b) * clean + self.eta_b * self.y + spread * noise
        else:
            known = clean + kept * lower * (self.y - clean) / n + self.eta * lower * noise
        return torch.where(self.known, known, missing), clean


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Path:
    """The path of a problem whose noise level is known."""
    found, noise_std = needed(problem, prior, "DDRM")
    known = known_entries(problem, "ddrm")
    descent = DDRM(problem.y, known, found, noise_std, options.ddrm_eta, options.ddrm_eta_b)
    levels = grids.vp_levels(options.start_level, options.iterations)
    return Path(descent, levels_of(levels), noise_std)
