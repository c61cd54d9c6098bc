"""What was painted over is found, with a hard brush and a soft one, and what was left of it is said."""

from __future__ import annotations

import io
from dataclasses import replace

import cv2
import numpy as np
import pytest
from photo_files import make_photo
from PIL import Image

from diffbcp_cli.errors import MaskError, UsageError
from diffbcp_cli.photos.mask_edit import grow
from diffbcp_cli.photos.paint import left_beside, observed_by_colours, parse_colour, parse_colours

MAGENTA = (255, 0, 255)
SIZE = (120, 160)


def stroke(soft: float) -> np.ndarray:
    """How much paint there is, (H, W, 1): a line of 24 pixels with an edge of some softness."""
    alpha = np.zeros(SIZE, np.float32)
    cv2.line(alpha, (20, 30), (100, 70), 1.0, 24)
    return (cv2.GaussianBlur(alpha, (0, 0), soft) if soft else alpha)[..., None]


def painted(soft: float, colour=MAGENTA, quality: int | None = None):
    photo = make_photo(3, SIZE)
    alpha = stroke(soft)
    pixels = (1 - alpha) * photo.pixels + alpha * np.asarray(colour, np.float32) / 255
    levels = np.rint(pixels * 255).astype(np.uint8)
    if quality is not None:
        file = io.BytesIO()
        Image.fromarray(levels).save(file, "JPEG", quality=quality)
        levels = np.asarray(Image.open(file))
    return photo, replace(photo, pixels=levels.astype(np.float32) / 255), alpha[..., 0]


@pytest.mark.parametrize("quality", [None, 92])
def test_a_hard_brush_is_found_whole_and_nothing_else(quality):
    _, copy, alpha = painted(0, quality=quality)
    holes = ~grow(observed_by_colours(copy, [MAGENTA]), 2)[..., 0]
    assert holes[alpha > 0].all()
    assert holes.mean() < 1.7 * (alpha > 0).mean()


def test_a_soft_brush_is_found_whole_with_the_original():
    photo, copy, alpha = painted(4)
    holes = ~grow(observed_by_colours(copy, [MAGENTA], original=photo), 2)[..., 0]
    assert holes[alpha > 0.1].all()
    assert not holes[alpha < 1e-4][: SIZE[0] // 8].any()
    alone = ~observed_by_colours(copy, [MAGENTA])[..., 0]
    assert alone[alpha > 0.75].all()


def test_a_changed_place_that_is_not_painted_is_kept():
    photo, copy, _ = painted(4)
    pixels = copy.pixels.copy()
    pixels[-10:, -10:] = 0
    holes = ~observed_by_colours(replace(copy, pixels=pixels), [MAGENTA], original=photo)
    assert not holes[-10:, -10:].any()


def test_several_colours_and_names():
    assert parse_colours("magenta, #00ff00,ivory") == [MAGENTA, (0, 255, 0), (255, 255, 240)]
    _, copy, alpha = painted(0)
    both = copy.pixels.copy()
    both[:8, :8] = (0, 1, 0)
    holes = ~observed_by_colours(replace(copy, pixels=both), parse_colours("magenta,lime"))[..., 0]
    assert holes[:8, :8].all()
    assert holes[alpha > 0].all()
    for bad in ("magentaa", "#12", "", "#gggggg"):
        with pytest.raises(UsageError, match="not a colour"):
            parse_colour(bad)


def test_tolerance_is_as_the_eye_sees_it():
    photo = make_photo(3, (16, 16))
    pixels = np.zeros_like(photo.pixels)
    pixels[:8] = np.asarray([250, 8, 250], np.float32) / 255
    near = replace(photo, pixels=pixels)
    assert not observed_by_colours(near, [MAGENTA])[:8].any()
    assert observed_by_colours(near, [MAGENTA])[8:].all()
    assert observed_by_colours(near, [MAGENTA], tolerance=0).all()


def test_a_grey_photograph_has_no_magenta():
    with pytest.raises(MaskError, match="no such colour"):
        observed_by_colours(make_photo(1), [MAGENTA])


@pytest.mark.parametrize("colour", [MAGENTA, (255, 255, 255), (0, 0, 0)])
def test_paint_that_was_left_beside_the_mask_is_said(colour):
    """The bug it was made for: a mask of the stroke's core, with its soft edge among the known pixels."""
    _, copy, alpha = painted(3, colour)
    core, whole = ~(alpha > 0.97), ~(alpha > 0.004)
    assert "mask grow" in left_beside(copy, np.repeat(core[..., None], 3, -1))
    assert left_beside(copy, np.repeat(whole[..., None], 3, -1)) is None


def test_damage_of_one_colour_without_an_edge_is_not_called_paint():
    photo = make_photo(3, SIZE)
    alpha = stroke(0) > 0
    blank = replace(photo, pixels=np.where(alpha, 0, photo.pixels).astype(np.float32))
    assert left_beside(blank, ~np.repeat(alpha, 3, -1)) is None
    assert left_beside(photo, ~np.repeat(alpha, 3, -1)) is None
