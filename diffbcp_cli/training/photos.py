"""The photographs to train on, and batches of noisy, masked crops of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Generator, Tensor

from ..errors import InputError
from ..photos.photo import read_photo
from ..priors.interpolate import interpolate
from .masks import draw_mask
from .settings import TrainSettings

Pixels = NDArray[np.uint8]

SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp"})


@dataclass(frozen=True)
class Photos:
    """Photographs in memory: each (H, W, 3) uint8; some are held out to validate on."""

    train: list[Pixels]
    held_out: list[Pixels]
    skipped: dict[str, str]
    fingerprint: str


def load_photos(folder: Path, settings: TrainSettings, *, without: Path | None = None) -> Photos:
    """Read every photograph under a folder; what cannot be read or is too small is named in `skipped`.

    without: a folder inside it to leave out, such as the one that the new prior is written to.

    One in ten, at most 16, is held out: those whose names hash lowest, so that the choice stays when
    others are added or removed.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder", hint="diffbcp train PHOTOS/ -o my-prior/")
    folder, without = folder.resolve(), without and without.resolve()
    pixels: dict[str, Pixels] = {}
    skipped: dict[str, str] = {}
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    for path in sorted(path for path in found if without is None or without not in path.parents):
        name = path.relative_to(folder).as_posix()
        try:
            pixels[name] = _read(path, at_least=settings.crop)
        except InputError as error:
            skipped[name] = error.message
    if not pixels:
        reason = "; ".join(list(skipped.values())[:3])
        raise InputError(
            f"there is no photograph to train on in {folder}" + (f": {reason}" if reason else "")
        )
    held = sorted(pixels, key=lambda name: hashlib.sha256(name.encode()).digest())[
        : min(16, len(pixels) // 10)
    ]
    listing = "".join(f"{name} {photo.shape}\n" for name, photo in pixels.items())
    return Photos(
        train=[photo for name, photo in pixels.items() if name not in set(held)],
        held_out=[pixels[name] for name in held],
        skipped=skipped,
        fingerprint=hashlib.sha256(listing.encode()).hexdigest(),
    )


def _read(path: Path, *, at_least: int) -> Pixels:
    """A photograph as (H, W, 3) bytes, whatever its depth and channels; transparency is ignored."""
    pixels = read_photo(path).pixels
    height, width = pixels.shape[:2]
    if min(height, width) < at_least:
        raise InputError(f"{path.name} is {width}x{height}, smaller than a crop of {at_least}")
    colour = np.broadcast_to(pixels, (height, width, 3))
    return np.rint(255 * np.clip(np.nan_to_num(colour), 0, 1)).astype(np.uint8)


def _integer(below: int, rng: Generator) -> int:
    return int(torch.randint(below, (), generator=rng))


def draw_crop(photos: list[Pixels], settings: TrainSettings, *, rng: Generator) -> Tensor:
    """One square crop (3, crop, crop) on [-1, 1]: any photograph, place, turn and flip; some zoomed out."""
    photo = photos[_integer(len(photos), rng)]
    height, width = photo.shape[:2]
    zoom, place, grey = torch.rand(3, generator=rng).tolist()
    size = settings.crop
    if zoom < settings.zoom_share:
        size = min(round(settings.crop * (1 + place * (settings.zoom_most - 1))), height, width)
    top, left = _integer(height - size + 1, rng), _integer(width - size + 1, rng)
    window = photo[top : top + size, left : left + size]
    if size != settings.crop:
        shape = (settings.crop, settings.crop)
        window = np.asarray(Image.fromarray(window).resize(shape, Image.Resampling.BICUBIC))
    crop = torch.from_numpy(window.copy()).permute(2, 0, 1).float() / 127.5 - 1
    turn = _integer(8, rng)
    crop = torch.rot90(crop, turn % 4, (1, 2))
    if turn >= 4:
        crop = crop.flip(2)
    if grey < settings.grey_share:
        crop = crop.mean(0, keepdim=True).expand(3, -1, -1)
    return crop


@dataclass(frozen=True)
class Batch:
    """Clean crops x0 (B, 3, h, w), noisy ones x0 + sigma eps, sigma (B,), and what of them is known (B, 3, h, w).

    Where they are not known the noisy crops hold a guess from what is. masked: (B,) crops with a mask.
    """

    clean: Tensor
    noisy: Tensor
    sigma: Tensor
    known: Tensor
    masked: Tensor


def draw_batch(photos: list[Pixels], settings: TrainSettings, *, rng: Generator) -> Batch:
    """Draw crops, noise and, for a network that takes them, masks.

    A grey crop gets the same noise and mask in its three equal channels, as a grey photograph will have.
    """
    count = settings.batch_size
    clean = torch.stack([draw_crop(photos, settings, rng=rng) for _ in range(count)])
    is_grey = (clean == clean[:, :1]).flatten(1).all(1)[:, None, None, None]
    masked = torch.zeros(count, dtype=torch.bool)
    known = torch.ones_like(clean, dtype=torch.bool)
    if settings.network.takes_mask:
        masked = torch.rand(count, generator=rng) < settings.mask_share
        for index in masked.nonzero()[:, 0].tolist():
            known[index] = draw_mask(clean.shape[1:], rng=rng)
        known = torch.where(is_grey, known[:, :1], known)
    spreads = torch.randn(count, generator=rng).clamp(-3, 3)
    median = torch.where(masked, settings.mask_noise, settings.noise_median)
    sigma = median * (settings.noise_spread * spreads).exp()
    noise = torch.randn(clean.shape, generator=rng)
    noise = torch.where(is_grey, noise[:, :1], noise)
    noisy = clean + sigma[:, None, None, None] * noise
    return Batch(clean, interpolate(noisy, known), sigma, known, masked)
