"""Pictures and regions as arrays: checked, of one shape, in float64.

A picture is (H, W, C) or (H, W) in [0, 1], a NumPy array or a tensor. A region (`where`) is a boolean array of the
same shape, or (H, W): the entries that count.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError

Array: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Picture: TypeAlias = NDArray[Any] | torch.Tensor


def as_array(x: Picture) -> NDArray[Any]:
    """A NumPy array or tensor as a NumPy array."""
    return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def as_picture(x: Picture) -> Array:
    """(H, W) or (H, W, C) -> (H, W, C) float64."""
    array = as_array(x)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3:
        raise InputError(f"a picture must be (H, W) or (H, W, C), not {array.shape}")
    return array.astype(np.float64)


def as_pair(a: Picture, b: Picture) -> tuple[Array, Array]:
    """Two pictures (H, W, C) float64 of the same shape."""
    left, right = as_picture(a), as_picture(b)
    if left.shape != right.shape:
        raise InputError(f"the pictures differ in size: {_size(left)} and {_size(right)}")
    return left, right


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


def entries(x: Array, where: Picture | None) -> Array:
    """The entries of (H, W, C) inside the region, (n,); all of them without a region."""
    if where is None:
        return x.reshape(-1)
    flat: Array = x[as_region(where, x.shape)]
    if flat.size == 0:
        raise InputError("the region to score is empty")
    return flat


def error_and_std(mean: Picture, std: Picture, truth: Picture, where: Picture | None) -> tuple[Array, Array]:
    """Return truth - mean (n,) and std (n,) inside the region."""
    centre, exact = as_pair(mean, truth)
    _, deviation = as_pair(mean, std)
    return entries(exact - centre, where), entries(deviation, where)


def draws_and_truth(samples: Picture, truth: Picture, where: Picture | None) -> tuple[NDArray[Any], Array]:
    """Return draws (S, n), in their own precision, and truth (n,) inside the region."""
    exact = as_picture(truth)
    draws = as_array(samples)
    draws = draws.reshape(*draws.shape, 1) if draws.ndim == 3 and exact.shape[2] == 1 else draws
    if draws.shape[1:] != exact.shape or len(draws) == 0:
        raise InputError(f"the draws have shape {draws.shape} but the truth has {exact.shape}")
    if where is None:
        return draws.reshape(len(draws), -1), exact.reshape(-1)
    return draws[:, as_region(where, exact.shape)], entries(exact, where)
