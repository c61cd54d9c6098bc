"""Kinds of noise: told apart, removed as they are, and reported as far as they can be known."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
import torch
from PIL import Image

from diffbcp_cli import load_prior
from diffbcp_cli.errors import UsageError
from diffbcp_cli.estimators.noise_model import Light, light_of, taken_away
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


def by_default(picture, **options):
    """As `diffbcp denoise` does it, with a short chain where the noise is white."""
    return denoised(picture, **{"method": "diffbcp", "preset": "fast", **options})


def known(picture):
    return torch.ones_like(to_signed(picture), dtype=torch.bool)


def psnr(picture, truth):
    return -10 * np.log10(np.square(picture - truth).mean())


def test_correlated_noise_is_told_and_removed():
    picture, clean = noisy("correlated")
    found, white = by_default(picture), denoised(picture, noise_model="white")
    assert found.numbers["noise_model"] == "correlated"
    assert psnr(found.mean, clean) > psnr(picture, clean) + 6
    assert psnr(white.mean, clean) < psnr(picture, clean) + 1
    assert found.noise["std"] == pytest.approx(0.03, rel=0.3)
    assert found.noise["lower"] < 0.03 < found.noise["upper"]
    assert found.options.sigma is None
    assert found.options.method == "diffbcp"


def test_the_std_of_correlated_noise_covers_the_errors():
    picture, clean = noisy("correlated")
    found = by_default(picture)
    inside = np.abs(found.mean - clean) <= 1.645 * found.std
    assert 0.8 < inside.mean() <= 1
    assert found.std.mean() < 0.02


def test_a_jpeg_is_told_by_its_grid_and_mended():
    picture, clean = noisy("correlated", 0.02)
    file = io.BytesIO()
    Image.fromarray(np.rint(picture * 255).astype(np.uint8)).save(file, "JPEG", quality=80)
    shown = np.asarray(Image.open(file)).astype(np.float32) / 255
    found = by_default(shown)
    assert found.numbers["noise_model"] == "correlated"
    assert found.numbers["jpeg_step"] > 3
    assert psnr(found.mean, clean) > psnr(shown, clean) + 3


def test_the_strength_of_the_file_counts_before_that_of_the_pixels():
    picture, _ = noisy("white")
    given = {"method": "diffbcp", "preset": "fast", "observed": "posterior"}
    found = restore(picture, np.ones(picture.shape, bool), given, prior=load_prior("natural"), jpeg=5.0)
    assert (found.numbers["noise_model"], found.numbers["jpeg_step"]) == ("correlated", 5.0)


def test_white_noise_is_left_to_the_method():
    picture, _ = noisy("white")
    found, white = by_default(picture), by_default(picture, noise_model="white")
    assert found.numbers["noise_model"] == "white"
    assert np.array_equal(found.mean, white.mean)
    assert found.noise["std"] == pytest.approx(0.03, rel=0.1)


def test_a_clean_picture_is_left_as_it_is():
    clean = np.rint(scene() * 255).astype(np.float32) / 255
    found = by_default(clean)
    assert found.numbers["noise_model"] == "none"
    assert np.array_equal(found.mean, clean)
    assert found.noise["lower"] == 0
    assert 0 < found.std.max() < 0.01


def test_noise_of_a_kind_is_removed_at_the_level_that_is_given():
    picture, clean = noisy("correlated")
    less, more = (by_default(picture, noise_model="correlated", sigma=sigma) for sigma in (0.005, 0.03))
    assert np.abs(less.mean - picture).mean() < 0.8 * np.abs(more.mean - picture).mean()
    assert psnr(more.mean, clean) > psnr(less.mean, clean) + 1


def test_another_method_has_no_network_for_correlated_noise():
    picture, _ = noisy("correlated")
    assert denoised(picture).numbers["noise_model"] == "white"
    with pytest.raises(UsageError, match="network of its own, not one of --method nlm"):
        denoised(picture, noise_model="correlated")


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


def test_what_is_taken_away_tells_the_kinds_apart():
    network = load_prior("camera")
    white, spread = (
        taken_away(network, to_signed(noisy(kind)[0]), known(scene())) for kind in ("white", "correlated")
    )
    assert abs(white.alike) < 0.1
    assert spread.alike > 0.3
    assert (white.spreads, spread.spreads) == (False, True)
    for taken in (white, spread):
        assert taken.level / 2 == pytest.approx(0.03, rel=0.2)
        assert taken.sure / 2 == pytest.approx(0.03, rel=0.2)
    clean = taken_away(network, to_signed(scene()), known(scene()))
    assert not clean.spreads
    assert clean.sure < 0.3 * white.sure


def test_only_entries_far_from_holes_tell():
    network, picture = load_prior("camera"), to_signed(noisy("correlated")[0])
    here = known(scene())
    here[:, 60:80, 60:80] = False
    whole, holed = taken_away(network, picture, known(scene())), taken_away(network, picture * here, here)
    assert holed.level == pytest.approx(whole.level, rel=0.05)
    assert holed.alike == pytest.approx(whole.alike, abs=0.05)
    here[:, ::4] = False
    assert taken_away(network, picture * here, here) is None


def test_grain_around_a_hole_counts_as_noise():
    picture, _ = noisy("correlated")
    observed = np.ones(picture.shape, bool)
    observed[60:80, 60:80] = False
    given = {"preset": "fast"}
    prior = load_prior("natural")
    found = restore(picture, observed, given, prior=prior)
    assert found.numbers["noise_model"] == "correlated"
    assert found.noise["std"] == pytest.approx(0.03, rel=0.3)
    assert found.options.sigma is None
    white = restore(picture, observed, {**given, "noise_model": "white"}, prior=prior)
    assert white.noise["std"] < 0.015
    fine = restore(noisy("white")[0], observed, given, prior=prior)
    assert fine.numbers.get("noise_model") is None
