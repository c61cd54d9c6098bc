"""EXIF, and the picture turned as it asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import ExifTags, Image

PREFIX = b"Exif\0\0"


def read_exif(
    load: Callable[[], Image.Exif | None], raw: bytes | None, damage: tuple[type[Exception], ...]
) -> tuple[bytes | None, int, tuple[str, ...]]:
    """Return the EXIF of the upright picture, the orientation of the stored one, and notes.

    The EXIF is `raw`, byte for byte, unless it asks to turn the picture. damage: what damaged EXIF raises.
    """
    try:
        exif = load()
        if exif is None:
            return None, 1, ()
        turn = int(exif.get(ExifTags.Base.Orientation, 1))
        if turn != 1:
            exif[ExifTags.Base.Orientation] = 1
            raw = None
        encoded = exif.tobytes()  # fails on damaged EXIF, which could not be written later
        block = raw or encoded
    except damage:
        return None, 1, ("left out its EXIF, which is damaged",)
    return block if block.startswith(PREFIX) else PREFIX + block, turn, ()


def upright(samples: NDArray[Any], orientation: int) -> NDArray[Any]:
    """Turn samples (H, W, S) as EXIF orientation 1..8 asks; any other number leaves them."""
    if orientation in (5, 6, 7, 8):
        samples = samples.swapaxes(0, 1)
    if orientation in (3, 4, 7, 8):
        samples = samples[::-1]
    if orientation in (2, 3, 6, 7):
        samples = samples[:, ::-1]
    return np.ascontiguousarray(samples)
