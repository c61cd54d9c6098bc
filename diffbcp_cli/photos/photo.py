"""Photographs in and out of files: 16 bit with a profile in, 16 bit with that profile out."""

from __future__ import annotations

import hashlib
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tifffile
from numpy.typing import NDArray

from ..errors import InputError, UsageError, typed
from . import files
from .codecs import metadata
from .codecs.decode import decode
from .codecs.described import NOTHING, Metadata
from .codecs.encode import JPEG, encode

Depth = Literal["uint8", "uint16", "float32"]
Floats = NDArray[np.float32]

MAX_PIXELS = 300_000_000
MAX_BYTES = 2**32  # of a file
FLOAT_RANGE = (-1.0, 2.0)  # floats are meant for [0, 1]; noise may carry them past it, but not this far
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp", ".npy")
READABLE = (*SUFFIXES, ".heic", ".heif", ".avif")
_ROWS = 256  # of a picture that are turned into samples at once
_TOP = {"uint8": 255, "uint16": 65535}
_DEPTHS_OF: dict[str, tuple[Depth, ...]] = {
    ".png": ("uint8", "uint16"),
    ".tif": ("uint8", "uint16", "float32"),
    ".tiff": ("uint8", "uint16", "float32"),
    ".npy": ("uint8", "uint16", "float32"),
}
_NO_ALPHA = (*JPEG, ".bmp")
_NO_METADATA = (".bmp", ".npy")
_JPEG_EXIF_LIMIT = 65533
_MOST_SIDE = {".jpg": 65500, ".jpeg": 65500, ".webp": 16383}  # pixels, of the encoders
_MOST_ICC = {
    ".png": 2**20 - 1,
    ".jpg": 255 * 65519,
    ".jpeg": 255 * 65519,
}  # bytes; Pillow opens no PNG with more


@dataclass(frozen=True)
class Photo:
    """One photograph, upright, with what its file said about it.

    pixels: (H, W, C) float32 in [0, 1], C = 1 grey or 3 RGB; a float file keeps its values, NaN among them.
    alpha: (H, W) float32 in [0, 1], 0 is transparent; None when the file has none.
    depth: of the file's samples. icc, exif: as in the file, but EXIF no longer asks to turn the picture.
    notes: what was changed on reading, for the user. digest: SHA-256 of the file. more: what else the file said.
    jpeg: how strongly the file is compressed as a JPEG (`photos/jpeg.py`); None if it is none.
    """

    pixels: Floats
    alpha: Floats | None
    depth: Depth
    grey: bool
    icc: bytes | None
    exif: bytes | None
    format: str
    path: Path
    notes: tuple[str, ...] = ()
    digest: str = ""
    more: Metadata = NOTHING
    jpeg: float | None = None

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.pixels.shape[0])

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.pixels.shape[1])

    @property
    def channels(self) -> int:
        """1 for grey, 3 for RGB."""
        return int(self.pixels.shape[2])

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


def read_photo(path: Path, *, max_pixels: int = MAX_PIXELS, bounded: bool = True) -> Photo:
    """Read PNG, JPEG, WebP, TIFF, BMP, HEIC, AVIF or .npy: 8, 16 bit or float, grey or RGB, with or without alpha.

    bounded: refuse floats outside [0, 1]; standard deviations may be larger.
    """
    path = Path(path)
    data = read_bytes(path)
    raster = decode(data, path.name, max_pixels=max_pixels)
    values = _unit(raster.samples)
    count = values.shape[2]
    colours = 3 if count >= 3 else 1
    pixels = np.ascontiguousarray(values[..., :colours])
    alpha = np.clip(values[..., -1], 0.0, 1.0) if count in (2, 4) else None
    if bounded and raster.samples.dtype.kind == "f":
        _check_range(pixels, path.name)
    depth: Depth = str(raster.samples.dtype)  # type: ignore[assignment]  # decode gives these three
    return Photo(
        pixels,
        alpha,
        depth,
        colours == 1,
        raster.icc,
        raster.exif,
        raster.format,
        path,
        notes=raster.notes,
        digest=digest(data),
        more=raster.more,
        jpeg=raster.jpeg,
    )


def write_photo(path: Path, pixels: NDArray[Any], like: Photo) -> Path:
    """Write pixels (H, W, C) or (H, W) in [0, 1] the way `like` was stored; return `path`.

    The suffix names the format. Depth, alpha, profile, EXIF and the rest are those of `like` as far as the format
    holds them (see `losses`): a float photograph becomes a 16-bit PNG, or a float TIFF or .npy. Integer
    samples are clipped and rounded half to even; float samples are written as they are.
    """
    path = Path(path)
    suffix = check_suffix(path)
    check_side(path, like)
    values = np.asarray(pixels, np.float32).reshape(*np.shape(pixels)[:2], -1)
    if values.shape[:2] != like.pixels.shape[:2]:
        raise ValueError(f"pixels of shape {values.shape} are not of the size of {like.pixels.shape}")
    if like.alpha is not None and suffix not in _NO_ALPHA:
        values = np.concatenate([values, like.alpha[..., None]], axis=-1)
    samples = _samples(values, _depth_in(suffix, like.depth))
    exif = None if _exif_is_too_long(suffix, like) else like.exif
    data = encode(samples, suffix, icc=_icc_in(suffix, like), exif_block=exif, more=like.more)
    return files.write_bytes(path, data)


