"""The noise of a camera: one call of a network that was trained on demosaiced, correlated and compressed noise.

Assumes: what a camera does between the light and the file: noise that grows with the light, a Bayer mosaic, filters
that spread the noise over neighbours and colours, JPEG. The level need not be known. What is missing is filled by
Telea's method before.

The network also gives the variance v of what its answer D leaves. Where D is the posterior mean, the two parts are
uncorrelated, so the level of the noise in y obeys

    level^2 = mean((y - D)^2) + mean(v).

Cost: five calls of 3.2 M weights at half of the resolution.

Reference: ours; the noise is in training/camera.py. Networks for noise of any kind and level began with Guo, Yan,
Zhang, Zuo, Zhang, Toward Convolutional Blind Denoising of Real Photographs, CVPR 2019.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from ..options import Options
from ..priors.base import Prior, knows_spread
from ..priors.precondition import Blind
from ..problem import Problem
from ..random import Seeds
from ..units import Bools, to_signed, to_unit
from ..watch import Watch
from .base import Info, Kind
from .classical import fill_telea


@dataclass(frozen=True)
class CameraState:
    """The picture (C, H, W) on [-1, 1] once it is restored."""

    image: Tensor | None = None


STATE_CLASSES = (CameraState,)


@dataclass(frozen=True)
class Clean:
    """A picture (B, C, H, W) without its noise, the standard deviation of what is left, and the level of the noise.

    std: None if the prior does not say.
    """

    picture: Tensor
    std: Tensor | None
    level: float


def clean(prior: Prior, noisy: Tensor, told: float | None) -> Clean:
    """Remove the noise of pictures (B, C, H, W); told: its level, or None if it is not known.

    The mean of the answers to the picture in all of its quarter turns that the prior knows. The std is what the prior
    says when it is told nothing: it then allows for a level that is wrong.
    """
    level = Blind.UNKNOWN if told is None else told
    found = torch.zeros_like(noisy)
    for turn in range(prior.traits.rotations):
        turned = prior.denoise(torch.rot90(noisy, turn, (-2, -1)), level)
        found += torch.rot90(turned, -turn, (-2, -1)) / prior.traits.rotations
    std = prior.spread(noisy, Blind.UNKNOWN) if knows_spread(prior) else None
    left = 0.0 if std is None else float(std.square().mean())
    return Clean(found, std, (float((noisy - found).square().mean()) + left) ** 0.5)


@dataclass(frozen=True)
class Camera:
    """A method of one step without any randomness. told: the level of the noise on [-1, 1], if it is known."""

    problem: Problem
    prior: Prior
    told: float | None
    radius: float
    kind: Kind = "path"
    length: int | None = 1

    def init(self, *, rng: Generator) -> CameraState:
        """Nothing is restored yet."""
        return CameraState()

    @torch.no_grad()
    def step(self, state: CameraState, *, rng: Generator) -> tuple[CameraState, Info]:
        """Restore the picture."""
        problem = self.problem
        y = problem.y
        if not problem.operator.complete:
            known: Bools = problem.known.permute(1, 2, 0).cpu().numpy()
            y = to_signed(fill_telea(self.radius, to_unit(y), known), problem.device)
        found = clean(self.prior, y[None], self.told)
        std = None if found.std is None else found.std[0]
        return CameraState(found.picture[0]), Info(found.picture[0], found.level, std=std)

    def planned(self, *, burn_in: int) -> Camera:
        """The same method: it has one step."""
        return self

    def without_warm_up(self) -> Camera:
        """The same method: every step costs the same."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Camera:
    """The network for it, on what Telea's method fills."""
    if prior is None:
        raise ValueError("the camera's noise is removed by a network")
    return Camera(problem, prior, problem.noise_std, options.inpaint_radius)
