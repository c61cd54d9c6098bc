"""Small photographs and masks in files, for tests of folders and batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


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
