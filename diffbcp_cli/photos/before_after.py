"""One self-contained page without a truth: before and after under a slider, the uncertainty, and what was changed."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from ..units import Bools, Floats
from . import pictures

MOST_PIXELS = 2_000_000  # of a picture on the page; larger ones are averaged
_SMALL = 512  # pixels of the longer side up to which single pixels are shown as squares
_STEP = 0.75 / 255  # a smaller change is that of rounding
_FILLED, _CHANGED = (1.0, 0.18, 0.42), (0.16, 0.45, 1.0)


@dataclass(frozen=True)
class Item:
    """One photograph: all (H, W, C) on [0, 1]. std, observed: None if not known."""

    name: str
    before: Floats
    after: Floats
    std: Floats | None = None
    observed: Bools | None = None


def page(items: Iterable[Item]) -> str:
    """The page of some photographs."""
    templates = Environment(
        loader=PackageLoader("diffbcp_cli.photos", "."), autoescape=True, undefined=StrictUndefined
    )
    return templates.get_template("before_after.html").render(items=[_shown(item) for item in items])


def _shown(item: Item) -> dict[str, Any]:
    """What the template shows of one photograph."""
    height, width = item.after.shape[:2]
    filled, changed = _changes(item)
    tint = np.zeros((height, width, 4), np.float32)
    for where, colour in ((changed, _CHANGED), (filled, _FILLED)):
        tint[where] = (*colour, 1)
    before = np.where(filled[..., None] & ~np.isfinite(item.before), np.float32(0.5), item.before)
    found = {
        "name": item.name,
        "width": width,
        "height": height,
        "small": max(height, width) <= _SMALL,
        "before": _uri(_rgb(before)),
        "after": _uri(_rgb(item.after)),
        "changed": _uri(tint),
        "uncertainty": None,
        "top": "",
        "facts": f"{width} x {height}: {filled.mean():.2%} filled, {changed.mean():.2%} changed, "
        f"{1 - (filled | changed).mean():.2%} kept as it was",
    }
    if item.std is not None:
        std = pictures.per_pixel(item.std)
        top = pictures.scale_top(std)
        heat = pictures.coloured(std, 0.0, top)[..., :3].astype(np.float32) / 255
        opacity = (std / top).clip(0, 1)[..., None] > 0.02
        found |= {
            "uncertainty": _uri(np.concatenate([heat, opacity.astype(np.float32)], -1)),
            "top": f"{top:.2g}",
        }
    return found


def _changes(item: Item) -> tuple[Bools, Bools]:
    """Which pixels (H, W) were filled, and which others were changed by more than rounding."""
    filled = np.zeros(item.after.shape[:2], bool) if item.observed is None else ~item.observed.all(axis=-1)
    changed = ~(np.abs(item.after - item.before) <= _STEP).all(axis=-1)  # NaN has changed
    return np.asarray(filled), np.asarray(changed & ~filled)


def _rgb(picture: Floats) -> Floats:
    return np.broadcast_to(np.nan_to_num(picture), (*picture.shape[:2], 3)).clip(0, 1).astype(np.float32)


def _uri(picture: Floats) -> str:
    """A picture (H, W, 3 or 4) as a PNG, no larger than a page can show."""
    height, width = picture.shape[:2]
    factor = math.sqrt(MOST_PIXELS / (height * width))
    if factor < 1:
        size = (max(1, round(width * factor)), max(1, round(height * factor)))
        picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA))
    levels = np.rint(picture * 255).astype(np.uint8)
    order = cv2.COLOR_RGB2BGR if levels.shape[2] == 3 else cv2.COLOR_RGBA2BGRA
    _, data = cv2.imencode(".png", cv2.cvtColor(levels, order))
    return "data:image/png;base64," + base64.b64encode(data.tobytes()).decode()
