"""EDM and VP preconditioning: a network that is exact for a Gaussian gives its exact posterior mean."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.priors.precondition import EDM, VP


class GaussianEpsilon(nn.Module):
    """The exact epsilon network for x0 ~ N(0, v): it gets x / sqrt(1 + sigma^2) and the time, not sigma."""

    def __init__(self, var: float) -> None:
        super().__init__()
        self.var = var

    def forward(self, x: Tensor, timesteps: Tensor) -> Tensor:
        t = (timesteps / 999).double()
        sigma_var = torch.expm1(19.9 / 2 * t**2 + 0.1 * t).reshape(-1, 1, 1, 1)
        noisy = x.double() * (1 + sigma_var).sqrt()
        epsilon = sigma_var.sqrt() / (self.var + sigma_var) * noisy
        return torch.cat([epsilon, torch.full_like(epsilon, 99.0)], dim=1).float()  # and a variance


def test_vp_turns_the_exact_epsilon_into_the_exact_posterior_mean():
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    sigma = torch.tensor([0.02, 0.3, 2.0, 50.0])
    exact = GaussianPrior(torch.zeros(()), torch.tensor(0.25)).denoise(x, sigma)
    assert torch.allclose(VP(GaussianEpsilon(0.25))(x, sigma), exact, atol=1e-5)


class ScaledIdentity(torch.nn.Module):
    """F(x, c) = gain x, to see through the preconditioning."""

    def __init__(self, gain):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(gain))

    def forward(self, x, c_noise):
        return self.gain * x


def test_edm_is_exact_for_a_gaussian_of_its_own_data_std():
    """For x0 ~ N(0, d^2) the posterior mean is c_skip x, so F = 0 must give it."""
    network = ScaledIdentity(0.0)
    x = torch.randn(2, 3, 4, 4)
    exact = GaussianPrior(torch.zeros(()), torch.tensor(0.25)).denoise(x, 0.7)
    torch.testing.assert_close(EDM(network)(x, torch.full((2,), 0.7)), exact)


def test_the_edm_weight_undoes_its_output_scale():
    x, sigma = torch.randn(3, 1, 4, 4), torch.tensor([0.05, 0.5, 3.0])
    one, two = EDM(ScaledIdentity(0.0))(x, sigma), EDM(ScaledIdentity(1.0))(x, sigma)
    inputs = x * (sigma.square() + 0.25).rsqrt()[:, None, None, None]
    weight = EDM(ScaledIdentity(0.0)).weight(sigma)
    torch.testing.assert_close(weight * (two - one).square(), inputs.square())
