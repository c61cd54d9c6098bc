"""EDM and VP preconditioning: a network that is exact for a Gaussian gives its exact posterior mean."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.priors.interpolate import interpolate
from diffbcp_cli.priors.networks.natural import Natural, NaturalConfig
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


@pytest.fixture
def of_levels():
    """A denoiser that takes a noise level for each entry, with random weights."""
    config = NaturalConfig(channels=(8, 12), blocks=(1, 1), embedding_channels=8, takes_levels=True)
    network, rng = Natural(config).requires_grad_(False), torch.Generator().manual_seed(3)
    for parameter in network.parameters():
        parameter.copy_(0.1 * torch.randn(parameter.shape, generator=rng))
    return EDM(network)


def test_equal_levels_are_plain_denoising(of_levels):
    x, sigma = torch.randn(2, 3, 16, 16), torch.tensor([0.05, 0.7])
    found, weight = of_levels.of_levels(x, sigma[:, None, None, None].expand_as(x))
    torch.testing.assert_close(found, of_levels(x, sigma))
    torch.testing.assert_close(weight[:, :1, :1, :1], of_levels.weight(sigma))


def test_one_level_and_infinity_are_a_mask(of_levels):
    x, sigma = torch.randn(2, 3, 16, 16), torch.tensor([0.05, 0.7])
    known = torch.rand(x.shape) < 0.5
    found, weight = of_levels.of_levels(x, torch.where(known, sigma[:, None, None, None], torch.inf))
    torch.testing.assert_close(found, of_levels(interpolate(x, known), sigma, known))
    torch.testing.assert_close(weight, of_levels.weight(sigma, known))


def test_a_value_of_infinite_level_is_not_read(of_levels):
    x = torch.randn(1, 3, 16, 16)
    levels = torch.where(torch.rand(x.shape) < 0.5, 0.1, torch.inf)
    other = torch.where(levels.isfinite(), x, torch.nan)
    found = of_levels.of_levels(x, levels)[0]
    assert found.isfinite().all()
    torch.testing.assert_close(found, of_levels.of_levels(other, levels)[0])


def test_a_very_high_level_is_nearly_an_infinite_one(of_levels):
    x = torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    known = torch.rand(x.shape, generator=torch.Generator().manual_seed(1)) < 0.5
    high, infinite = (of_levels.of_levels(x, torch.where(known, 0.1, level))[0] for level in (1e4, torch.inf))
    torch.testing.assert_close(high, infinite, atol=1e-4, rtol=0)
