"""Small photographs and masks in files, for tests of folders and batches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from diffbcp_cli.photos.photo import Photo


def save(path: Path, seed: int = 0, size: tuple[int, int] = (16, 16)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3)).astype(np.uint8)).save(path)
    return path


def save_mask(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    hole = np.zeros((16, 16), np.uint8)
    hole[4:7, 3:9] = 255
    Image.fromarray(hole).save(path)
    return path


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def make_photo(channels: int = 3, shape: tuple[int, int] = (48, 64), **changes: Any) -> Photo:
    """A smooth picture with some texture; no large part of it has one value."""
    y, x = np.mgrid[: shape[0], : shape[1]] / np.array(shape)[:, None, None]
    waves = [0.5 + 0.3 * np.sin(7 * x + k) * np.cos(5 * y - k) + 0.15 * x for k in range(channels)]
    pixels = np.stack(waves, axis=-1) + np.random.default_rng(9).normal(0, 0.02, (*shape, channels))
    photo = Photo(
        pixels=pixels.clip(0, 1).astype(np.float32),
        alpha=None,
        depth="uint8",
        grey=channels == 1,
        icc=None,
        exif=None,
        format="PNG",
        path=Path("photo.png"),
    )
    return replace(photo, **changes)
