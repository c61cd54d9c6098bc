"""A prior that sees each picture in another quarter turn, so that its errors do not add up."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from .. import random
from .base import Prior, Wrapper


class Turning(Wrapper):
    """A prior that sees each call in a random quarter turn, if it was trained on all of them."""

    def __init__(self, prior: Prior, rng: Generator) -> None:
        super().__init__(prior)
        self.rng = rng

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x], the prior asked about a turned x."""
        turns = random.integer(self.traits.rotations, rng=self.rng)
        turned = self.prior.denoise(torch.rot90(x, turns, (-2, -1)), sigma)
        return torch.rot90(turned, -turns, (-2, -1))
