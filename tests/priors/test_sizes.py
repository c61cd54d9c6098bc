"""Tiles and resizing: an exact prior stays exact, seams do not show, and masks are passed on."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from diffbcp_cli import priors
from diffbcp_cli.errors import ModelError
from diffbcp_cli.priors.base import Traits
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.priors.network import NetworkPrior
from diffbcp_cli.priors.networks.natural import Natural, NaturalConfig
from diffbcp_cli.priors.precondition import EDM
from diffbcp_cli.priors.sizes import Fitted, Tiled, cut, noise_gain, reflected


class Spy:
    """A prior that gives its input back and remembers what it was asked."""

    def __init__(self) -> None:
        self.traits = Traits()
        self.calls: list[tuple[tuple[int, ...], list[float]]] = []

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        self.calls.append((tuple(x.shape), torch.as_tensor(sigma).flatten().tolist()))
        return x.clone()


@pytest.mark.parametrize("length", [16, 255, 256, 257, 300, 512, 700, 1000])
def test_tiles_cover_every_pixel_with_weights_that_sum_to_one(length):
    axis = cut(length, tile=256, overlap=64, multiple=32)
    padded = axis.before + length + axis.after
    total = torch.zeros(padded)
    for start, weight in zip(axis.starts, axis.weights, strict=True):
        assert start % 32 == 0
        total[start : start + 256] += weight
    assert torch.allclose(total, torch.ones(padded), atol=1e-6)
    assert axis.starts[-1] + 256 == padded
    assert all(b - a <= 192 for a, b in zip(axis.starts, axis.starts[1:], strict=False))


def test_reflection_goes_over_and_over():
    index = reflected(4, before=7, after=5, device=torch.device("cpu"))
    assert index.tolist() == [1, 0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0, 1, 2]
    assert reflected(1, before=2, after=2, device=torch.device("cpu")).tolist() == [0] * 5


@pytest.mark.parametrize("shape", [(1, 3, 20, 30), (2, 1, 64, 64), (2, 3, 150, 65), (1, 3, 200, 40)])
def test_tiles_give_back_what_they_were_given(shape):
    spy = Spy()
    x = torch.rand(shape)
    out = Tiled(spy, size=64, overlap=16, multiple=8, batch=4).denoise(x, 0.5)
    assert out.shape == x.shape
    assert torch.allclose(out, x, atol=1e-6)
    for (batch, _, height, width), sigma in spy.calls:
        assert (height, width) == (64, 64)
        assert sigma == [0.5] * batch


def test_tiles_go_through_the_network_in_batches_with_their_own_noise_level():
    spy = Spy()
    Tiled(spy, size=64, overlap=16, multiple=8, batch=6).denoise(
        torch.rand(2, 3, 64, 200), torch.tensor([0.1, 0.9])
    )
    assert [call[0][0] for call in spy.calls] == [6, 2]  # 4 tiles of 2 images, at most 6 at once
    assert spy.calls[0][1] == pytest.approx([0.1, 0.9] * 3)


def test_without_filling_a_small_image_is_left_as_it_is():
    spy = Spy()
    prior = Tiled(spy, size=64, overlap=16, multiple=8, batch=1, extend=False)
    prior.denoise(torch.rand(1, 3, 40, 50), 0.5)
    assert spy.calls.pop()[0] == (1, 3, 40, 50)
    prior.denoise(torch.rand(1, 3, 20, 100), 0.5)
    assert {call[0] for call in spy.calls} == {(1, 3, 24, 64)}


def test_tiles_of_an_exact_prior_are_exact():
    exact = GaussianPrior(torch.tensor(0.2), torch.tensor(0.25))
    x = torch.randn(1, 3, 100, 130, generator=torch.Generator().manual_seed(1))
    tiled = Tiled(exact, size=64, overlap=16, multiple=8)
    assert torch.allclose(tiled.denoise(x, 0.7), exact.denoise(x, 0.7), atol=1e-6)


def lively(config: NaturalConfig) -> Natural:
    """A network that has not been trained, but does something: its zeros replaced by noise."""
    torch.manual_seed(0)
    network = Natural(config)
    for p in network.parameters():
        if not p.any():
            nn.init.normal_(p, std=0.02)
    return network


def test_tiles_of_a_convolutional_network_agree_with_the_whole_and_show_no_seam():
    network = lively(NaturalConfig(channels=(16, 32), blocks=(1, 1)))
    whole = NetworkPrior(network, EDM(network), Traits(channels=3), multiple=4)
    x = torch.rand(1, 3, 160, 160, generator=torch.Generator().manual_seed(2)) * 2 - 1
    reference = whole.denoise(x, 0.4)
    tiled = Tiled(whole, size=96, overlap=48, multiple=4).denoise(x, 0.4)
    assert (reference - x).abs().mean() > 0.05
    error = ((tiled - reference) / 2).square()
    assert -10 * math.log10(error.mean().item()) > 60
    # a seam would make single columns or rows stand out
    assert error.mean((0, 1, 2)).max() < 1e-6
    assert error.mean((0, 1, 3)).max() < 1e-6


@pytest.mark.slow
def test_tiles_of_the_bundled_prior_agree_with_the_whole():
    data = pytest.importorskip("skimage.data", reason="takes its photograph from scikit-image")
    if not priors.find("natural").folder.is_dir():
        pytest.skip("the bundled prior is not in this checkout")
    prior = priors.load_prior("natural", device="cpu")
    clean = torch.from_numpy(data.astronaut()).permute(2, 0, 1)[None] / 127.5 - 1  # (1, 3, 512, 512)
    x = clean + 0.3 * torch.randn(clean.shape, generator=torch.Generator().manual_seed(4))
    tiles = Tiled(prior, size=256, overlap=64, multiple=prior.network.config.multiple)
    error = ((tiles.denoise(x, 0.3) - prior.denoise(x, 0.3)) / 2).square()
    assert -10 * math.log10(error.mean().item()) > 60
    assert error.mean((0, 1, 2)).max() < 1e-6


def test_fit_resizes_to_the_networks_own_size_and_tells_it_the_noise_that_is_left():
    spy = Spy()
    prior = Fitted(spy, size=32)
    smooth = torch.linspace(-0.5, 0.5, 96).expand(1, 3, 64, 96)
    out = prior.denoise(smooth, 0.8)
    assert out.shape == smooth.shape
    assert torch.allclose(out[..., 8:-8], smooth[..., 8:-8], atol=0.01)
    shape, sigma = spy.calls[0]
    assert shape == (1, 3, 32, 32)
    noise = torch.randn(1, 64, 64, 96, generator=torch.Generator().manual_seed(3)) * 0.8
    prior.denoise(noise, 0.8)
    small = nn.functional.interpolate(noise, (32, 32), mode="bicubic", antialias=True)
    assert sigma[0] == pytest.approx(small.std().item(), rel=0.02)
    prior.denoise(torch.rand(1, 3, 32, 32), 0.8)
    assert spy.calls[-1][1] == pytest.approx([0.8])
    assert noise_gain(32, 32) == pytest.approx(1.0, abs=1e-6)


def masked_natural() -> NetworkPrior:
    network = lively(NaturalConfig(channels=(16, 32), blocks=(1, 1), takes_mask=True))
    return NetworkPrior(network, EDM(network), Traits(channels=3, takes_mask=True), multiple=4)


def test_tiles_of_a_prior_that_takes_a_mask_agree_with_the_whole():
    whole = masked_natural()
    rng = torch.Generator().manual_seed(2)
    x = torch.rand(1, 3, 150, 160, generator=rng) * 2 - 1
    known = torch.rand(1, 3, 150, 160, generator=rng) < 0.3
    reference = whole.fill(x, known, 0.4)
    tiled = Tiled(whole, size=96, overlap=48, multiple=4)
    assert tiled.traits == whole.traits
    assert ((tiled.fill(x, known, 0.4) - reference) / 2).square().mean() < 1e-6
    assert (reference - whole.denoise(x, 0.4)).abs().mean() > 0.005  # the mask says something


def test_a_network_without_a_filler_refuses_a_mask():
    network = lively(NaturalConfig(channels=(8,), blocks=(1,)))
    with pytest.raises(ValueError, match="mask"):
        network(torch.rand(1, 3, 8, 8), torch.zeros(1), torch.ones(1, 3, 8, 8))


def test_a_grey_picture_is_filled_as_three_equal_channels():
    prior, x = masked_natural(), torch.rand(1, 1, 32, 32) * 2 - 1
    known = torch.rand(1, 1, 32, 32) < 0.5
    colour = prior.fill(x.expand(-1, 3, -1, -1), known.expand(-1, 3, -1, -1), 0.3)
    torch.testing.assert_close(prior.fill(x, known, 0.3), colour.mean(1, keepdim=True))


def test_a_prior_without_a_mask_says_so():
    tiled, image = Tiled(Spy(), size=64, overlap=16, multiple=8), torch.zeros(1, 3, 64, 64)
    assert not tiled.traits.takes_mask
    with pytest.raises(ModelError, match="mask"):
        tiled.fill(image, image > 0, 0.1)


def test_a_resized_image_takes_no_mask():
    fitted = Fitted(masked_natural(), size=32)
    assert not fitted.traits.takes_mask
    assert fitted.traits.shrinks(16, 33)
    assert not fitted.traits.shrinks(32, 32)


def test_many_pictures_go_through_the_network_a_few_at_a_time():
    spy = Spy()
    x = torch.rand(5, 3, 40, 100)
    out = Tiled(spy, size=64, overlap=16, multiple=8, batch=2).denoise(x, torch.linspace(0.1, 0.5, 5))
    assert torch.allclose(out, x, atol=1e-6)
    assert max(call[0][0] for call in spy.calls) == 2
