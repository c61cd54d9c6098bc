"""16-bit PNG with its profile and EXIF.

Pillow reads 16-bit colour as 8 bit and cannot write it; OpenCV reads it well but writes neither grey with
alpha nor, in older releases, metadata. So OpenCV decodes, and the few chunks of the encoder are here.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from . import opencv
from .png import SIGNATURE, chunk, chunks

GREY, RGB, GREY_ALPHA, RGB_ALPHA = 0, 2, 4, 6
_COLOUR_TYPE = {1: GREY, 2: GREY_ALPHA, 3: RGB, 4: RGB_ALPHA}
_PIXEL_CHUNKS = {b"IHDR", b"PLTE", b"tRNS", b"IDAT", b"IEND"}
_FILTER_UP = 2


def is_16bit(data: bytes) -> bool:
    """Whether `data` is a PNG with 16 bits per sample (byte 24 of the file: the depth in IHDR)."""
    return data.startswith(SIGNATURE) and len(data) > 25 and data[24] == 16


def decode(data: bytes, *, clear: object = None) -> NDArray[np.uint16]:
    """Return the samples (H, W, S) of a 16-bit PNG; S is 1 grey, 2 grey + alpha, 3 RGB, 4 RGB + alpha.

    clear: the grey value that stands for a transparent pixel, if the file names one.
    """
    # OpenCV sees the pixel chunks alone: no complaints about profiles, no rotation by EXIF.
    bare = SIGNATURE + b"".join(chunk(*one) for one in chunks(data) if one[0] in _PIXEL_CHUNKS)
    stored = opencv.decode(bare).astype(np.uint16, copy=False)
    if data[25] == GREY_ALPHA:  # OpenCV spreads the grey over three channels
        return stored[..., [0, 3]]
    if stored.ndim == 3:
        return stored
    grey = stored[..., None]
    if not isinstance(clear, int):
        return grey
    return np.concatenate([grey, np.where(grey == clear, 0, 65535).astype(np.uint16)], axis=-1)


def encode(samples: NDArray[np.uint16], *, icc: bytes | None, exif: bytes | None) -> bytes:
    """Return a PNG of samples (H, W, S), S from 1 to 4; exif starts at its byte order."""
    height, width, count = samples.shape
    header = struct.pack(">IIBBBBB", width, height, 16, _COLOUR_TYPE[count], 0, 0, 0)
    rows = samples.astype(">u2").view(np.uint8).reshape(height, -1)
    filtered = np.empty((height, rows.shape[1] + 1), np.uint8)
    filtered[:, 0] = _FILTER_UP
    filtered[:, 1:] = rows
    filtered[1:, 1:] -= rows[:-1]
    parts = [chunk(b"IHDR", header)]
    if icc:
        parts.append(chunk(b"iCCP", b"ICC Profile\0\0" + zlib.compress(icc)))
    if exif:
        parts.append(chunk(b"eXIf", exif))
    parts += [chunk(b"IDAT", zlib.compress(filtered.tobytes(), 6)), chunk(b"IEND", b"")]
    return SIGNATURE + b"".join(parts)
