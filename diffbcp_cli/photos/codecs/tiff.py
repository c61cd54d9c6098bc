"""TIFF of 8, 16 bit and float samples: tifffile reads, Pillow writes the directory with profile and EXIF.

Pillow alone neither reads nor writes 16-bit or float colour; tifffile writes no EXIF, and leaves some
compressions to OpenCV.
"""

from __future__ import annotations

import io
import itertools
import logging
from collections.abc import Mapping
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray
from PIL import ExifTags, Image, TiffImagePlugin

from ...errors import InputError
from . import opencv

logging.getLogger("tifffile").addHandler(logging.NullHandler())  # keeps its doubts off stderr

MAX_PAGES = 64
MOST_PAGES = 10_000  # of a stack
SMALLEST_TILE = 8  # pixels; the standard says 16
_ZSTANDARD = 50000
# none, three kinds of fax, LZW, two of JPEG, deflate (two numbers), PackBits, LZMA: read without imagecodecs
_USUAL = (1, 2, 3, 4, 5, 6, 7, 8, 32946, 32773, 34925)
_MIN_IS_WHITE, _MIN_IS_BLACK, _RGB = 0, 1, 2
_REDUCED, _TRANSPARENCY_MASK = 1, 4  # bits of NewSubfileType: a page that is not a picture of its own
_PREMULTIPLIED, _STRAIGHT = 1, 2  # values of ExtraSamples
_DESCRIPTIVE = (270, 271, 272, 305, 306, 315, 33432, ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)
_SUB_DIRECTORIES = (ExifTags.IFD.Exif, ExifTags.IFD.GPSInfo)


