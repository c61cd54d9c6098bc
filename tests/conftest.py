"""Photographs and masks that several test files use."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from browser_page import browser
from PIL import Image

os.environ["DIFFBCP_CONFIG"] = os.devnull  # no test may depend on the defaults of whoever runs it
__all__ = ["browser"]  # a fixture for all
SHORT = ["--prior", "none", "--iterations", "6", "--burn-in", "3", "--rank", "6", "--quiet"]


def outputs(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def picture(height: int = 32, width: int = 32, channels: int = 3, seed: int = 0) -> np.ndarray:
    """A smooth picture with a little noise, (H, W, C) in [0, 1]."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width] / max(height, width)
    shades = np.stack([0.5 + 0.3 * np.sin(3 * x + k) * np.cos(4 * y) for k in range(channels)], -1)
    return (shades + 0.02 * rng.standard_normal(shades.shape)).clip(0, 1)


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "photo.png"
    Image.fromarray((picture() * 255).astype(np.uint8)).save(path)
    return path


@pytest.fixture
def mask(tmp_path: Path) -> Path:
    path = tmp_path / "mask.png"
    hole = np.zeros((32, 32), np.uint8)
    hole[8:14, 10:25] = 255
    Image.fromarray(hole).save(path)
    return path
