"""Kinds of noise: told apart, removed as they are, and reported as far as they can be known."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from diffbcp_cli import load_prior
from diffbcp_cli.estimators.noise_model import Light, light_of, without_coarse_noise
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.units import to_signed


def scene(side=208):
    """Waves, an edge and a shade: smooth, in colour."""
    y, x = np.mgrid[:side, :side] / side
    waves = np.stack([0.5 + 0.35 * np.sin(9 * x + c) * np.cos(7 * y - c) for c in range(3)], -1)
    waves[40:90, 60:150] = (0.7, 0.4, 0.3)
    return waves.astype(np.float32)


def noisy(kind, level=0.03):
    rng, clean = np.random.default_rng(0), scene()
    noise = rng.standard_normal(clean.shape)
    if kind == "correlated":
        noise = cv2.GaussianBlur(noise, (0, 0), 0.9)
        noise /= noise.std()
    if kind == "poisson":
        noise *= np.sqrt(clean / clean.mean())
    eight = np.rint((clean + level * noise).clip(0, 1) * 255) / 255
    return eight.astype(np.float32), clean


def denoised(picture, **options):
    given = {"method": "nlm", "observed": "posterior", **options}
    return restore(picture, np.ones(picture.shape, bool), given, prior=load_prior("natural"))


def psnr(picture, truth):
    return -10 * np.log10(np.square(picture - truth).mean())


def test_correlated_noise_is_told_and_removed():
    picture, clean = noisy("correlated")
    found, white = denoised(picture), denoised(picture, noise_model="white")
    assert found.numbers["noise_model"] == "correlated"
    assert psnr(found.mean, clean) > psnr(picture, clean) + 3
    assert psnr(white.mean, clean) < psnr(picture, clean) + 1
    assert found.noise["std"] == pytest.approx(0.03, rel=0.3)
    assert found.noise["lower"] < 0.03 < found.noise["upper"]
    assert found.options.sigma is None


def test_white_noise_is_left_to_the_method():
    picture, _ = noisy("white")
    found, white = denoised(picture), denoised(picture, noise_model="white")
    assert found.numbers["noise_model"] == "white"
    assert np.array_equal(found.mean, white.mean)
    assert found.noise["std"] == pytest.approx(0.03, rel=0.1)


def test_a_level_at_the_end_of_its_interval_is_said_and_is_not_tight():
    found = denoised(np.rint(scene() * 255).astype(np.float32) / 255)
    assert found.numbers["noise_model"] == "white"
    assert "lower limit" in found.warnings[-1]
    assert found.noise["lower"] == 0
    assert found.noise["upper"] >= 4 * found.noise["std"]


def test_noise_that_follows_the_light_is_made_even():
    picture, clean = noisy("poisson", 0.04)
    found = denoised(picture)
    assert found.numbers["noise_model"] == "poisson"
    assert psnr(found.mean, clean) > psnr(picture, clean) + 5
    light = light_of(load_prior("natural"), to_signed(picture), 0.08)
    even = light.even(picture) - light.even(clean)
    dark, bright = (even[part].std() for part in (clean < 0.4, clean > 0.6))
    assert bright / dark == pytest.approx(1, rel=0.15)
    plain = picture - clean
    assert plain[clean > 0.6].std() > 1.4 * plain[clean < 0.4].std()


def test_the_even_curve_has_an_inverse_and_a_slope():
    light, values = Light(0.01, 1e-4), np.linspace(-0.1, 1.1, 50, dtype=np.float32)
    np.testing.assert_allclose(light.back(light.even(values)), values, atol=1e-4)
    assert light.even(np.float32([0, 1])) == pytest.approx([0, 1], abs=1e-6)
    rng = np.random.default_rng(0)
    for level in (0.1, 0.8):
        draws = level + np.sqrt(0.01 * level + 1e-4) * 0.1 * rng.standard_normal(20000).astype(np.float32)
        even = light.even(draws)
        back = even.std() * float(light.slope_back(np.float32([even.mean()]))[0])
        assert back == pytest.approx(draws.std(), rel=0.03)
        assert even.std() == pytest.approx(
            light.even(0.5 + 0.1 * np.sqrt(0.0051) * rng.standard_normal(20000)).std(), rel=0.1
        )


def test_strength_scales_the_level():
    picture, _ = noisy("white")
    half, twice = (denoised(picture, strength=strength) for strength in (0.5, 2.0))
    rough = [np.abs(np.diff(done.mean, axis=1)).mean() for done in (half, denoised(picture), twice)]
    assert rough == sorted(rough, reverse=True)
    assert half.noise["std"] == pytest.approx(0.03, rel=0.1)
    given = denoised(picture, strength=2.0, sigma=0.02)
    same = denoised(picture, sigma=0.04)
    assert np.array_equal(given.mean, same.mean)


def test_fine_detail_outlives_the_coarse_passes():
    """A chequerboard of single pixels averages to nothing in every copy."""
    prior, rng = load_prior("natural"), torch.Generator().manual_seed(0)
    picture = scene()
    board = np.indices(picture.shape[:2]).sum(0)[..., None] % 2 * 0.1
    left = without_coarse_noise(prior, to_signed((picture + board).astype(np.float32)), rng=rng)
    found = left.picture.permute(1, 2, 0).numpy() / 2
    assert np.diff(found, axis=1).std() == pytest.approx(np.diff(picture + board, axis=1).std(), rel=0.05)
