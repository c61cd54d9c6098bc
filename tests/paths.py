"""Paths for the tests: a problem under a Gaussian prior, a method built for it, and a run to its end."""

from __future__ import annotations

import tiny
import torch

from diffbcp_cli.methods import builder
from diffbcp_cli.operators.mask import Mask
from diffbcp_cli.options import resolve
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.problem import Problem
from diffbcp_cli.random import Seeds
from diffbcp_cli.watch import Watch

STD, NOISE, VALUE = 0.5, 0.2, 0.4  # of the prior, of the data; the data, on [-1, 1]


class Counting(GaussianPrior):
    """N(0, std^2), with the noise levels at which it was called."""

    def __init__(self, std=STD):
        super().__init__(torch.zeros(()), torch.tensor(std**2))
        self.levels = []

    def denoise(self, x, sigma):
        self.levels.append(float(sigma))
        return super().denoise(x, sigma)


def problem(side=16, *, value=VALUE, noise=NOISE, known=None):
    """A picture of one value, of which everything is known, or the share `known` of its entries."""
    size = (1, side, side)
    mask = torch.ones(size, dtype=torch.bool)
    if known is not None:
        mask = torch.rand(size, generator=tiny.rng(1)) < known
    return Problem(torch.where(mask, value, 0.0), Mask(mask), noise)


def build(name, given_problem, prior=None, **options):
    found = resolve({"method": name, "device": "cpu", **options})
    return builder(name)(given_problem, prior or Counting(), found, Seeds(0, ""), Watch())


def run(method, seed=0):
    """The pictures of all steps; the last one is the draw."""
    rng = tiny.rng(seed)
    state, images = method.init(rng=rng), []
    for _ in range(method.length):
        state, info = method.step(state, rng=rng)
        images.append(info.image)
    return images
