"""From the bytes of an image file to upright samples, its profile and its EXIF."""

from __future__ import annotations

import io
import logging
import lzma
import math
import os
import struct
import tokenize
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import (
    ExifTags,
    Image,
    ImageCms,
    UnidentifiedImageError,
    WebPImagePlugin,  # noqa: F401 (registers)
)

from ...errors import InputError
from ..jpeg import step_of_tables
from . import metadata, png16, tiff
from .described import NOTHING, Metadata
from .exif import read_exif, upright
from .openers import formats_of

MIN_SIDE = 16
_ICC = 34675  # the tag of a TIFF file
_READABLE = "PNG, JPEG, WebP, TIFF, BMP, HEIC, AVIF and .npy files can be read"
logging.getLogger("PIL").addHandler(logging.NullHandler())  # what matters is raised too
# What decoders raise on damaged data; a MemoryError or a Ctrl-C is none of it.
_DAMAGE = (
    OSError,
    EOFError,
    SyntaxError,
    ValueError,
    TypeError,
    AttributeError,
    LookupError,
    ArithmeticError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,  # of imagecodecs
    ImageCms.PyCMSError,
)
# Pillow's mode -> the mode we keep, and what to tell the user.
_MODES: dict[str, tuple[str, str | None]] = {
    "1": ("L", "converted from 1 bit to 8-bit grey"),
    "L": ("L", None),
    "LA": ("LA", None),
    "La": ("LA", None),
    "P": ("RGB", "converted from a palette to RGB"),
    "PA": ("RGBA", "converted from a palette to RGB"),
    "RGB": ("RGB", None),
    "RGBX": ("RGB", "left out 1 extra channel(s) that are not transparency"),
    "RGBA": ("RGBA", None),
    "RGBa": ("RGBA", None),
    "YCbCr": ("RGB", "converted from YCbCr to RGB"),
}


@dataclass(frozen=True)
class Raster:
    """An image as it is stored, upright.

    samples: (H, W, S) uint8, uint16 or float32; S is 1 grey, 2 grey + alpha, 3 RGB, 4 RGB + alpha. turn: the EXIF
    orientation of the stored one. jpeg: how strongly it is compressed (`photos/jpeg.py`), None if it is no JPEG.
    """

    samples: NDArray[Any]
    format: str
    icc: bytes | None = None
    exif: bytes | None = None
    notes: tuple[str, ...] = ()
    more: Metadata = NOTHING
    turn: int = 1
    jpeg: float | None = None


def decode(data: bytes, name: str, *, max_pixels: int, page: int | None = None) -> Raster:
    """Decode an image file; `name` is what errors call it. page: of a file of several, None if it must hold one."""
    if not data:
        raise InputError(f"{name} is empty", hint=_READABLE)
    with guarded(name, max_pixels):
        if data.startswith(np.lib.format.MAGIC_PREFIX):
            return _decode_npy(data, name, max_pixels)
        if tiff.is_tiff(data):
            decoded = _decode_tiff(data, name, max_pixels, page)
        else:
            decoded = _decode_pillow(data, name)
        more, lost = metadata.read(data, decoded.exif, decoded.turn)
        return replace(decoded, more=more, notes=decoded.notes + lost)


@contextmanager
def guarded(name: str, max_pixels: int) -> Iterator[None]:
    """Turn whatever decoders raise on damaged data into a sentence; keep their talk off the screen."""
    try:
        with _silent_c_libraries(), _pillow_manners(max_pixels):
            yield
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InputError(
            f"{name} has more than {max_pixels / 1e6:g} million pixels",
            hint="cut it into smaller images first",
        ) from error
    except UnidentifiedImageError as error:
        raise InputError(f"{name} is not an image, or its header is damaged", hint=_READABLE) from error
    except _DAMAGE as error:
        text = f"{name} cannot be decoded: it is damaged or cut short"
        raise InputError(text, hint="copy or export it once more") from error


@contextmanager
def _pillow_manners(max_pixels: int) -> Iterator[None]:
    """Hold Pillow to our own size limit, and keep its warnings off the screen."""
    before = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        Image.MAX_IMAGE_PIXELS = max_pixels
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


@contextmanager
def _silent_c_libraries() -> Iterator[None]:
    """Send file descriptor 2 nowhere for a while: libtiff and libpng print there, past Python and Pillow."""
    try:
        stderr = os.dup(2)
    except OSError:  # closed: nothing to keep clean
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(nowhere)


def load_array(data: bytes) -> NDArray[Any]:
    """Return the array of a `.npy` file; raise ValueError when it is none or cut short."""
    try:
        _check_header(data)
        stored = np.load(io.BytesIO(data), allow_pickle=False)
    except (*_DAMAGE, tokenize.TokenError, MemoryError) as error:  # a damaged header may claim any size
        raise ValueError("not an array, or cut short") from error
    if not isinstance(stored, np.ndarray):
        raise ValueError("an archive of arrays")
    return stored


def _check_header(data: bytes) -> None:
    """Raise ValueError when the header claims more than the file holds, before memory is set aside for it."""
    if not data.startswith(np.lib.format.MAGIC_PREFIX):
        return
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = read(file)
    if math.prod(shape) * kind.itemsize > len(data):
        raise ValueError("cut short")


