"""Masks made from masks: grown, shrunk, combined. True = observed, as everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray

from ..errors import MaskError
from .masks import Bools

How = Literal["union", "intersection", "difference"]


def grow(observed: Bools, pixels: float) -> Bools:
    """Fill what lies within `pixels` of what is to be filled, (H, W, C), each channel on its own."""
    return np.stack([_distance(channel) > pixels for channel in np.moveaxis(observed, -1, 0)], axis=-1)


def shrink(observed: Bools, pixels: float) -> Bools:
    """Keep what lies within `pixels` of what is kept, (H, W, C); the picture's border is none of it."""
    return np.stack([_distance(~channel) <= pixels for channel in np.moveaxis(observed, -1, 0)], axis=-1)


def combine(masks: Sequence[Bools], how: How) -> Bools:
    """Fill what any of the masks fills, what all fill, or what the first fills and no other does."""
    size = masks[0].shape[:2]
    for mask in masks[1:]:
        if mask.shape[:2] != size:
            raise MaskError(
                f"the masks are {size[1]}x{size[0]} and {mask.shape[1]}x{mask.shape[0]}",
                hint="masks of one photograph have one size",
            )
    channels = max(mask.shape[2] for mask in masks)
    holes = [np.broadcast_to(~mask, (*size, channels)) for mask in masks]
    if how == "difference":
        filled = holes[0] & ~np.logical_or.reduce(holes[1:])
    else:
        filled = np.logical_or.reduce(holes) if how == "union" else np.logical_and.reduce(holes)
    return np.asarray(~filled)


def _distance(kept: Bools) -> NDArray[np.float32]:
    """How far each pixel (H, W) is from the nearest that is False; 0 there, infinite without any."""
    if kept.all():
        return np.full(kept.shape, np.inf, np.float32)
    found = cv2.distanceTransform(kept.astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    return np.asarray(found, np.float32)
