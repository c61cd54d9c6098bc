"""The Gaussian prior against the normal equations."""

from __future__ import annotations

import torch

from diffbcp_cli.priors.gaussian import GaussianPrior


def test_a_shifted_gaussian_prior_shifts_its_answer():
    x, mean = torch.randn(1, 3, 4, 4), torch.randn(3, 4, 4)
    var = torch.rand(3, 4, 4) + 0.1
    plain, shifted = GaussianPrior(mean, var), GaussianPrior(mean + 0.5, var)
    torch.testing.assert_close(shifted.denoise(x + 0.5, 0.3), plain.denoise(x, 0.3) + 0.5)


def test_a_gaussian_prior_with_a_basis_solves_the_normal_equations():
    torch.manual_seed(1)
    n, sigma = 12, 0.6
    basis, _ = torch.linalg.qr(torch.randn(n, n, dtype=torch.float64))
    var = torch.rand(n, dtype=torch.float64) + 0.05
    mean, x = torch.randn(3, 2, 2, dtype=torch.float64), torch.randn(2, 3, 2, 2, dtype=torch.float64)
    covariance = basis @ torch.diag(var) @ basis.T
    gain = covariance @ torch.linalg.inv(covariance + sigma**2 * torch.eye(n))
    expected = mean + ((x - mean).flatten(1) @ gain.T).reshape(x.shape)
    prior = GaussianPrior(mean, var.reshape(3, 2, 2), basis=basis)
    torch.testing.assert_close(prior.denoise(x, sigma), expected)
