"""Stacks: several pictures in one TIFF or .npy file, as pages or along further axes of one array."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import tifffile
from numpy.typing import NDArray

from ...errors import InputError
from . import tiff
from .decode import Raster, check_size, decode, guarded, load_array

MOST_BYTES = 2**32  # of all samples
_CHANNELS = 16  # a last axis shorter than this holds channels, not columns
_COLOURS = (1, 2, 3, 4)  # samples of a pixel that are one picture: grey, grey + alpha, RGB, RGB + alpha
_KINDS = (np.uint8, np.uint16, np.float16, np.float32, np.float64)
_KEPT_TAGS = (270, 271, 272, 282, 283, 285, 296, 297, 305, 306, 315, 700, 33432, 33723, 34675)
_LEFT_OUT_TAGS = (34665, 34853)  # EXIF and GPS have directories of their own


@dataclass(frozen=True)
class Stack:
    """A file of several pictures.

    kind: `pages`, each its own, perhaps of its own size; or one array in a `npy`, `ome` or `imagej` file, or the
    `channels` of one picture. axes, shape: of that array, a letter each; Y, X and S are those of a picture. pages:
    in the order of the other axes. top: the sample that is white. tags: of each page, or of the first one.
    """

    kind: Literal["pages", "npy", "ome", "imagej", "channels"]
    pages: tuple[Raster, ...]
    axes: str
    shape: tuple[int, ...]
    top: float
    notes: tuple[str, ...] = ()
    tags: tuple[Mapping[int, Any], ...] = ()
    xml: str = ""
    imagej: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outer(self) -> str:
        """The axes along which the pictures lie."""
        return "".join(axis for axis in self.axes if axis not in "YXS") or "P"

    def place(self, number: int) -> dict[str, int]:
        """Where a page is along each of these axes."""
        lengths = [n for axis, n in zip(self.axes, self.shape, strict=True) if axis not in "YXS"]
        indices = np.unravel_index(number, lengths or [len(self.pages)])
        return {axis: int(index) for axis, index in zip(self.outer, indices, strict=True)}


def read_stack(data: bytes, name: str, *, max_pixels: int) -> Stack | None:
    """The pictures of a file that holds several; None if it holds one, or is in another format."""
    if data.startswith(np.lib.format.MAGIC_PREFIX):
        with guarded(name, max_pixels):
            return _of_array(load_array(data), name)
    if not tiff.is_tiff(data):
        return None
    with guarded(name, max_pixels), tifffile.TiffFile(io.BytesIO(data)) as tif:
        found = _of_series(tif, name) if tif.is_ome or tif.is_imagej else _of_channels(tif, name)
        count = 1 if found is not None else len(tiff.pictures(tif, tiff.MOST_PAGES))
    return _of_pages(data, name, count, max_pixels) if count > 1 else found


def _of_array(stored: NDArray[Any], name: str) -> Stack | None:
    """A .npy array of 3 axes (pages, or channels last) or of 4 (pages with their colours, or pages of pages)."""
    if stored.ndim == 3 and stored.shape[2] > max(_COLOURS):
        axes = "YXC" if stored.shape[2] < _CHANNELS <= min(stored.shape[:2]) else "PYX"
    elif stored.ndim == 4:
        axes = "PYXS" if stored.shape[3] in _COLOURS else "PQYX"
    else:
        return None
    return _whole("npy", stored, axes, name)


def _of_series(tif: tifffile.TiffFile, name: str) -> Stack | None:
    series = tif.series[0]
    _check_room(series.shape, series.dtype, name)
    if len(series.shape) < 3 or math.prod(_outer(series.axes, series.shape)) == 1:
        return None
    notes = [f"left out {len(tif.series) - 1} further images of the file"] if len(tif.series) > 1 else []
    if len(series.levels) > 1:
        notes.append(f"left out {len(series.levels) - 1} smaller copies of the pictures")
    found = _whole("ome" if tif.is_ome else "imagej", series.asarray(), series.axes, name)
    return replace(
        found,
        notes=(*notes, *found.notes),
        tags=(_tags(tif.pages[0]),),
        xml=tif.ome_metadata or "",
        imagej=tif.imagej_metadata or {},
    )


def _of_channels(tif: tifffile.TiffFile, name: str) -> Stack | None:
    """One picture of more channels than colours have."""
    pages = tiff.pictures(tif, 2)
    page = pages[0]
    many = page.samplesperpixel > 2 and page.photometric in (0, 1)
    if len(pages) > 1 or not many or page.axes not in ("YXS", "SYX"):
        return None
    _check_room(page.shape, page.dtype, name)
    found = _whole("channels", page.asarray(), page.axes.replace("S", "C"), name)
    return replace(found, tags=(_tags(page),))


def _of_pages(data: bytes, name: str, count: int, max_pixels: int) -> Stack:
    pages = []
    room = 0
    for number in range(count):
        pages.append(decode(data, f"page {number + 1} of {name}", max_pixels=max_pixels, page=number))
        room += pages[-1].samples.nbytes
        if room > MOST_BYTES:
            raise _too_large(name)
    with guarded(name, max_pixels), tifffile.TiffFile(io.BytesIO(data)) as tif:
        tags = tuple(_tags(page) for page in tiff.pictures(tif, tiff.MOST_PAGES))
        left_out = any(
            tag in page.tags for page in tiff.pictures(tif, tiff.MOST_PAGES) for tag in _LEFT_OUT_TAGS
        )
    top, notes = _white([page.samples for page in pages])
    exif = ("left out the EXIF of its pages",) if left_out else ()
    return Stack("pages", tuple(pages), "", (), top, (*exif, *notes), tags)


def _whole(kind: Any, stored: NDArray[Any], axes: str, name: str) -> Stack:
    """The pictures of one array. Samples that are no colours become an axis of their own."""
    if "S" in axes and stored.shape[axes.index("S")] not in _COLOURS:
        axes = axes.replace("S", "C")
    _check_room(stored.shape, stored.dtype, name)
    pages = split(stored, axes)
    check_size(pages.shape[2], pages.shape[1], name)
    top, notes = _white([pages])
    plain = stored.dtype.newbyteorder("=") if stored.dtype.kind == "u" else np.dtype(np.float32)
    made = tuple(Raster(np.ascontiguousarray(page.astype(plain)), "TIFF") for page in pages)
    return Stack(kind, made, axes, stored.shape, top, notes)


def split(stored: NDArray[Any], axes: str) -> NDArray[Any]:
    """An array with these axes as (pages, H, W, S)."""
    last = [axes.index(axis) for axis in "YXS" if axis in axes]
    moved = stored.transpose([i for i in range(len(axes)) if i not in last] + last)
    size = [stored.shape[i] for i in last] + [1] * (3 - len(last))
    return moved.reshape(-1, *size)


def join(pages: Sequence[NDArray[Any]], axes: str, shape: Sequence[int]) -> NDArray[Any]:
    """The inverse of `split`: an array of that shape, but for the number of samples of a pixel."""
    last = [axes.index(axis) for axis in "YXS" if axis in axes]
    order = [i for i in range(len(axes)) if i not in last] + last
    stacked = np.stack(pages)
    lengths = [shape[i] for i in order]
    if "S" in axes:
        lengths[-1] = stacked.shape[-1]
    return stacked.reshape(lengths).transpose(np.argsort(order))


def _outer(axes: str, shape: Sequence[int]) -> Iterator[int]:
    """The lengths of the axes along which pictures lie."""
    for axis, length in zip(axes, shape, strict=True):
        if axis not in "YX" and not (axis == "S" and length in _COLOURS):
            yield length


def _white(arrays: Sequence[NDArray[Any]]) -> tuple[float, tuple[str, ...]]:
    """The sample that is white. Grey pictures of 16 bits often use fewer: the largest sample says how many."""
    if arrays[0].dtype.kind == "f":
        return 1.0, ()
    top = float(np.iinfo(arrays[0].dtype).max)
    if arrays[0].dtype != np.uint16 or any(one.shape[-1] >= 3 for one in arrays):
        return top, ()
    most = max(int(one[..., 0].max(initial=0)) for one in arrays)
    bits = max(8, most.bit_length())
    return float(2**bits - 1), (f"samples up to {most} are taken for {bits} bits",) if bits < 16 else ()


def _check_room(shape: Sequence[int], dtype: Any, name: str) -> None:
    kind = np.dtype(dtype)
    if kind.newbyteorder("=") not in [np.dtype(one) for one in _KINDS]:
        raise InputError(f"{name} has {kind} samples", hint="save 8-bit, 16-bit or float samples")
    if math.prod(shape) * kind.itemsize > MOST_BYTES:
        raise _too_large(name)


def _too_large(name: str) -> InputError:
    return InputError(
        f"{name} unpacks to more than {MOST_BYTES / 2**30:.0f} GB", hint="cut it into smaller stacks"
    )


def _tags(page: Any) -> dict[int, Any]:
    """What the page says of itself."""
    found = {tag: page.tags.valueof(tag) for tag in _KEPT_TAGS}
    return {tag: value for tag, value in found.items() if value not in (None, "", b"")}


def as_float(xml: str) -> str:
    """OME-XML for the same pictures in float32 samples."""
    xml = re.sub(r'(<(?:\w+:)?Pixels\b[^>]*?\bType=")\w+(")', r"\g<1>float\g<2>", xml)
    return re.sub(r'\sSignificantBits="\d+"', "", xml)