def encode_std(path: Path, std: NDArray[Any]) -> Path:
    """Write standard deviations (H, W, C) or (H, W), in [0, 1] units, as a float32 TIFF; grey as 2-D."""
    values = np.asarray(std, np.float32)
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[..., 0]
    photometric = "rgb" if values.ndim == 3 else "minisblack"
    with files.replacing(path) as temporary:
        tifffile.imwrite(temporary, values, photometric=photometric, metadata=None, software=False)
    return path


def losses(path: Path, like: Photo) -> tuple[str, ...]:
    """Say what a file named `path` cannot keep of `like`, each in a few words; nothing if it keeps all."""
    suffix = check_suffix(path)
    found = []
    if _depth_in(suffix, like.depth) != like.depth:
        bits = _depth_in(suffix, like.depth).removeprefix("uint")
        found.append(f"{suffix} holds {bits} bits per sample, {like.name} is {like.depth}")
    if like.alpha is not None and suffix in _NO_ALPHA:
        found.append(f"{suffix} holds no transparency")
    if suffix in _NO_METADATA and (like.icc or like.exif):
        found.append(f"{suffix} holds no ICC profile or EXIF")
    elif _exif_is_too_long(suffix, like):
        found.append(f"{suffix} holds no EXIF of this length")
    if like.icc and suffix not in _NO_METADATA and _icc_in(suffix, like) is None:
        found.append(f"{suffix} holds no ICC profile of {len(like.icc):,} bytes")
    return (*found, *metadata.losses(suffix, like.more))


def check_side(path: Path, like: Photo) -> None:
    """Refuse a format that holds no picture of this size."""
    suffix = check_suffix(path)
    most = _MOST_SIDE.get(suffix)
    if most is not None and max(like.width, like.height) > most:
        raise UsageError(
            f"{like.name} is {like.width}x{like.height}, and {suffix} holds at most {most} pixels a side",
            hint="PNG and TIFF hold it: -o photo.png; for a pipe --format png",
        )


def _exif_is_too_long(suffix: str, like: Photo) -> bool:
    return suffix in JPEG and len(like.exif or b"") > _JPEG_EXIF_LIMIT


def _icc_in(suffix: str, like: Photo) -> bytes | None:
    """The profile, unless a file of this suffix cannot hold it."""
    return like.icc if len(like.icc or b"") <= _MOST_ICC.get(suffix, MAX_BYTES) else None


def check_suffix(path: Path) -> str:
    """Return the lower-case suffix of `path` if photographs can be written under it."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        what = f"the suffix {suffix!r}" if suffix else "no suffix"
        raise UsageError(
            f"{path} has {what}, so its format is unknown", hint=f"use one of {', '.join(SUFFIXES)}"
        )
    return suffix


def digest(data: bytes) -> str:
    """SHA-256 of the content of a file, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def read_bytes(path: Path) -> bytes:
    """Return the content of an input file, or say why it cannot be had."""
    try:
        about = Path(path).stat()
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISDIR(about.st_mode)):
            raise InputError(f"{path} is not a regular file", hint="save it to a file first")
        if about.st_size > MAX_BYTES:
            raise InputError(f"{path} has {about.st_size / 1e9:.0f} GB, too many for an image")
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist", hint="check the name: ls") from error
    except IsADirectoryError as error:
        hint = f"name a file in it: ls {typed(path)}"
        raise InputError(f"{path} is a folder, not an image", hint=hint) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{path} cannot be read: {reason.lower()}", hint="check its permissions: ls -l"
        ) from error


def _unit(samples: NDArray[Any]) -> Floats:
    """Bring samples to [0, 1]; floats stay as they are."""
    if samples.dtype.kind == "f":
        return np.asarray(samples, np.float32)
    values = samples.astype(np.float32)
    values /= np.float32(_TOP[str(samples.dtype)])  # in place: large pictures would take two copies
    return values


def _check_range(pixels: Floats, name: str) -> None:
    finite = pixels[np.isfinite(pixels)]
    if not finite.size:
        raise InputError(f"{name} holds no numbers, only NaN or infinity", hint="export it once more")
    low, high = float(finite.min()), float(finite.max())
    if FLOAT_RANGE[0] <= low and high <= FLOAT_RANGE[1]:
        return
    if low < FLOAT_RANGE[0]:
        hint = "scale it to 0..1, and set missing pixels to NaN"
    else:
        hint = f"divide it by {next((top for top in (255, 65535) if high <= top), f'{high:g}')}"
    raise InputError(f"{name} has values from {low:g} to {high:g}; floats must run from 0 to 1", hint=hint)


def _depth_in(suffix: str, depth: Depth) -> Depth:
    """The depth that a file of this suffix holds a photograph of `depth` with."""
    held = _DEPTHS_OF.get(suffix, ("uint8",))
    return depth if depth in held else held[-1]


def _samples(values: Floats, depth: Depth) -> NDArray[Any]:
    if depth == "float32":
        return values
    samples = np.empty(values.shape, depth)
    for top in range(0, len(values), _ROWS):  # a few rows at a time: large pictures would take three copies
        rows = np.nan_to_num(values[top : top + _ROWS], nan=0.0, posinf=1.0, neginf=0.0).clip(0.0, 1.0)
        samples[top : top + _ROWS] = np.rint(rows * np.float32(_TOP[depth]))
    return samples
