"""OpenCV's decoder, without its log."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray


def decode(data: bytes) -> NDArray[Any]:
    """Return the samples of an encoded image as stored: (H, W), or (H, W, S) in the order R, G, B, A.

    EXIF orientation is not applied. Raises ValueError when OpenCV gives up.
    """
    before = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)
    try:
        stored = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    except cv2.error as error:
        raise ValueError("OpenCV could not decode the image") from error
    finally:
        cv2.utils.logging.setLogLevel(before)
    if stored is None:
        raise ValueError("OpenCV could not decode the image")
    if stored.ndim == 2:
        return np.asarray(stored)
    return np.asarray(stored[..., [2, 1, 0, 3][: stored.shape[2]]])
