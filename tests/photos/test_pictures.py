"""Pictures for people: the right size, the right colours, and sane for any photograph."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image

from diffbcp_cli.photos import pictures


def opened(png: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB"))


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).random(shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(31, 17, 1), (31, 17), (60, 90, 3), (16, 300, 3), (700, 520, 3)])
def test_heat_map_has_a_pixel_or_more_for_each_and_a_bar(shape: tuple[int, ...]) -> None:
    picture = opened(pictures.heat_map(0.1 * random(*shape)))
    height, width = picture.shape[:2]
    assert height > shape[0]
    assert width > shape[1] + 80
    assert max(height, width) < 1200
    assert (picture[0, 0] == 255).all()


def test_heat_map_colours_follow_the_values() -> None:
    std = np.zeros((60, 60, 3), np.float32)
    std[:, 30:] = 0.2
    picture = opened(pictures.heat_map(std)).astype(int)
    middle = picture.shape[0] // 2
    assert picture[middle, 100].sum() < 60  # nothing known to be wrong: black
    assert picture[middle, 400].sum() > 500  # the top of the scale


def test_heat_map_takes_the_rms_over_channels() -> None:
    std = np.zeros((20, 20, 3), np.float32)
    std[..., 0] = np.sqrt(3.0) * 0.1
    grey = np.full((20, 20), 0.1, np.float32)
    assert pictures.heat_map(std, top=0.2) == pictures.heat_map(grey, top=0.2)


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.5])
def test_constant_uncertainty_is_drawn(value: float) -> None:
    assert opened(pictures.heat_map(np.full((20, 30, 3), value))).size


@pytest.mark.parametrize("shape", [(31, 17, 1), (40, 60, 3), (16, 200, 3)])
def test_panel_holds_three_pictures(shape: tuple[int, ...]) -> None:
    before, after, std = random(*shape), random(*shape), 0.1 * random(*shape)
    picture = opened(pictures.panel(before, random(*shape) < 0.5, after, std))
    height, width = picture.shape[:2]
    assert width > 3 * (height - 60) * shape[1] / shape[0]


def test_large_pictures_are_capped() -> None:
    big = np.broadcast_to(np.float32(0.1), (1000, 5000, 3))
    assert opened(pictures.panel(big, big > 0, big, big)).shape[1] < 3200
    assert opened(pictures.overlay(big[:20], big[:20] > 0)).shape[:2] == (16, 4096)


def test_panel_without_uncertainty_holds_two_pictures() -> None:
    """No map of zeros, which would be the claim of certainty."""
    before, after = random(480, 480, 3), np.full((480, 480, 3), (0, 0, 1.0))
    known = random(480, 480, 3) < 0.5
    two, three = (opened(pictures.panel(before, known, after, std)) for std in (None, random(480, 480, 3)))
    assert 2 * 480 < two.shape[1] < 2.2 * 480
    assert three.shape[1] > 3 * 480
    blue = (two[..., :3] == (0, 0, 255)).all(-1).sum()
    assert blue > 0.95 * 480 * 480


def test_panel_shows_the_damage_as_it_is() -> None:
    red = np.broadcast_to(np.float32([1, 0, 0]), (480, 480, 3))
    blue = np.broadcast_to(np.float32([0, 0, 1]), (480, 480, 3))
    picture = opened(pictures.panel(red, np.zeros((480, 480, 3), bool), blue, 0.1 * random(480, 480, 3)))
    assert ((picture == [255, 0, 0]).all(-1).sum(), (picture == [0, 0, 255]).all(-1).sum()) == (
        480**2,
        480**2,
    )


def test_nan_does_not_spoil_a_picture() -> None:
    pixels = random(20, 20, 3)
    pixels[:3] = np.nan
    observed = np.isfinite(pixels)
    assert opened(pictures.panel(pixels, observed, random(20, 20, 3), 0.1 * random(20, 20, 3))).size
    assert opened(pictures.overlay(pixels, observed)).size


def test_overlay_tints_what_will_be_filled() -> None:
    pixels = np.full((480, 480, 1), 0.5, np.float32)
    observed = np.ones((480, 480, 1), bool)
    observed[:, :240] = False
    picture = opened(pictures.overlay(pixels, observed)).astype(int)
    assert picture.shape == (480, 480, 3)
    assert (picture[:, 240:] == 128).all()
    red, green, _ = picture[0, 0]
    assert red - green > 80


@pytest.mark.parametrize("length", [1, 2, 100])
@pytest.mark.parametrize("burn_in", [0, 1, 40])
def test_trace_plot_of_any_length(length: int, burn_in: int) -> None:
    series: Any = random(length)
    found = {"noise std": series, "rank": np.arange(length), "change": series}
    assert opened(pictures.trace_plot(found, burn_in=burn_in)).shape == (720, 900, 3)
    assert opened(pictures.trace_plot({"noise std": series}, burn_in=burn_in)).shape == (240, 900, 3)


def test_pictures_are_deterministic() -> None:
    std = 0.1 * random(20, 30, 3)
    assert pictures.heat_map(std) == pictures.heat_map(std)


PEAK = """
import resource, numpy as np
from diffbcp_cli.photos import pictures
pictures.heat_map(np.zeros((64, 64), np.float32))  # matplotlib is there
std = np.random.default_rng(0).random((2048, 2048, 3), np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
pictures.heat_map(std)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
"""


def test_a_large_heat_map_takes_little_memory():
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 250  # MB; std itself has 50, and imshow would take 500