def _decode_npy(data: bytes, name: str, max_pixels: int) -> Raster:
    stored = load_array(data)
    if stored.ndim not in (2, 3) or (stored.ndim == 3 and stored.shape[2] not in (1, 2, 3, 4)):
        raise InputError(
            f"{name} holds an array of shape {stored.shape}",
            hint="save (height, width) for grey, or (height, width, 3) for RGB",
        )
    check_size(stored.shape[1], stored.shape[0], name)
    if stored.shape[0] * stored.shape[1] > max_pixels:
        raise Image.DecompressionBombError
    samples = stored.reshape(*stored.shape[:2], -1)
    if samples.dtype.kind == "f":
        return Raster(samples.astype(np.float32), "NPY")
    if samples.dtype not in (np.dtype(np.uint8), np.dtype(np.uint16)):
        raise InputError(
            f"{name} holds {stored.dtype} numbers", hint="save uint8, uint16, or floats between 0 and 1"
        )
    return Raster(samples.astype(samples.dtype.newbyteorder("=")), "NPY")


def _decode_tiff(data: bytes, name: str, max_pixels: int, number: int | None) -> Raster:
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        pages = tiff.pictures(tif) if number is None else tiff.pictures(tif, tiff.MOST_PAGES)
        page = pages[number or 0]
        check_size(page.imagewidth, page.imagelength, name)
        check_frames((len(pages) if number is None else 1) * page.imagedepth, name, "pages")
        if tiff.needs_pillow(page):
            return _decode_pillow(data, name, page=page.index)
        if page.dtype not in (np.uint8, np.uint16, np.float16, np.float32, np.float64):
            raise InputError(
                f"{name} has {page.dtype} samples",
                hint="export it as an 8-bit, 16-bit or float TIFF",
            )
        if page.imagewidth * page.imagelength * max(1, page.samplesperpixel // 4) > max_pixels:
            raise Image.DecompressionBombError
        tiff.check_layout(page, name)
        samples, notes = tiff.read_page(page, data)
        turn = page.tags.valueof(ExifTags.Base.Orientation, default=1)
        exif, _, lost = read_exif(lambda: tiff.read_exif(data), None, _DAMAGE)
        icc, unread = tiff.profile(page.tags.valueof(_ICC))
        return Raster(upright(samples, turn), "TIFF", icc, exif, notes + lost + unread, turn=turn)


def _decode_pillow(data: bytes, name: str, *, page: int = 0) -> Raster:
    with Image.open(io.BytesIO(data), formats=formats_of(data, name)) as image:
        check_size(*image.size, name)
        form = str(image.format)
        if form not in ("TIFF", "MPO"):  # those pages are counted already; a camera's JPEG with previews
            check_frames(getattr(image, "n_frames", 1), name, "frames")
        image.seek(page)
        image.load()  # finds a truncated file, and turns a TIFF upright
        if form == "TIFF":
            exif, turn, lost = read_exif(lambda: tiff.read_exif(data), None, _DAMAGE)
        else:
            exif, turn, lost = read_exif(lambda: image.getexif() or None, image.info.get("exif"), _DAMAGE)
        icc, unread = tiff.profile(image.info.get("icc_profile"))
        lost += unread
        if png16.is_16bit(data):
            samples: NDArray[Any] = png16.decode(data, clear=image.info.get("transparency"))
            return Raster(upright(samples, turn), form, icc, exif, lost, turn=turn)
        converted, notes, icc = _plain_mode(image, name, icc)
        samples = np.asarray(converted).reshape(converted.height, converted.width, -1)
        step = step_of_tables(getattr(image, "quantization", None))
        form = form.replace("MPO", "JPEG")
        return Raster(upright(samples, turn), form, icc, exif, notes + lost, turn=turn, jpeg=step)


def check_size(width: int, height: int, name: str) -> None:
    """Refuse an image with a side below MIN_SIDE."""
    if min(width, height) < MIN_SIDE:
        raise InputError(
            f"{name} is {width}x{height}; the smallest image is {MIN_SIDE}x{MIN_SIDE}",
            hint="enlarge or pad it first",
        )


def check_frames(count: int, name: str, kind: str) -> None:
    """Refuse an animation or a stack of pages."""
    if count > 1:
        raise InputError(
            f"{name} has {count} {kind}; one picture at a time can be restored",
            hint="save the one you want as a PNG of its own",
        )


def _plain_mode(
    image: Image.Image, name: str, icc: bytes | None
) -> tuple[Image.Image, tuple[str, ...], bytes | None]:
    """Convert to grey or RGB, alpha kept; return the image, notes, and the profile that still holds."""
    if image.mode == "CMYK":
        return _from_cmyk(image, icc)
    if image.mode not in _MODES:
        raise InputError(f"{name} stores its pixels as {image.mode}", hint="export it as 8-bit or 16-bit RGB")
    mode, note = _MODES[image.mode]
    if "transparency" in image.info and mode in ("L", "RGB"):
        mode = {"L": "LA", "RGB": "RGBA"}[mode]
    converted = image if image.mode == mode else image.convert(mode)
    return converted, (note,) if note else (), icc


def _from_cmyk(image: Image.Image, icc: bytes | None) -> tuple[Image.Image, tuple[str, ...], bytes | None]:
    if icc:
        try:
            source = ImageCms.ImageCmsProfile(io.BytesIO(icc))
            converted = ImageCms.profileToProfile(
                image, source, ImageCms.createProfile("sRGB"), outputMode="RGB"
            )
            if converted is not None:
                return converted, ("converted from CMYK to sRGB by its ICC profile",), None
        except (OSError, ImageCms.PyCMSError):
            return image.convert("RGB"), ("converted from CMYK to RGB; its ICC profile is damaged",), None
    return image.convert("RGB"), ("converted from CMYK to RGB",), None
