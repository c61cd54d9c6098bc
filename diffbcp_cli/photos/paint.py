"""Damage that somebody painted over: which pixels have the paint's colour, and whether some of it was left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import ImageColor

from ..errors import MaskError, UsageError
from .masks import Bools
from .photo import Floats, Photo

Levels = tuple[int, int, int]

TOLERANCE = 10.0  # CIE 1976 colour difference
SOFT, SOFT_REACH = 5.0, 6  # of the tolerance; pixels: the soft edge of a stroke
_VIVID = 50.0  # Lab chroma of a paint that photographs hardly have
_CHANGED = 4.0  # colour difference from the original that a stroke leaves
_EVEN = 0.6  # share of a hole that has one colour, if it was painted
_TRACE = 0.2  # share of paint in the pixels beside a hole that is seen in the result


def parse_colours(text: str) -> list[Levels]:
    """Levels 0..255 of colours like magenta, ivory or #ff00ff, separated by commas."""
    return [parse_colour(one.strip()) for one in text.split(",")]


def parse_colour(text: str) -> Levels:
    """Levels 0..255 of a colour's name in CSS, or of #rrggbb."""
    digits = text.removeprefix("#")
    try:
        if len(digits) == 6 and digits.lower() not in ImageColor.colormap:
            red, green, blue = bytes.fromhex(digits)
            return red, green, blue
        red, green, blue = ImageColor.getrgb(text)[:3]
    except ValueError as error:
        raise UsageError(
            f"{text!r} is not a colour", hint="write a name or #rrggbb: magenta, ivory, '#ff00ff'"
        ) from error
    return red, green, blue


def observed_by_colours(
    photo: Photo, colours: Sequence[Levels], *, tolerance: float = TOLERANCE, original: Photo | None = None
) -> Bools:
    """The pixels (H, W, 1) that have none of the colours.

    tolerance: of the difference in CIE Lab. The soft edge of a stroke is the paint's too: what is joined to it and
    differs from the original; without an original, what is joined to a vivid paint and looks much like it.
    """
    painted = np.zeros(photo.pixels.shape[:2], bool)
    lab = _lab(photo)
    for colour in colours:
        if photo.grey and len(set(colour)) > 1:
            raise MaskError(
                f"{photo.name} is grey and has no such colour", hint="name a grey: --color '#000000'"
            )
        paint = _lab_of(np.asarray(colour, np.float32).reshape(1, 1, 3) / 255)[0, 0]
        apart = np.linalg.norm(lab - paint, axis=-1)
        core = apart <= tolerance + 0.01  # NaN is apart from every colour
        if original is None and np.hypot(paint[1], paint[2]) > _VIVID:
            near = cv2.dilate(core.astype(np.uint8), _disc(SOFT_REACH)) > 0
            core = joined(core, near & (apart <= SOFT * tolerance))
        painted |= core
    if original is not None:
        painted = joined(painted, np.linalg.norm(lab - _lab(original), axis=-1) > _CHANGED)
    return ~painted[..., None]


def joined(core: Bools, wider: Bools) -> Bools:
    """`core`, and the parts of `wider` (H, W) that touch it."""
    count, labels = cv2.connectedComponents((core | wider).astype(np.uint8), connectivity=8)
    kept = np.zeros(count, bool)
    kept[np.unique(labels[core])] = True
    kept[0] = False
    return np.asarray(kept[labels])


def left_beside(photo: Photo, observed: Bools) -> str | None:
    """Say that paint was left beside the mask (H, W, C), or return None.

    A hole of one colour was painted. A known pixel beside it that is a mixture of this colour and of what lies
    further out has some of the paint, and the restoration would spread it.
    """
    holes: Bools = np.asarray(~observed.all(axis=-1))
    paint = _one_colour(photo.pixels, holes)
    if paint is None:
        return None
    distance = cv2.distanceTransform((~holes).astype(np.uint8), cv2.DIST_L2, 5)
    beside, outside = (
        (distance > 0) & (distance <= 2),
        (distance > 10) & np.isfinite(photo.pixels).all(axis=-1),
    )
    weight = cv2.blur(outside.astype(np.float32), (41, 41))
    blurred = cv2.blur(np.where(outside[..., None], photo.pixels, 0).astype(np.float32), (41, 41))
    there = beside & (weight > 0.02)
    if np.count_nonzero(there) < 20:
        return None
    ground = blurred.reshape(*holes.shape, -1)[there] / weight[there][:, None]
    towards = paint - ground
    share = ((photo.pixels[there] - ground) * towards).sum(axis=-1) / np.maximum(
        (towards**2).sum(axis=-1), 1e-4
    )
    if not float(np.median(share)) > _TRACE:
        return None
    return (
        "pixels beside the mask have the colour of the paint in it, which the result would show: "
        "diffbcp mask grow takes them in"
    )


def _one_colour(pixels: Floats, holes: Bools) -> NDArray[np.float32] | None:
    """The colour (C,) that most of the holes have, vivid or not; None if they show a picture."""
    inside = pixels[holes]
    if not inside.size or not np.isfinite(inside).all():
        return None
    middle = np.median(inside, axis=0)
    near = (np.abs(inside - middle).max(axis=-1) < 0.04).mean()
    return np.asarray(middle, np.float32) if near > _EVEN else None


def _disc(reach: int) -> NDArray[np.uint8]:
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1)), np.uint8)


def _lab(photo: Photo) -> Floats:
    return _lab_of(np.broadcast_to(photo.pixels, (*photo.pixels.shape[:2], 3)))


def _lab_of(rgb: NDArray[Any]) -> Floats:
    return np.asarray(cv2.cvtColor(np.ascontiguousarray(rgb, np.float32), cv2.COLOR_RGB2LAB), np.float32)
