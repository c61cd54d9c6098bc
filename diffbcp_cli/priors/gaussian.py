"""A Gaussian prior, for which every answer is known exactly."""

from __future__ import annotations

import torch
from torch import Tensor

from .base import Traits


class GaussianPrior:
    """x0 ~ N(mean, U diag(var) U^T), with its exact denoiser: the reference of the tests.

    mean, var: broadcast against (C, H, W). basis: U, orthonormal (n, n) with n = C H W, acting on flattened
    images; without it the pixels are independent with variances `var`.
    """

    traits = Traits()

    def __init__(self, mean: Tensor, var: Tensor, *, basis: Tensor | None = None) -> None:
        self.mean = mean
        self.var = var
        self.basis = basis

    def _rotate(self, x: Tensor, *, back: bool) -> Tensor:
        """U x when `back`, else U^T x, on flattened images (B, C, H, W)."""
        if self.basis is None:
            return x
        basis = self.basis.T if back else self.basis  # rows are images: x U computes U^T x
        return (x.flatten(1) @ basis).reshape(x.shape)

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """mean + U diag(var / (var + sigma^2)) U^T (x - mean): x (B, C, H, W), sigma a scalar or (B,)."""
        noise_var = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).square().reshape(-1, 1, 1, 1)
        coordinates = self._rotate(x - self.mean, back=False)
        return self.mean + self._rotate(coordinates * (self.var / (self.var + noise_var)), back=True)

    def posterior_var(self, sigma: float) -> Tensor:
        """The variance of x0 given x0 + sigma eps, along each column of the basis."""
        return self.var * sigma**2 / (self.var + sigma**2)
