"""Pictures and regions as arrays: checked, of one shape, and a few rows at a time in float64.

A picture is (H, W, C) or (H, W) in [0, 1], a NumPy array or a tensor. A region (`where`) is a boolean array of the
same shape, or (H, W): the entries that count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Picture: TypeAlias = NDArray[Any] | torch.Tensor

AT_ONCE = 2**21  # entries that are taken to float64 at a time; whole pictures of 36 megapixels took 9 GB


def as_array(x: Picture) -> NDArray[Any]:
    """A NumPy array or tensor as a NumPy array."""
    return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def as_picture(x: Picture) -> NDArray[Any]:
    """(H, W) or (H, W, C) -> (H, W, C), in its own precision."""
    array = as_array(x)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise InputError(f"a picture must be (H, W) or (H, W, C), not {array.shape}")
    return array


def as_pair(a: Picture, b: Picture) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two pictures (H, W, C) of the same shape."""
    left, right = as_picture(a), as_picture(b)
    if left.shape != right.shape:
        raise InputError(f"the pictures differ in size: {_size(left)} and {_size(right)}")
    return left, right


def rows_at_once(shape: tuple[int, ...]) -> int:
    """How many rows of a picture (H, W, C) are taken at a time."""
    return max(1, AT_ONCE // (shape[1] * shape[2]))


def _size(x: NDArray[Any]) -> str:
    h, w, c = x.shape
    return f"{w}x{h} with {c} channel{'s' if c > 1 else ''}"


def require_side(x: Array, side: int, metric: str) -> None:
    """Refuse a picture whose height or width is below what the metric needs."""
    h, w, _ = x.shape
    if min(h, w) < side:
        raise InputError(f"{metric} needs at least {side}x{side} pixels, the picture is {w}x{h}")


def as_region(where: Picture, shape: tuple[int, ...]) -> Mask:
    """(H, W) or (H, W, C) -> boolean of the picture's shape (H, W, C)."""
    chosen = as_array(where).astype(bool)
    if chosen.ndim == 2:
        chosen = chosen[:, :, None]
    if chosen.ndim != 3 or chosen.shape[:2] != shape[:2] or chosen.shape[2] not in (1, shape[2]):
        raise InputError(f"the region has shape {chosen.shape} but the picture has {shape}")
    return np.broadcast_to(chosen, shape)


def in_strips(where: Picture | None, *pictures: Picture) -> Iterator[tuple[Array, ...]]:
    """The entries of pictures (H, W, C) inside the region, each (n,) float64, some rows at a time."""
    whole = [as_pair(pictures[0], one)[1] for one in pictures]
    shape = whole[0].shape
    region = None if where is None else as_region(where, shape)
    if not (np.prod(shape) if region is None else region.any()):
        raise InputError("the region to score is empty")
    count = rows_at_once(shape)
    for top in range(0, shape[0], count):
        rows = slice(top, top + count)
        if region is None:
            yield tuple(one[rows].astype(np.float64).reshape(-1) for one in whole)
        elif region[rows].any():
            yield tuple(one[rows][region[rows]].astype(np.float64) for one in whole)


def draws_in_strips(
    samples: Picture, truth: Picture, where: Picture | None
) -> Iterator[tuple[NDArray[Any], Array]]:
    """Draws (S, n), in their own precision, and truth (n,) inside the region, some rows at a time."""
    exact = as_picture(truth)
    draws = as_array(samples)
    draws = draws.reshape(*draws.shape, 1) if draws.ndim == 3 and exact.shape[2] == 1 else draws
    if draws.shape[1:] != exact.shape or len(draws) == 0:
        raise InputError(f"the draws have shape {draws.shape} but the truth has {exact.shape}")
    region = None if where is None else as_region(where, exact.shape)
    count = rows_at_once(exact.shape)
    for top in range(0, len(exact), count):
        rows = slice(top, top + count)
        chosen = np.ones(exact[rows].shape, bool) if region is None else region[rows]
        if chosen.any():
            yield draws[:, rows][:, chosen], exact[rows][chosen].astype(np.float64)
