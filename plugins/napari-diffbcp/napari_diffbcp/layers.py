"""From the data of layers to the data of new layers; nothing of napari is imported here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffbcp_cli import denoise, inpaint

Layer = tuple[NDArray[Any], dict[str, Any], str]
"""Data, properties and kind of a layer, as napari takes them."""


def restore_data(
    data: NDArray[Any],
    mask: NDArray[Any] | None = None,
    *,
    rgb: bool = False,
    limits: tuple[float, float] | None = None,
    name: str = "image",
    cancel: Callable[[], bool] | None = None,
    **options: Any,
) -> list[Layer]:
    """Restore (..., Y, X), or (..., Y, X, 3 or 4) if rgb, page by page; return the layers of mean, std and mask.

    mask: (..., Y, X) or (Y, X) for all pages; what is not zero is filled. limits: what is black and white;
    by default those of the type, or the least and the largest of floats. options: those of `diffbcp_cli.inpaint`.
    """
    colours = data[..., :3] if rgb else data
    low, high = limits or _limits(colours)
    size = colours.shape[-3:] if rgb else colours.shape[-2:]
    pages = ((colours.astype(np.float32) - low) / (high - low)).reshape(-1, *size)
    masks = None if mask is None else _masks(np.asarray(mask) != 0, len(pages), size[:2])
    found = list(_restored(pages, masks, cancel, options))
    scale = high - low
    mean = np.stack([one.mean for one in found]).reshape(colours.shape) * scale + low
    if data.dtype.kind in "ui":
        mean = np.rint(mean).clip(np.iinfo(data.dtype).min, np.iinfo(data.dtype).max)
    layers: list[Layer] = [(mean.astype(data.dtype), {"name": f"{name} restored", "rgb": rgb}, "image")]
    if all(one.std is not None for one in found):
        std = np.stack([one.std for one in found]).reshape(colours.shape) * scale
        std = std.mean(axis=-1) if rgb else std
        layers.append((std.astype(np.float32), {"name": f"{name} std", "colormap": "inferno"}, "image"))
    if masks is not None:
        filled = masks.astype(np.uint8).reshape(colours.shape[:-1] if rgb else colours.shape)
        layers.append((filled, {"name": f"{name} filled", "opacity": 0.4, "visible": False}, "labels"))
    return layers


def _restored(pages: Any, masks: Any, cancel: Any, options: dict[str, Any]) -> Iterator[Any]:
    """Each page; one whose mask is empty is denoised."""
    for number, page in enumerate(pages):
        if masks is None or not masks[number].any():
            yield denoise(page, cancel=cancel, **options)
        else:
            yield inpaint(page, mask=masks[number], cancel=cancel, **options)


def _masks(mask: NDArray[np.bool_], pages: int, size: tuple[int, ...]) -> NDArray[np.bool_]:
    if mask.shape[-2:] != tuple(size) or mask.size not in (np.prod(size), pages * np.prod(size)):
        raise ValueError(f"the mask {mask.shape} does not fit {pages} pages of {tuple(size)}")
    return np.broadcast_to(mask.reshape(-1, *size), (pages, *size))


def _limits(data: NDArray[Any]) -> tuple[float, float]:
    if data.dtype.kind in "ui":
        return 0.0, float(np.iinfo(data.dtype).max)
    low, high = float(np.nanmin(data)), float(np.nanmax(data))
    return (low, high) if high > low else (low, low + 1.0)
