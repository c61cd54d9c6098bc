"""Preconditioning: how a bare network becomes a denoiser D(x, sigma) = E[x0 | x0 + sigma eps = x]."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

Denoiser = Callable[[Tensor, Tensor], Tensor]
"""x (B, C, H, W) and sigma (B,) to the posterior mean (B, C, H, W)."""


class EDM:
    """D(x, sigma) = c_skip x + c_out F(c_in x, c_noise), with the coefficients of Karras et al. (2022).

    They make the input and the training target of F have variance one at every noise level:
    c_skip = d^2 / (sigma^2 + d^2), c_out = sigma d / sqrt(sigma^2 + d^2), c_in = 1 / sqrt(sigma^2 + d^2),
    c_noise = ln(sigma) / 4, where d is the standard deviation of the data.
    """

    def __init__(self, network: nn.Module, data_std: float = 0.5) -> None:
        self.network = network
        self.data_std = data_std

    def __call__(self, x: Tensor, sigma: Tensor) -> Tensor:
        """x (B, C, H, W), sigma (B,) -> the denoised image (B, C, H, W)."""
        s = sigma.reshape(-1, 1, 1, 1)
        total_var = s.square() + self.data_std**2
        c_skip = self.data_std**2 / total_var
        c_out = s * self.data_std / total_var.sqrt()
        output: Tensor = self.network(x * total_var.rsqrt(), sigma.log() / 4)
        return c_skip * x + c_out * output

    def weight(self, sigma: Tensor) -> Tensor:
        """1 / c_out^2: with it, the loss on D is a plain squared error on F at every noise level."""
        return (sigma.square() + self.data_std**2) / (sigma * self.data_std).square()
