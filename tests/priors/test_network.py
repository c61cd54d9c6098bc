"""A network as a prior: any size, grey or colour, a noise level for each image."""

from __future__ import annotations

import pytest
import torch

from diffbcp_cli.priors import LoadedPrior
from diffbcp_cli.priors.base import Traits
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.priors.network import NetworkPrior, pad_to_multiple
from diffbcp_cli.priors.networks.natural import Natural, NaturalConfig
from diffbcp_cli.priors.precondition import EDM
from diffbcp_cli.priors.reverse import sample


@pytest.fixture
def prior():
    torch.manual_seed(0)
    network = Natural(NaturalConfig(channels=(8, 12, 16), blocks=(1, 1, 1), embedding_channels=8))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return NetworkPrior(network, EDM(network), Traits(channels=3), multiple=network.config.multiple)


@pytest.mark.parametrize("size", [(16, 16), (17, 31), (8, 8), (5, 3), (1, 9), (1, 1), (40, 16)])
@pytest.mark.parametrize("channels", [1, 3])
def test_any_size_and_grey_come_back_as_they_went_in(prior, size, channels):
    x = torch.randn(2, channels, *size)
    out = prior.denoise(x, 0.3)
    assert out.shape == x.shape
    assert out.is_contiguous()
    assert torch.isfinite(out).all()


def test_padding_changes_nothing_when_none_is_needed(prior):
    x = torch.randn(1, 3, 16, 24)
    expected = EDM(prior.network)(x, torch.tensor([0.4]))
    torch.testing.assert_close(prior.denoise(x, 0.4), expected)


def test_padding_reflects(prior):
    x = torch.arange(3.0).reshape(1, 1, 1, 3).expand(1, 1, 3, 3)
    padded = pad_to_multiple(x, 8)
    assert padded.shape == (1, 1, 8, 8)
    assert padded[0, 0, 0].tolist() == [0, 1, 2, 1, 0, 1, 2, 1]


def test_a_grey_image_is_three_equal_channels_averaged(prior):
    grey = torch.randn(1, 1, 16, 16)
    colour = prior.denoise(grey.expand(1, 3, 16, 16), 0.2).mean(1, keepdim=True)
    torch.testing.assert_close(prior.denoise(grey, 0.2), colour)


def test_one_sigma_per_image_equals_one_image_at_a_time(prior):
    x, sigma = torch.randn(3, 3, 16, 16), torch.tensor([0.1, 0.5, 2.0])
    together = prior.denoise(x, sigma)
    apart = torch.cat([prior.denoise(x[i : i + 1], sigma[i]) for i in range(3)])
    torch.testing.assert_close(together, apart, rtol=1e-4, atol=1e-5)


def test_it_refuses_four_channels(prior):
    with pytest.raises(ValueError, match="channels"):
        prior.denoise(torch.zeros(1, 4, 16, 16), 0.1)


def test_a_double_image_comes_back_double(prior):
    assert prior.denoise(torch.zeros(1, 3, 16, 16, dtype=torch.float64), 0.1).dtype == torch.float64


def test_weights_carry_no_gradient(prior):
    assert not prior.denoise(torch.zeros(1, 3, 16, 16), 0.1).requires_grad


def test_a_loaded_prior_draws_by_itself():
    prior = LoadedPrior(
        GaussianPrior(torch.zeros(()), torch.tensor(0.25)), torch.nn.Identity(), None, torch.float32
    )
    x = 0.3 * torch.randn(1, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    drawn = prior.sample(x, 0.3, torch.Generator().manual_seed(1))
    given = sample(prior, x, 0.3, rng=torch.Generator().manual_seed(1)).sample
    assert torch.equal(drawn, given)
    share = 0.25 / (0.25 + 0.3**2)
    assert abs(float((drawn - share * x).var()) / (share * 0.3**2) - 1) < 0.15
