"""Preconditioning: how a bare network becomes a denoiser D(x, sigma) = E[x0 | x0 + sigma eps = x]."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

Denoiser = Callable[..., Tensor]
"""x (B, C, H, W) and sigma (B,) to the posterior mean (B, C, H, W); and known (B, C, H, W), if it takes a mask."""


GUESS_STD = 0.2  # of the difference between a missing entry and what its neighbours suggest, on [-1, 1]


class EDM:
    """D(x, sigma) = c_skip x + c_out F(c_in x, c_noise), with the coefficients of Karras et al. (2022).

    They make the input and the training target of F have variance one at every noise level:
    c_skip = d^2 / (sigma^2 + d^2), c_out = sigma d / sqrt(sigma^2 + d^2), c_in = 1 / sqrt(sigma^2 + d^2),
    c_noise = ln(sigma) / 4, where d is the standard deviation of the data. A missing entry holds a guess
    (interpolate.py) and has the coefficients of a level that is the usual error of one; the network is told where
    such entries are.
    """

    def __init__(self, network: nn.Module, data_std: float = 0.5) -> None:
        self.network = network
        self.data_std = data_std

    def __call__(self, x: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """x (B, C, H, W), sigma (B,), known (B, C, H, W) bool, None for all -> the image (B, C, H, W)."""
        s = self._levels(sigma, known)
        total_var = s.square() + self.data_std**2
        c_skip = self.data_std**2 / total_var
        c_out = s * self.data_std / total_var.sqrt()
        mask = () if known is None else ((~known).to(x.dtype),)
        output: Tensor = self.network(x * total_var.rsqrt(), sigma.log() / 4, *mask)
        return c_skip * x + c_out * output

    def weight(self, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """1 / c_out^2: with it, the loss on D is a plain squared error on F at every noise level."""
        s = self._levels(sigma, known)
        return (s.square() + self.data_std**2) / (s * self.data_std).square()

    def _levels(self, sigma: Tensor, known: Tensor | None) -> Tensor:
        """The noise level of every entry, that broadcasts against (B, C, H, W)."""
        s = sigma.reshape(-1, 1, 1, 1)
        return s if known is None else torch.where(known, s, s.clamp_min(GUESS_STD))
