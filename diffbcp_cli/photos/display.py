"""Pictures for a browser: eight bits, of a size that it can hold, uncertainty and error as colours."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from .pictures import Floats, coloured, per_pixel, scale_top

MOST_LOSSLESS = 6_000_000  # pixels of a PNG; more become a JPEG
THUMBNAIL = 360  # pixels: its longer side


def shown(pixels: ArrayLike) -> tuple[bytes, str]:
    """A picture (H, W, C) in [0, 1] as bytes for a browser, and their media type; NaN is black."""
    levels = _levels(pixels)
    if levels.shape[0] * levels.shape[1] <= MOST_LOSSLESS:
        return _encoded(levels, ".png", [cv2.IMWRITE_PNG_COMPRESSION, 1]), "image/png"
    return _encoded(levels, ".jpg", [cv2.IMWRITE_JPEG_QUALITY, 92]), "image/jpeg"


def thumbnail(pixels: ArrayLike) -> bytes:
    """A small JPEG."""
    levels = _levels(pixels)
    scale = min(1.0, THUMBNAIL / max(levels.shape[:2]))
    size = (max(1, round(levels.shape[1] * scale)), max(1, round(levels.shape[0] * scale)))
    return _encoded(
        cv2.resize(levels, size, interpolation=cv2.INTER_AREA), ".jpg", [cv2.IMWRITE_JPEG_QUALITY, 85]
    )


def heat(values: ArrayLike, picture: ArrayLike) -> tuple[bytes, str, float]:
    """Standard deviations or errors (H, W, C) as colours over the dimmed picture, and the value of the brightest.

    Where nothing was changed the value is 0, and the picture shows through; the scale is that of the other places.
    """
    size = per_pixel(values)
    top = scale_top(size[size > 0]) if (size > 0).any() else scale_top(size)
    light = np.nan_to_num(np.asarray(picture, np.float32)).mean(axis=-1).clip(0, 1)
    cover = (4 * size / top).clip(0, 1)[..., None]
    dimmed = (0.45 * light)[..., None]
    mixed = cover * (coloured(size, 0.0, top) / np.float32(255)) + (1 - cover) * dimmed
    return *shown(mixed.astype(np.float32)), top


def mask_picture(observed: NDArray[np.bool_]) -> bytes:
    """Observed entries (H, W, C) as a grey PNG, white where any channel is to be filled."""
    holes = np.where(observed.all(axis=-1), 0, 255).astype(np.uint8)
    return _encoded(holes, ".png", [cv2.IMWRITE_PNG_COMPRESSION, 3])


def _levels(pixels: ArrayLike) -> NDArray[np.uint8]:
    values: Floats | NDArray[np.uint8] = np.asarray(pixels)
    values = values.reshape(*values.shape[:2], -1)[..., :3]
    if values.dtype != np.uint8:
        finite = np.nan_to_num(values, nan=0.0, posinf=1.0, neginf=0.0)
        values = np.rint(finite.clip(0, 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(values[..., 0] if values.shape[2] == 1 else values[..., ::-1])


def _encoded(levels: NDArray[Any], suffix: str, options: list[int]) -> bytes:
    good, data = cv2.imencode(suffix, levels, options)
    if not good:
        raise InputError("the picture cannot be shown: it has too many pixels")
    return bytes(data)
