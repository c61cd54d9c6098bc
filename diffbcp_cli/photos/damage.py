"""Simulated damage: noise and missing pixels, to test a restoration on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.random import Generator

from ..errors import UsageError
from .masks import Bools
from .paint import parse_colour
from .photo import Photo

_FLOAT_SUFFIXES = (".tif", ".tiff", ".npy")


def damaged(photo: Photo, observed: Bools, *, noise_std: float, fill: str, rng: Generator) -> Photo:
    """Return `photo` + noise_std * N(0, 1), unclipped, with the entries that are not observed set to `fill`.

    observed: (H, W, C), True = observed. fill: nan, or a colour by its name or like #ff00ff.
    """
    noise = rng.standard_normal(photo.pixels.shape, dtype=np.float32)
    noisy = photo.pixels + np.float32(noise_std) * noise
    return replace(photo, pixels=np.where(observed, noisy, _fill_value(fill, photo)))


def stored_as(photo: Photo, path: Path) -> Photo:
    """Return `photo` with the depth that keeps it unclipped in a file at `path`: float in TIFF and .npy."""
    return replace(photo, depth="float32") if path.suffix.lower() in _FLOAT_SUFFIXES else photo


def _fill_value(fill: str, photo: Photo) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    if fill == "nan":
        return np.full(photo.channels, np.nan, np.float32)
    levels = parse_colour(fill)
    if photo.grey and len(set(levels)) > 1:
        raise UsageError(
            f"{photo.name} is grey and cannot be filled with {fill}", hint="use black, white or grey"
        )
    return np.asarray(levels[: photo.channels], np.float32) / np.float32(255)
