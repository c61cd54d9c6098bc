"""Read the files of a pair: result, truth, mask, standard deviations and draws."""

from __future__ import annotations

import struct
import zipfile
import zlib
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..photos.masks import ALPHA, Polarity, missing_share, read_mask
from ..photos.photo import Photo, read_photo
from .arrays import Mask
from .pairs import Pair, read_run

_DAMAGE = (OSError, ValueError, LookupError, EOFError, zipfile.BadZipFile, zlib.error, struct.error)
Floats: TypeAlias = NDArray[np.float32]


def read_pair(pair: Pair) -> tuple[Photo, Photo]:
    """Read result and truth: pixels (H, W, C) in [0, 1], finite and of the same size."""
    result, truth = read_photo(pair.result), read_photo(pair.truth)
    for photo in (result, truth):
        if not np.isfinite(photo.pixels).all():
            raise InputError(f"{photo.path} has pixels that are not numbers", hint="export it once more")
    if result.pixels.shape != truth.pixels.shape:
        raise InputError(
            f"{pair.result.name} is {_size(result)} but {pair.truth.name} is {_size(truth)}",
            hint="compare pictures of one size and kind; was one of them resized or turned?",
        )
    return result, truth


def _size(photo: Photo) -> str:
    return f"{photo.width}x{photo.height} {'grey' if photo.grey else 'RGB'}"


def read_region(pair: Pair, result: Photo, polarity: Polarity) -> tuple[Mask | None, str | None]:
    """Read the mask of a pair, (H, W, C) True = observed; None if there is none. And why it cannot be used, if so.

    A pair without its own mask takes the mask that the run's JSON file names. That file must still exist and still
    leave out the same share of the picture.
    """
    run = read_run(pair.run)
    if pair.mask is not None:
        return read_mask(pair.mask, result, polarity=polarity), None
    if run.mask is None:
        return None, None
    if not run.mask.is_file() and str(run.mask) != ALPHA:
        return None, f"the run's mask {run.mask} is not there; give it with --mask"
    theirs: Polarity = "white-keeps" if run.polarity == "white-keeps" else "white-fills"
    observed = read_mask(run.mask, result, polarity=theirs)
    if run.missing_share is not None and abs(missing_share(observed) - run.missing_share) > 1e-6:
        return None, f"{run.mask} is no longer the mask of the run; give the right one with --mask"
    return observed, None


def read_std(pair: Pair, shape: tuple[int, ...]) -> Floats | None:
    """Read the standard deviations, (H, W, C); without a file of them, compute them from the draws."""
    if pair.std is not None:
        std = read_photo(pair.std, bounded=False).pixels
        if std.shape != shape:
            raise InputError(f"{pair.std.name} has shape {std.shape} but the picture has {shape}")
        return std
    draws = read_samples(pair, shape)
    return None if draws is None else np.asarray(draws.std(axis=0, ddof=1, dtype=np.float64), np.float32)


def read_samples(pair: Pair, shape: tuple[int, ...]) -> NDArray[Any] | None:
    """Read the draws, (S, H, W, C) in [0, 1]; None if there are fewer than two."""
    if pair.samples is None:
        return None
    try:
        with pair.samples.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            key = "samples" if "samples" in file.files else file.files[0]
            draws = file[key]
    except (
        OSError,
        ValueError,
        IndexError,
        zipfile.BadZipFile,
        EOFError,
        zlib.error,
        struct.error,
        LookupError,
    ) as error:
        raise InputError(f"{pair.samples.name} cannot be read as draws: {error}") from error
    if draws.dtype.kind in "ui":
        draws = draws.astype(np.float32) / np.float32(np.iinfo(draws.dtype).max)
    draws = draws[..., None] if draws.ndim == 3 else draws
    if draws.ndim != 4 or draws.shape[1:] != shape:
        raise InputError(f"{pair.samples.name} has shape {draws.shape} but the picture has {shape}")
    return draws if len(draws) > 1 else None
