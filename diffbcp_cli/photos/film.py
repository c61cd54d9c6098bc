"""The film of a run: its first chain from noise to picture."""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ..errors import UsageError

Frames = NDArray[np.uint8]

_SECONDS = 6.0  # of the film
_LAST_SECONDS = 1.5  # for which the result is shown
_RATES = (5.0, 25.0)  # frames a second, at least and at most


def check_film(save: Collection[str]) -> None:
    """Refuse a film that cannot be written here, before the run begins. save: the results that are asked for."""
    if "film-mp4" in save and find_spec("imageio_ffmpeg") is None:
        raise UsageError(
            "a film in MP4 needs imageio-ffmpeg, which is not installed",
            hint="pip install imageio-ffmpeg, or --save film for an animated WebP",
        )


def film(frames: Frames, result: NDArray[np.float32], suffix: str) -> bytes:
    """Encode frames (n, h, w, C), levels 0..255, and after them the result (H, W, C) on [0, 1].

    suffix: .webp for an animated WebP, or .mp4.
    """
    height, width = frames.shape[1:3]
    last = cv2.resize(result.clip(0, 1), (width, height), interpolation=cv2.INTER_AREA)
    levels = np.rint(last * 255).astype(np.uint8).reshape(1, height, width, -1)
    rate = float(np.clip(len(frames) / _SECONDS, *_RATES))
    shown = np.concatenate([frames, levels.repeat(max(1, round(_LAST_SECONDS * rate)), axis=0)])
    return _encode(np.broadcast_to(shown, (*shown.shape[:3], 3)), suffix, rate)


def _encode(frames: Frames, suffix: str, rate: float) -> bytes:
    import imageio.v3 as imageio

    if suffix == ".mp4":
        even = frames[
            :, : frames.shape[1] // 2 * 2, : frames.shape[2] // 2 * 2
        ]  # the codec takes no other sides
        options: dict[str, Any] = {"plugin": "FFMPEG", "fps": rate, "macro_block_size": 2}
    else:
        even = frames
        options = {"plugin": "pillow", "duration": 1000 / rate, "loop": 0, "quality": 80}
    encoded: bytes = imageio.imwrite("<bytes>", np.ascontiguousarray(even), extension=suffix, **options)
    return encoded
