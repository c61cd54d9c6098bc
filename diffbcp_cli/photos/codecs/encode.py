"""From samples to the bytes of an image file."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from . import exif, metadata, png16, tiff
from .described import Metadata

JPEG = (".jpg", ".jpeg")
_SAVE_OPTIONS: dict[str, dict[str, Any]] = {
    ".png": {"format": "PNG"},
    ".jpg": {"format": "JPEG", "quality": 95, "subsampling": 0},
    ".jpeg": {"format": "JPEG", "quality": 95, "subsampling": 0},
    ".webp": {"format": "WEBP", "lossless": True, "exact": True},
    ".bmp": {"format": "BMP"},
}


def encode(
    samples: NDArray[Any], suffix: str, *, icc: bytes | None, exif_block: bytes | None, more: Metadata
) -> bytes:
    """Encode samples (H, W, S) in the format of the suffix, with what else the file is to say."""
    if suffix == ".npy":
        file = io.BytesIO()
        np.save(file, samples[..., 0] if samples.shape[2] == 1 else samples, allow_pickle=False)
        return file.getvalue()
    if suffix in (".tif", ".tiff"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's, about tags that it does not know
            return tiff.encode(samples, icc=icc, exif=_parsed(exif_block), tags=metadata.tags(more))
    if samples.dtype == np.uint16:
        bare = (exif_block or b"").removeprefix(exif.PREFIX)
        return metadata.embed(png16.encode(samples, icc=icc, exif=bare), suffix, more)
    options = dict(_SAVE_OPTIONS[suffix])
    if suffix == ".webp":
        options |= {"icc_profile": icc, "exif": metadata.with_dpi(exif_block, more), "xmp": more.xmp or b""}
    elif suffix != ".bmp":
        options |= {"icc_profile": icc, "exif": exif_block or b""}
    file = io.BytesIO()
    image = Image.fromarray(samples[..., 0] if samples.shape[2] == 1 else samples)
    image.save(file, **options)
    return metadata.embed(file.getvalue(), suffix, more)


def _parsed(block: bytes | None) -> Image.Exif | None:
    if not block:
        return None
    parsed = Image.Exif()
    parsed.load(block)
    return parsed
