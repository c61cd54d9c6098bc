"""The network `natural`: shapes, options, and what it must not depend on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from diffbcp_cli.priors.networks.natural import Natural, NaturalConfig, ResidualBlock, build

SMALL = NaturalConfig(channels=(8, 12), blocks=(1, 2), embedding_channels=8)


@pytest.fixture
def network():
    torch.manual_seed(0)
    network = Natural(SMALL).eval().requires_grad_(False)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    return network


def test_the_default_has_between_two_and_four_million_parameters():
    count = sum(p.numel() for p in Natural(NaturalConfig()).parameters())
    assert 2e6 < count < 4e6


def test_a_fresh_network_says_nothing():
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(Natural(SMALL)(x, torch.zeros(2)), torch.zeros_like(x))


def test_a_fresh_block_is_the_identity():
    x = torch.randn(1, 8, 4, 4)
    assert torch.equal(ResidualBlock(8, 4)(x, torch.randn(1, 4)), x)


def test_it_does_not_depend_on_the_batch(network):
    x, noise = torch.randn(3, 3, 16, 12), torch.tensor([-0.5, -0.2, 0.1])
    together = network(x, noise)
    torch.testing.assert_close(together[1:2], network(x[1:2], noise[1:2]), rtol=1e-4, atol=1e-5)


def test_a_crop_sees_what_the_whole_sees(network):
    """Far from the border, the answer does not depend on what lies beyond the receptive field."""
    x, noise = torch.randn(1, 3, 96, 96), torch.tensor([-0.3])
    whole = network(x, noise)
    changed = x.clone()
    changed[..., 80:] = 5.0
    torch.testing.assert_close(network(changed, noise)[..., :24], whole[..., :24])


def test_it_depends_on_the_noise_level(network):
    x = torch.randn(1, 3, 16, 16)
    assert not torch.allclose(network(x, torch.tensor([-0.6])), network(x, torch.tensor([0.0])), atol=1e-3)


def test_every_parameter_learns():
    torch.manual_seed(0)
    network = Natural(SMALL)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    network(torch.randn(2, 3, 16, 16), torch.tensor([-0.5, 0.2])).square().mean().backward()
    silent = [name for name, p in network.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert silent == []


def test_options_survive_config_json():
    assert NaturalConfig.from_options(SMALL.options()) == SMALL
    assert "takes_levels" not in SMALL.options()  # earlier versions do not know it
    levels = replace(SMALL, takes_levels=True)
    assert NaturalConfig.from_options(levels.options()) == levels
    with pytest.raises(TypeError):
        NaturalConfig.from_options({"width": 3})


def test_levels_must_match():
    with pytest.raises(ValueError, match="one entry per level"):
        NaturalConfig(channels=(8, 8), blocks=(1,))


def test_levels_and_a_second_network_exclude_each_other():
    with pytest.raises(ValueError, match="needs no second network"):
        NaturalConfig(takes_mask=True, takes_levels=True)


def test_a_network_that_takes_levels_fills_as_a_prior():
    architecture = build(replace(SMALL, takes_levels=True).options(), {})
    assert architecture.traits.takes_mask
    x, noise = torch.randn(2, 3, 16, 16), torch.zeros(2)
    torch.nn.init.normal_(architecture.network.enter_share.weight)
    torch.nn.init.normal_(architecture.network.enter_mask.weight)
    torch.nn.init.normal_(architecture.network.leave.weight)
    nothing, all_of_it = torch.zeros_like(x), torch.ones_like(x)
    with torch.no_grad():
        plain = architecture.network(x, noise)
        torch.testing.assert_close(architecture.network(x, noise, nothing), plain)
        assert not torch.allclose(architecture.network(x, noise, all_of_it), plain)


def test_a_filler_may_have_a_shape_of_its_own():
    config = replace(SMALL, takes_mask=True, filler_channels=(4, 6), filler_blocks=(1, 1))
    assert NaturalConfig.from_options(config.options()) == config
    network = Natural(config)
    assert (network.filler.enter.out_channels, network.enter.out_channels) == (4, 8)
    x, missing = torch.randn(2, 3, 8, 8), torch.ones(2, 3, 8, 8)
    assert network(x, torch.zeros(2), missing).shape == x.shape
    assert replace(config, filler_channels=(4, 6, 8), filler_blocks=(1, 1, 1)).multiple == 8


def test_a_shape_of_the_filler_is_refused_like_any_other():
    with pytest.raises(ValueError, match="one entry per level"):
        replace(SMALL, takes_mask=True, filler_channels=(4, 6), filler_blocks=(1,))
    with pytest.raises(ValueError, match="takes a mask"):
        replace(SMALL, filler_channels=(4, 6))