def is_tiff(data: bytes) -> bool:
    """Whether `data` starts like a TIFF or BigTIFF."""
    return data[:4] in (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


def pictures(tif: tifffile.TiffFile, most: int = MAX_PAGES) -> list[tifffile.TiffPage]:
    """Return the pages that are pictures of their own, not thumbnails or masks of another.

    A damaged file may claim pages without end: after `most` nobody looks.
    """
    pages = [page for page in itertools.islice(tif.pages, most) if isinstance(page, tifffile.TiffPage)]
    own = [page for page in pages if not page.subfiletype & (_REDUCED | _TRANSPARENCY_MASK)]
    return own or pages[:1]


def needs_pillow(page: tifffile.TiffPage) -> bool:
    """Whether the page is 8 bit or less, or in a colour space that only Pillow knows."""
    plain = page.photometric in (_MIN_IS_WHITE, _MIN_IS_BLACK, _RGB)
    return not plain or page.dtype is None or (page.dtype.itemsize == 1 and not needs_codecs(page))


def needs_codecs(page: tifffile.TiffPage) -> bool:
    """Whether only imagecodecs unpacks it: an odd number of bits a sample, or a rare compression."""
    small = page.dtype is not None and page.dtype.itemsize == 1
    if small and page.compression in (*_USUAL, _ZSTANDARD):  # libtiff has these
        return int(page.bitspersample) not in ((1, 2, 4, 8) if page.samplesperpixel == 1 else (8,))
    return int(page.bitspersample) not in (8, 16, 32, 64) or page.compression not in _USUAL


def read_page(page: tifffile.TiffPage, data: bytes) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Return the samples (H, W, S) of a page of the file `data` that `needs_pillow` does not name, and notes.

    Samples are uint8, uint16 or float32; S is 1 grey, 2 grey + alpha, 3 RGB, 4 RGB + alpha.
    """
    try:
        stored = page.asarray()
    except ValueError as error:
        if "imagecodecs" not in str(error):
            raise
        stored = opencv.decode(data)
        if stored.dtype != page.dtype or stored.size != np.prod(page.shape):
            raise ValueError("OpenCV read it otherwise than it is stored") from error
    planes_first = page.axes == "SYX" and stored.shape == page.shape
    samples = np.moveaxis(stored, 0, -1) if planes_first else stored.reshape(*stored.shape[:2], -1)
    if samples.dtype.kind == "f":
        samples = samples.astype(np.float32)
    elif page.bitspersample < 8 * samples.itemsize:  # 9 to 15 bits, stretched to 16; less than 8 to 8
        top = 2**page.bitspersample - 1
        samples = np.rint(samples.clip(0, top) * (_top(samples) / top)).astype(samples.dtype)
    if page.photometric == _MIN_IS_WHITE:
        samples = np.asarray(_top(samples) - samples, samples.dtype)
    return _alpha_only(samples, page)


def _top(samples: NDArray[Any]) -> int:
    """The sample that is white."""
    return 1 if samples.dtype.kind == "f" else int(np.iinfo(samples.dtype).max)


def _alpha_only(samples: NDArray[Any], page: tifffile.TiffPage) -> tuple[NDArray[Any], tuple[str, ...]]:
    """Keep the colours and, of the extra samples, a straight alpha."""
    colours = 3 if page.photometric == _RGB else 1
    extra = [int(kind) for kind in page.extrasamples]
    count = samples.shape[2]
    if count == colours:
        return samples, ()
    if count == colours + 1 and (not extra or extra[0] == _STRAIGHT):
        return samples, ()
    if count == colours + 1 and extra[0] == _PREMULTIPLIED:
        return _straight(samples), ()
    return samples[..., :colours], (f"left out {count - colours} extra channel(s) that are not transparency",)


def _straight(samples: NDArray[Any]) -> NDArray[Any]:
    """Divide the colours by the alpha that they were multiplied with."""
    top = _top(samples)
    alpha = samples[..., -1:].astype(np.float64) / top
    colours = np.divide(samples[..., :-1], alpha, out=np.zeros(samples[..., :-1].shape), where=alpha > 0)
    if samples.dtype.kind != "f":
        colours = np.rint(np.clip(colours, 0, top))
    return np.concatenate([colours.astype(samples.dtype), samples[..., -1:]], axis=-1)


def profile(found: Any) -> tuple[bytes | None, tuple[str, ...]]:
    """The ICC profile, and a note if what stands in its place is none: a TIFF may give the tag any type."""
    if found is None or found == b"":
        return None, ()
    if isinstance(found, bytes):
        return found, ()
    return None, ("left out its ICC profile, which is damaged",)


def check_layout(page: tifffile.TiffPage, name: str) -> None:
    """Refuse tiles that are no tiles, and what cannot be unpacked here."""
    if page.is_tiled and min(page.tilewidth, page.tilelength) < SMALLEST_TILE:
        raise InputError(
            f"{name} is made of tiles of {page.tilewidth}x{page.tilelength}, which no program writes",
            hint="export it once more",
        )
    if needs_codecs(page) and find_spec("imagecodecs") is None:
        packing = getattr(page.compression, "name", page.compression)
        raise InputError(
            f"{name} has {page.bitspersample} bits a sample, packed by {packing}, which needs imagecodecs",
            hint="pip install imagecodecs, or export it once more",
        )


def read_exif(data: bytes) -> Image.Exif | None:
    """Return the tags of a TIFF file that describe the photograph, without those that lay out its pixels."""
    found = Image.Exif()
    found.load(data)  # a TIFF file has the structure of an EXIF block
    tags = [tag for tag in _DESCRIPTIVE if tag in found]
    kept = Image.Exif()
    for tag in tags:
        if tag in _SUB_DIRECTORIES:
            kept.get_ifd(tag).update(found.get_ifd(tag))
        else:
            kept[tag] = found[tag]
    return kept if tags else None


def encode(
    samples: NDArray[Any],
    *,
    icc: bytes | None,
    exif: Image.Exif | None,
    tags: Mapping[int, object] = MappingProxyType({}),
) -> bytes:
    """Return an uncompressed TIFF of samples (H, W, S), uint8, uint16 or float32, S from 1 to 4, with these tags."""
    height, width, count = samples.shape
    directory = TiffImagePlugin.ImageFileDirectory_v2(prefix=b"II")
    for tag, value in (exif or {}).items():
        if tag in _DESCRIPTIVE:
            directory[tag] = exif.get_ifd(tag) if exif and tag in _SUB_DIRECTORIES else value
    layout = {
        TiffImagePlugin.IMAGEWIDTH: width,
        TiffImagePlugin.IMAGELENGTH: height,
        TiffImagePlugin.BITSPERSAMPLE: (8 * samples.itemsize,) * count,
        TiffImagePlugin.COMPRESSION: 1,
        TiffImagePlugin.PHOTOMETRIC_INTERPRETATION: _RGB if count >= 3 else _MIN_IS_BLACK,
        TiffImagePlugin.STRIPOFFSETS: 0,  # counted from the end of the directory
        TiffImagePlugin.SAMPLESPERPIXEL: count,
        TiffImagePlugin.ROWSPERSTRIP: height,
        TiffImagePlugin.STRIPBYTECOUNTS: samples.nbytes,
        TiffImagePlugin.PLANAR_CONFIGURATION: 1,
        TiffImagePlugin.SAMPLEFORMAT: (3 if samples.dtype.kind == "f" else 1,) * count,
    }
    for tag, value in (*layout.items(), *tags.items()):
        if isinstance(value, bytes):
            directory.tagtype[tag] = 7  # bytes
        directory[tag] = value
    if count in (2, 4):
        directory[TiffImagePlugin.EXTRASAMPLES] = _STRAIGHT
    if icc:
        directory.tagtype[TiffImagePlugin.ICCPROFILE] = 7
        directory[TiffImagePlugin.ICCPROFILE] = icc
    file = io.BytesIO()
    directory.save(file)
    file.write(samples.astype(samples.dtype.newbyteorder("<"), copy=False).tobytes())
    return file.getvalue()
