"""The compression of a JPEG: from the tables of a file, and from pixels that were saved as something else later."""

from __future__ import annotations

import io

import cv2
import numpy as np
import pytest
from PIL import Image

from diffbcp_cli.photos.jpeg import step_of_pixels, step_of_tables
from diffbcp_cli.photos.photo import read_photo


def scene(noise=0.02, side=160):
    """Waves and edges with noise, (side, side, 3) levels of 255."""
    y, x = np.mgrid[:side, :side] / side
    waves = np.stack([0.5 + 0.3 * np.sin(30 * x * (1 + y) + c) * np.cos(23 * y - c) for c in range(3)], -1)
    waves[40:90, 60:150] *= 0.5
    waves += noise * np.random.default_rng(0).standard_normal(waves.shape)
    return np.rint(waves.clip(0, 1) * 255).astype(np.uint8)


def saved(levels, quality):
    """The bytes of a JPEG."""
    file = io.BytesIO()
    Image.fromarray(levels).save(file, "JPEG", quality=quality)
    return file.getvalue()


def pixels_of(data):
    return np.asarray(Image.open(io.BytesIO(data))).astype(np.float32) / 255


@pytest.mark.parametrize("quality", [50, 75, 85])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_pixels_tell_what_the_tables_of_the_file_say(quality, noise):
    data = saved(scene(noise), quality)
    stated = step_of_tables(Image.open(io.BytesIO(data)).quantization)
    cropped = pixels_of(data)[3:, 5:]  # the grid may begin anywhere
    assert step_of_pixels(cropped) == pytest.approx(stated, rel=0.35)


def test_a_weak_compression_is_seen_too():
    assert 1 <= step_of_pixels(pixels_of(saved(scene(), 95))[3:, 5:]) < 4


def test_a_stronger_compression_has_a_larger_step():
    found = [step_of_tables(Image.open(io.BytesIO(saved(scene(), q))).quantization) for q in (95, 85, 75, 50)]
    assert found == sorted(found)
    assert found[0] < 0.2 * found[-1]


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
def test_a_picture_that_was_no_jpeg_has_no_grid(noise):
    picture = scene(noise).astype(np.float32) / 255
    assert step_of_pixels(picture) is None
    assert step_of_pixels(cv2.GaussianBlur(picture, (0, 0), 0.8)) is None
    assert step_of_pixels(picture[..., :1]) is None


def test_small_and_flat_pictures_have_no_grid():
    assert step_of_pixels(np.zeros((16, 16, 3), np.float32)) is None
    assert step_of_pixels(np.full((100, 100, 1), 0.5, np.float32)) is None


def test_a_photo_knows_what_its_file_says(tmp_path):
    (tmp_path / "a.jpg").write_bytes(saved(scene(), 75))
    Image.fromarray(scene()).save(tmp_path / "a.png")
    assert read_photo(tmp_path / "a.jpg").jpeg == pytest.approx(7.6, abs=0.1)
    assert read_photo(tmp_path / "a.png").jpeg is None
