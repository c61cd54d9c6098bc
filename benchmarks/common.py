"""What the benchmarks share: photographs, simulated damage, classical methods, tables."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from diffbcp_cli.photos.mask_kinds import recipe
from diffbcp_cli.photos.photo import read_photo

Pixels = NDArray[Any]


def photographs(folder: Path, names: Sequence[str] = ()) -> dict[str, Pixels]:
    """Read the photographs of a folder, (H, W, 3) in [0, 1], by stem."""
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in (".png", ".jpg"))
    return {p.stem: read_photo(p).pixels for p in paths if not names or p.stem in names}


def damage(truth: Pixels, mask: str, noise: float, seed: int, name: str) -> tuple[Pixels, NDArray[np.bool_]]:
    """Simulate a recipe's damage: noisy pixels, clipped and rounded to 8 bits, and what is observed."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    observed = recipe(mask, truth.shape, rng=rng)
    noisy = truth + noise * rng.standard_normal(truth.shape)
    return (np.rint(noisy.clip(0, 1) * 255) / 255).astype(np.float32), observed


def opencv_inpaint(flag: int) -> Callable[[Pixels, NDArray[np.bool_]], Pixels]:
    """OpenCV's inpainting, each channel on its own, since masks may differ by channel."""

    def fill(pixels: Pixels, observed: NDArray[np.bool_]) -> Pixels:
        eight = np.rint(pixels * 255).astype(np.uint8)
        channels = [
            cv2.inpaint(eight[..., c], (~observed[..., c]).astype(np.uint8), 3, flag)
            for c in range(eight.shape[2])
        ]
        return np.stack(channels, -1).astype(np.float32) / 255

    return fill


def biharmonic(pixels: Pixels, observed: NDArray[np.bool_]) -> Pixels:
    """scikit-image's biharmonic interpolation, each channel on its own."""
    from skimage.restoration import inpaint_biharmonic

    channels = [
        inpaint_biharmonic(np.where(observed[..., c], pixels[..., c], 0), ~observed[..., c])
        for c in range(pixels.shape[2])
    ]
    return np.stack(channels, -1).clip(0, 1).astype(np.float32)


CLASSICAL = {
    "telea": opencv_inpaint(cv2.INPAINT_TELEA),
    "navier-stokes": opencv_inpaint(cv2.INPAINT_NS),
    "biharmonic": biharmonic,
}


def table(rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first row is the head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def write(path: Path, pixels: Pixels) -> None:
    """Save a picture, (H, W, 3) in [0, 1]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(path), np.rint(pixels[..., ::-1] * 255).astype(np.uint8))


def save(path: Path | None, value: Any) -> None:
    """Write a benchmark's numbers as JSON, if asked to."""
    if path is not None:
        path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
