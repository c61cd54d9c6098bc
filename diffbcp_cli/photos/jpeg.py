"""How strongly a picture was compressed as a JPEG: from the tables in its file, or from its pixels.

A JPEG rounds the DCT coefficients of 8 x 8 blocks to multiples of a step of their own. In a picture that was saved as
something else later, the coefficients are still there: in blocks of the right grid many of the fine ones are zero,
and the others are multiples of their steps. All numbers are in levels of 255, of the brightness.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ..units import Floats

_BLOCK = 8
_MOST = 384  # pixels a side that are looked at, in the middle
_FEWEST = 24  # blocks
_BRIGHTNESS = np.array([0.299, 0.587, 0.114], np.float32)
_FREQUENCY = np.add.outer(np.arange(_BLOCK), np.arange(_BLOCK))
_COARSE = (_FREQUENCY >= 1) & (_FREQUENCY <= 4)  # the coefficients whose mean step is the strength
_FINE = _FREQUENCY >= 5
_ZERO = 0.6  # three times the std of what rounding to 8 bits leaves of a zero
_STANDS_OUT = 0.02  # share of zeros that the right grid has more than any other
_MOST_STEP = 80
_MULTIPLES = 0.7  # mean cosine from which on coefficients are multiples of a step
_ENOUGH = 30  # coefficients that are not zero


def step_of_tables(tables: Mapping[int, Sequence[int]] | None) -> float | None:
    """The mean step of the coarse coefficients, from the quantisation tables of a file; None if it has none."""
    if not tables or len(tables[0]) != _BLOCK**2:
        return None
    return float(np.asarray(tables[0], np.float64).reshape(_BLOCK, _BLOCK)[_COARSE].mean())


def step_of_pixels(pixels: Floats) -> float | None:
    """The mean step of the coarse coefficients, from pixels (H, W, C) on [0, 1]; None if there is no grid."""
    brightness = 255 * (pixels @ _BRIGHTNESS if pixels.shape[2] == 3 else pixels[..., 0])
    top, left = (max(0, (length - _MOST) // 2) for length in brightness.shape)
    brightness = brightness[top : top + _MOST, left : left + _MOST]
    shares = np.array([[_zeros(brightness, y, x) for x in range(_BLOCK)] for y in range(_BLOCK)])
    best = np.unravel_index(int(shares.argmax()), shares.shape)
    if shares.max() - np.delete(shares, shares.argmax()).max() < _STANDS_OUT:
        return None
    found = _coefficients(brightness, int(best[0]), int(best[1]))
    steps = [_step(found[:, y, x]) for y, x in np.argwhere(_COARSE)]
    return float(np.mean([step for step in steps if step is not None] or [1.0]))


def _coefficients(image: Floats, top: int, left: int) -> Floats:
    """DCT of the blocks (n, 8, 8) of an image (H, W) on the grid that begins at (top, left)."""
    down, across = ((length - at) // _BLOCK for length, at in zip(image.shape, (top, left), strict=True))
    cut = image[top : top + down * _BLOCK, left : left + across * _BLOCK]
    blocks = cut.reshape(down, _BLOCK, across, _BLOCK).transpose(0, 2, 1, 3).reshape(-1, _BLOCK, _BLOCK)
    basis = _dct()
    return np.asarray(basis @ blocks @ basis.T, np.float32)


def _zeros(image: Floats, top: int, left: int) -> float:
    """The share of zeros among the fine coefficients of the blocks that are not flat; 0 if there are too few."""
    fine = np.abs(_coefficients(image, top, left)[:, _FINE])
    busy = fine[fine.max(1) > 2 * _ZERO]
    return float((busy < _ZERO).mean()) if len(busy) >= _FEWEST else 0.0


def _step(values: Floats) -> float | None:
    """The largest step of which these coefficients (n,) are multiples; 1 if it is too small to be seen.

    None where nearly all of them are zero: it may be any.
    """
    if int((np.abs(values) > 1).sum()) < _ENOUGH:
        return None
    for step in range(_MOST_STEP, 1, -1):
        not_zero = values[np.abs(values) > step / 2]
        if len(not_zero) >= _ENOUGH and np.cos(2 * np.pi * not_zero / step).mean() > _MULTIPLES:
            return float(step)
    return 1.0


def _dct() -> NDArray[np.float32]:
    """The orthonormal DCT of a block, (frequencies, pixels)."""
    at = np.arange(_BLOCK)
    basis = np.cos(math.pi * (at + 0.5) * at[:, None] / _BLOCK) * math.sqrt(2 / _BLOCK)
    basis[0] /= math.sqrt(2)
    return np.asarray(basis, np.float32)
