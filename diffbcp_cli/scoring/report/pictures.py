"""Pictures for the page: shrunk to fit and embedded as WebP."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np
from PIL import Image

from ..read import Floats
from .views import View

PIXEL_BUDGET = 8_000_000
MIN_SIDE, MAX_SIDE = 256, 1024
_THUMBNAIL = 96


def side_for(pictures: int) -> int:
    """The largest side at which this many pictures fit in the page; the file stays below some 20 MB."""
    side = math.isqrt(PIXEL_BUDGET // max(1, pictures))
    return max(MIN_SIDE, min(MAX_SIDE, side))


def picture_data(view: View, methods: Sequence[str], side: int) -> dict[str, Any]:
    """One view for the script: lossless pictures, and std as grey with the value of white (`std_top`)."""
    truth = fitted(view.truth, side)
    layers = []
    for number, method in enumerate(methods):
        if method not in view.results:
            continue
        std = view.stds.get(method)
        entry: dict[str, Any] = {"method": number, "mean": data_uri(fitted(view.results[method], side))}
        if std is not None:
            grey = fitted(std.mean(axis=2, keepdims=True), side)
            top = max(float(grey.max()), 1e-6)
            entry |= {"std": data_uri(grey / top), "std_top": top}
        layers.append(entry)
    return {
        "name": view.name,
        "width": truth.shape[1],
        "height": truth.shape[0],
        "full": [view.truth.shape[1], view.truth.shape[0]],
        "thumbnail": data_uri(fitted(view.truth, _THUMBNAIL), quality=80),
        "truth": data_uri(truth),
        "before": None if view.before is None else data_uri(fitted(view.before, side)),
        "layers": layers,
    }


def fitted(picture: Floats, side: int) -> Floats:
    """Shrink (H, W, C) by area means until neither side is longer than `side`."""
    h, w, _ = picture.shape
    factor = side / max(h, w)
    if factor >= 1.0:
        return picture
    size = (max(1, round(w * factor)), max(1, round(h * factor)))
    small = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), dtype=np.float32)
    return small.reshape(size[1], size[0], -1)


def data_uri(picture: Floats, *, quality: int | None = None) -> str:
    """(H, W, 1 or 3) in [0, 1] as a data URI; lossless unless a quality is given."""
    levels = np.rint(255.0 * np.clip(picture, 0.0, 1.0)).astype(np.uint8)
    image = Image.fromarray(levels[:, :, 0] if levels.shape[2] == 1 else levels).convert("RGB")
    file = io.BytesIO()
    if quality is None:
        image.save(file, format="WEBP", lossless=True, quality=60, method=3)
    else:
        image.save(file, format="WEBP", quality=quality)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()
