"""The size of a photograph, from the head of its file."""

from __future__ import annotations

import warnings
from pathlib import Path

from PIL import Image


def size_of(path: Path) -> tuple[int, int] | None:
    """Width and height as the file states them, before any turn; None if Pillow cannot say.

    Nothing is decoded, and nothing refused: whatever is wrong with the file is said when it is read.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                return image.size
    except Exception:  # a damaged file may raise anything
        return None
