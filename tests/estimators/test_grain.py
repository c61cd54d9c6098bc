"""Grain: measured where it is, drawn as it was measured, and put only into what was filled."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch

from diffbcp_cli.estimators.grain import measure_grain, with_grain
from diffbcp_cli.jobs.session import restore


def slope(height=256, width=320, channels=3):
    """A smooth picture, dark on the left and bright on the right."""
    return np.repeat(np.linspace(0.15, 0.85, width)[None, :, None], channels, 2) * np.ones((height, 1, 1))


def grainy(kind, strength=0.03, seed=0, channels=3):
    rng, clean = np.random.default_rng(seed), slope(channels=channels)
    noise = rng.standard_normal(clean.shape)
    if kind == "soft":
        noise = cv2.GaussianBlur(noise, (0, 0), 1.0).reshape(clean.shape)
        noise /= noise.std()
    if kind == "grey":
        noise = np.repeat(noise[..., :1], channels, 2)
    if kind == "bright":
        noise *= np.sqrt(clean / clean.mean())
    return (clean + strength * noise).astype(np.float32), strength * noise


def correlation(noise):
    """Of neighbours, and of the first two colours."""
    pairs = [(noise[:, 1:], noise[:, :-1])]
    pairs += [(noise[..., 0], noise[..., 1])] if noise.shape[2] > 1 else []
    return [float((a * b).mean() / np.sqrt((a * a).mean() * (b * b).mean())) for a, b in pairs]


@pytest.mark.parametrize(
    ("kind", "channels"), [("white", 3), ("soft", 3), ("grey", 3), ("bright", 3), ("white", 1)]
)
def test_a_draw_is_like_what_was_measured(kind, channels):
    picture, noise = grainy(kind, channels=channels)
    grain = measure_grain(picture, np.ones(picture.shape, bool))
    drawn = grain.draw(rng=torch.Generator().manual_seed(1))
    assert drawn.std() == pytest.approx(noise.std(), rel=0.12)
    assert correlation(drawn) == pytest.approx(correlation(noise), abs=0.08)
    dark, bright = np.interp([0.2, 0.8], grain.brightness, grain.strength)
    assert bright / dark == pytest.approx(2.0 if kind == "bright" else 1.0, rel=0.2)


def test_a_picture_without_grain_or_flat_places_gets_none():
    smooth = slope().astype(np.float32)
    assert measure_grain(smooth, np.ones(smooth.shape, bool)) is None
    scattered = np.repeat(np.random.default_rng(0).random((256, 320, 1)) < 0.5, 3, axis=2)
    assert measure_grain(grainy("white")[0], scattered) is None


def test_an_edge_is_no_grain():
    picture = slope()
    picture[:, 100:110] = 0.0
    picture[50:60] = 1.0
    assert measure_grain(picture.astype(np.float32), np.ones(picture.shape, bool)) is None


def test_only_what_was_filled_gets_grain_and_the_rest_is_untouched():
    picture, _ = grainy("white")
    filled = np.zeros(picture.shape, bool)
    filled[100:140, 100:180] = True
    grain = measure_grain(picture, ~filled)
    plain = np.where(filled, slope(), picture).astype(np.float32)
    done = with_grain(plain, filled, grain, rng=torch.Generator().manual_seed(0))
    assert np.array_equal(done[~filled], picture[~filled])
    assert (done - plain)[filled].std() == pytest.approx(0.03, rel=0.2)


def test_a_fill_is_as_grainy_as_what_is_around_it_and_the_plain_one_is_kept():
    picture, _ = grainy("soft")
    observed = np.ones(picture.shape, bool)
    observed[100:130, 100:160] = False
    cfg = {"method": "telea", "seed": 3}
    found, again = (restore(picture, observed, cfg, prior=None, name="a.png") for _ in range(2))
    assert np.array_equal(found.mean, again.mean)
    assert found.numbers["grain"] == pytest.approx(0.03, rel=0.15)
    plain = restore(picture, observed, {**cfg, "grain": "none"}, prior=None, name="a.png")
    assert np.array_equal(found.maps["plain"], plain.mean)
    inside, around = np.s_[104:126, 104:156], np.s_[104:126, 170:222]
    rough = [np.diff(found.mean[part], axis=1).std() for part in (inside, around)]
    assert rough[0] == pytest.approx(rough[1], rel=0.2)
    denoised = restore(picture, observed, {**cfg, "observed": "posterior"}, prior=None, name="a.png")
    assert denoised.numbers["grain"] is None
