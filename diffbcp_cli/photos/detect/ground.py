"""What the detectors look at: a picture's residual against its local median, and how rough it is around there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

SIDE = 512  # pixels of a picture of which lengths are counted as they are
FLOOR = 0.5 / 255  # of any scale: the rounding of a file


@dataclass(frozen=True)
class Ground:
    """A picture (H, W, 3) in [0, 1], what surrounds each pixel, and its noise."""

    pixels: Floats

    @cached_property
    def unit(self) -> float:
        """How many pixels a length of one pixel at 512 x 512 has here; at least 1."""
        height, width = self.pixels.shape[:2]
        return max(1.0, float(np.sqrt(height * width)) / SIDE)

    @cached_property
    def light(self) -> Floats:
        """The mean of the channels (H, W)."""
        return np.asarray(self.pixels.mean(axis=-1), np.float32)

    @cached_property
    def noise(self) -> float:
        """Robust standard deviation of the noise: median |Laplacian-like difference| of the light / 0.6745.

        The mask [1 -2 1; -2 4 -2; 1 -2 1] / 6 leaves white noise of std 1 with std 1 and removes planes and edges
        along rows and columns (Immerkaer 1996).
        """
        mask = np.asarray([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], np.float32) / 6
        rough = np.abs(cv2.filter2D(self.light, -1, mask))
        return max(float(np.median(rough)) / 0.6745, FLOOR)

    def residual(self, side: int) -> Floats:
        """The picture minus the median of its side x side neighbours, (H, W, 3)."""
        levels = np.rint(self.pixels.clip(0, 1) * 255).astype(np.uint8)
        calm = cv2.medianBlur(levels, odd(side)).astype(np.float32) / 255
        return np.asarray(self.pixels - calm, np.float32)

    def texture(self, residual: Floats, side: int) -> Floats:
        """How large the residual (H, W) commonly is around each pixel: a mean of |r|, each cut at 3 medians."""
        size = np.abs(residual)
        cut = max(3 * float(np.median(size)), 6 * self.noise)
        rough = cv2.blur(np.minimum(size, cut), (odd(side), odd(side)), borderType=cv2.BORDER_REFLECT)
        return np.asarray(np.maximum(rough, 0.8 * self.noise), np.float32)


def odd(length: float) -> int:
    """The nearest odd number of pixels, at least 3."""
    return max(3, 2 * round((length - 1) / 2) + 1)
