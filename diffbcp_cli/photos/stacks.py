"""Stacks in and out of files: their pages as photographs, and results in the layout of the input."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from numpy.typing import NDArray

from ..errors import MaskError, UsageError, typed
from ..units import Bools, Floats
from . import files
from .codecs.stack import Stack, as_float, join, read_stack, split
from .masks import Polarity, load_mask, read_alone, write_mask
from .photo import MAX_PIXELS, Photo, read_bytes, write_photo

__all__ = [
    "Stack",
    "check_place",
    "encode_stack",
    "mask_of_page",
    "open_stack",
    "photo_of_page",
    "suffix_for",
]

_TIFF = (".tif", ".tiff")
_ARGUMENTS = {270: "description", 305: "software", 306: "datetime", 296: "resolutionunit"}
_ACROSS, _DOWN = 282, 283


def open_stack(path: Path, *, max_pixels: int = MAX_PIXELS) -> Stack | None:
    """The stack in a file; None if the file holds one picture."""
    if path.suffix.lower() not in (*_TIFF, ".npy"):
        return None
    return read_stack(read_bytes(path), path.name, max_pixels=max_pixels)


def suffix_for(stack: Stack) -> str:
    """The suffix of the results."""
    return ".npy" if stack.kind == "npy" else ".tiff"


def check_place(path: Path, stack: Stack) -> None:
    """Refuse a place for the mean that holds one picture only."""
    taken = (".npy",) if stack.kind == "npy" else _TIFF
    if path.suffix.lower() not in taken:
        raise UsageError(
            f"{path.name} cannot hold {len(stack.pages)} pictures in the layout of the input",
            hint=f"-o {typed(path.with_suffix(suffix_for(stack)))}, or a folder",
        )


def photo_of_page(stack: Stack, number: int, path: Path) -> Photo:
    """One page as a photograph of floats on [0, 1], with its transparency."""
    samples = stack.pages[number].samples
    values = samples.astype(np.float32) / np.float32(stack.top)
    count = values.shape[2]
    colours = 3 if count >= 3 else 1
    pixels = np.ascontiguousarray(values[..., :colours])
    alpha = values[..., -1] if count in (2, 4) else None
    return Photo(pixels, alpha, "float32", colours == 1, None, None, "TIFF", path)


def mask_of_page(
    path: Path, stack: Stack, number: int, place: Path, *, polarity: Polarity = "white-fills"
) -> Path | None:
    """The mask of one page: a file at `place` if the mask is a stack too, or else the mask itself, which is for all.

    place: without its suffix. None if the mask of the page leaves nothing to fill.
    """
    if path.suffix.lower() == ".npy":
        pages = _observed_pages(load_mask(path), stack)
        if pages is not None and pages[number].all():
            return None
        return path if pages is None else write_mask(place.with_suffix(".mask.npy"), pages[number])
    found = open_stack(path)
    if found is None:
        return path
    if len(found.pages) != len(stack.pages):
        raise MaskError(
            f"the mask {path.name} has {len(found.pages)} pictures, the stack {len(stack.pages)}",
            hint="one picture for all, or as many as the stack has",
        )
    mask = photo_of_page(found, number, place.with_suffix(".mask.tiff"))
    write_photo(mask.path, mask.pixels, mask)
    return None if read_alone(mask.path, polarity=polarity).all() else mask.path


def _observed_pages(observed: Bools, stack: Stack) -> Bools | None:
    """The masks (pages, H, W) or (pages, H, W, C) of an array; None if it is one for all."""
    first = stack.pages[0].samples
    if stack.axes and observed.shape == stack.shape:
        return split(observed, stack.axes)
    size = first.shape[:2]
    if observed.ndim == 3 and observed.shape == (len(stack.pages), *size):
        return observed
    return None


def encode_stack(path: Path, pages: Sequence[Floats], stack: Stack, *, std: bool) -> Path:
    """Write pictures (H, W, C) on [0, 1] in the layout of `stack`, each in the place of a page; return `path`.

    The mean has the samples of the input, and its transparency. std: standard deviations, which stay float32.
    """
    stored = [page if std else _samples(page, stack, i) for i, page in enumerate(pages)]
    with files.replacing(path) as temporary:
        if stack.kind == "pages":
            _write_pages(temporary, stored, stack)
        else:
            _write_array(temporary, join(stored, stack.axes, stack.shape), stack)
    return path


def _samples(page: Floats, stack: Stack, number: int) -> NDArray[Any]:
    """A picture in the samples of its page."""
    like = stack.pages[number].samples
    if like.shape[2] in (2, 4):
        alpha = like[..., -1:].astype(np.float32) / np.float32(stack.top)
        page = np.concatenate([page, alpha], axis=-1)
    if like.dtype.kind == "f":
        return page.astype(np.float32)
    return np.rint(page.clip(0, 1) * np.float32(stack.top)).astype(like.dtype)


def _write_array(path: Path, array: NDArray[Any], stack: Stack) -> None:
    if stack.kind == "npy":
        file = io.BytesIO()
        np.save(file, array, allow_pickle=False)
        path.write_bytes(file.getvalue())
        return
    photometric = (
        "rgb" if "S" in stack.axes and array.shape[stack.axes.index("S")] in (3, 4) else "minisblack"
    )
    tags = _arguments(stack.tags[0])
    if stack.kind == "imagej":
        kept = {key: value for key, value in stack.imagej.items() if key not in ("ImageJ", "images")}
        resolution = {key: tags[key] for key in ("resolution", "resolutionunit") if key in tags}
        about = {**kept, "axes": stack.axes}
        tifffile.imwrite(path, array, imagej=True, photometric=photometric, metadata=about, **resolution)
        return
    if stack.kind == "channels":
        planes = "separate" if stack.axes[0] == "C" else "contig"
        tifffile.imwrite(path, array, photometric="minisblack", planarconfig=planes, metadata=None, **tags)
        return
    _write_ome(path, array, stack, photometric)


def _write_ome(path: Path, array: NDArray[Any], stack: Stack, photometric: str) -> None:
    """Write with the OME-XML of the input, or with one of our own if that does not describe these pages."""
    xml = as_float(stack.xml) if array.dtype.kind == "f" else stack.xml
    tifffile.imwrite(path, array, photometric=photometric, description=xml.encode(), metadata=None)
    try:
        with tifffile.TiffFile(path) as tif:
            same = tif.series[0].axes == stack.axes and np.array_equal(tif.series[0].asarray(), array)
    except (ValueError, TypeError, LookupError, RuntimeError, OSError):
        same = False
    if not same:
        about = {"axes": stack.axes, **_physical(stack.xml)}
        tifffile.imwrite(path, array, photometric=photometric, ome=True, metadata=about)


def _physical(xml: str) -> dict[str, Any]:
    """The sizes of a pixel in OME-XML."""
    try:
        images = tifffile.xml2dict(xml)["OME"]["Image"]
        pixels = (images[0] if isinstance(images, list) else images)["Pixels"]
    except (KeyError, TypeError, ValueError, SyntaxError):
        return {}
    return {key: value for key, value in pixels.items() if key.startswith(("PhysicalSize", "TimeIncrement"))}


def _write_pages(path: Path, pages: Sequence[NDArray[Any]], stack: Stack) -> None:
    """Write pages one by one, each with what its page said."""
    with tifffile.TiffWriter(path) as writer:
        for page, tags in zip(pages, stack.tags, strict=True):
            count = page.shape[2]
            writer.write(
                page[..., 0] if count == 1 else page,
                photometric="rgb" if count >= 3 else "minisblack",
                planarconfig="contig" if count > 1 else None,
                extrasamples=["unassalpha"] if count in (2, 4) else None,
                metadata=None,
                contiguous=False,
                **_arguments(tags),
            )


def _arguments(tags: Mapping[int, Any]) -> dict[str, Any]:
    """Tags as tifffile's writer takes them."""
    found: dict[str, Any] = {name: tags[tag] for tag, name in _ARGUMENTS.items() if tag in tags}
    found = {key: value.encode() if isinstance(value, str) else value for key, value in found.items()}
    found.setdefault("software", False)
    if _ACROSS in tags and _DOWN in tags:
        found["resolution"] = (tags[_ACROSS], tags[_DOWN])
    extra: list[tuple[int, str, int, Any, bool]] = []
    for tag, value in tags.items():
        if tag in (*_ARGUMENTS, _ACROSS, _DOWN):
            continue
        if isinstance(value, str):
            extra.append((tag, "s", 0, value, True))
        elif isinstance(value, bytes):
            extra.append((tag, "B", len(value), value, True))
        elif isinstance(value, tuple):
            extra.append((tag, "H", len(value), value, True))
    return {**found, "extratags": extra}
