"""The training data: photographs in memory, and batches of noisy crops with missing entries."""

from __future__ import annotations

import hashlib
import math
import os
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Generator, Tensor

from .. import random, units
from ..errors import InputError
from ..photos.folders import images_in
from ..photos.mask_kinds import Per, make
from ..photos.photo import SUFFIXES, read_photo
from ..priors.interpolate import interpolate
from ..priors.precondition import Blind
from ..transfer import send
from .camera import as_told, camera_level, draw_camera
from .settings import TrainSettings

Pixels = NDArray[np.uint8]

_SUFFIXES = [suffix for suffix in SUFFIXES if suffix != ".npy"]  # an array is more often a mask
HELD_OUT_SHARE, HELD_OUT_MOST = 10, 16  # one photograph in ten, at most 16
HIGHEST_LEVEL = 20.0  # noise level on [-1, 1]; with more noise, an observation says nothing about an entry


@dataclass(frozen=True)
class Photos:
    """Photographs in memory, each (H, W, 3) uint8, split into training and validation.

    skipped: by name, why a file was not used. fingerprint: a hash of names and sizes.
    """

    train: list[Pixels]
    held_out: list[Pixels]
    skipped: dict[str, str]
    fingerprint: str


def load_photos(
    folder: Path, settings: TrainSettings, *, without: Path | None = None, hold_out: int = HELD_OUT_MOST
) -> Photos:
    """Read every photograph below a folder. Files that are unreadable or too small are listed in `skipped`.

    Results of earlier runs, such as `photo.mean.png`, are left out, as in every command.
    without: a folder inside it to ignore, such as the folder of the new prior.
    One photograph in ten, at most `hold_out`, is held out for validation: those whose names have the smallest
    hashes. So the choice stays the same when other photographs come or go.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder", hint="diffbcp train PHOTOS/ -o my-prior/")
    pixels: dict[str, Pixels] = {}
    skipped: dict[str, str] = {}
    apart = [] if without is None else [without]
    for path in images_in(folder, results=False, suffixes=_SUFFIXES, apart_from=apart):
        name = path.relative_to(folder).as_posix()
        try:
            pixels[name] = _read(path, at_least=settings.cut)
        except InputError as error:
            skipped[name] = error.message
    if not pixels:
        reasons = "; ".join(list(skipped.values())[:3])
        raise InputError(
            f"there is no photograph to train on in {folder}" + (f": {reasons}" if reasons else "")
        )
    return _split(pixels, skipped, hold_out)


def _read(path: Path, *, at_least: int) -> Pixels:
    """Read a photograph of any depth and number of channels as (H, W, 3) bytes; transparency is ignored."""
    pixels = read_photo(path).pixels
    height, width = pixels.shape[:2]
    if min(height, width) < at_least:
        raise InputError(f"{path.name} is {width}x{height}, smaller than a crop of {at_least}")
    colour = np.broadcast_to(pixels, (height, width, 3))
    return np.rint(255 * np.clip(np.nan_to_num(colour), 0, 1)).astype(np.uint8)


def _split(pixels: dict[str, Pixels], skipped: dict[str, str], most: int) -> Photos:
    """Hold some photographs out, by the hash of their names."""
    ranked = sorted(pixels, key=lambda name: hashlib.sha256(os.fsencode(name)).digest())
    held = ranked[: min(most, len(pixels) // HELD_OUT_SHARE)]
    listing = "".join(f"{name} {photo.shape}\n" for name, photo in pixels.items())
    return Photos(
        train=[photo for name, photo in pixels.items() if name not in set(held)],
        held_out=[pixels[name] for name in held],
        skipped=skipped,
        fingerprint=hashlib.sha256(os.fsencode(listing)).hexdigest(),
    )


# ---- crops ----


def draw_crop(photos: list[Pixels], settings: TrainSettings, *, rng: Generator) -> Tensor:
    """Draw one square crop (3, crop, crop) on [-1, 1]: random photograph, place, zoom, rotation and flip."""
    photo = photos[random.integer(len(photos), rng=rng)]
    height, width = photo.shape[:2]
    zoom, scale, grey = random.uniform32((3,), rng=rng).tolist()
    size = settings.crop
    if zoom < settings.zoom_share:
        size = min(round(settings.crop * (1 + scale * (settings.zoom_most - 1))), height, width)
    top, left = (random.integer(length - size + 1, rng=rng) for length in (height, width))
    window = photo[top : top + size, left : left + size]
    if size != settings.crop:
        shape = (settings.crop, settings.crop)
        window = np.asarray(Image.fromarray(window).resize(shape, Image.Resampling.BICUBIC))
    crop = as_tensor(window)
    turn = random.integer(8, rng=rng)
    crop = torch.rot90(crop, turn % 4, (1, 2))
    if turn >= 4:
        crop = crop.flip(2)
    if grey < settings.grey_share:
        crop = crop.mean(0, keepdim=True).expand(3, -1, -1)
    return crop


def as_tensor(window: Pixels) -> Tensor:
    """(H, W, 3) bytes -> (3, H, W) on [-1, 1]."""
    return units.to_signed(window.astype(np.float32) / np.float32(255))


# ---- masks ----

# kind, share of the masks, smallest and largest share of missing entries
_KINDS = (
    ("uniform", 0.45, 0.3, 0.97),
    ("stripe", 0.2, 0.2, 0.7),
    ("irregular", 0.2, 0.2, 0.6),
    ("scratch", 0.05, 0.05, 0.3),
    ("text", 0.05, 0.05, 0.3),
    ("box", 0.05, 0.02, 0.15),
)


def draw_mask(shape: torch.Size, *, rng: Generator) -> Tensor:
    """Draw the known entries of a crop, bool (C, H, W)."""
    channels, height, width = shape
    draw = np.random.default_rng(random.integer(2**62, rng=rng))
    kind, _, least, most = _KINDS[draw.choice(len(_KINDS), p=[share for _, share, _, _ in _KINDS])]
    missing = draw.uniform(least, most)
    if kind == "uniform":  # log-uniform in the share that is known
        missing = 1 - math.exp(draw.uniform(math.log(1 - most), math.log(1 - least)))
    per: Per = "entry" if draw.random() < 0.4 else "pixel"
    observed = make(kind, (height, width, channels), missing=missing, per=per, rng=draw)
    return torch.from_numpy(np.array(observed)).permute(2, 0, 1)


# ---- batches ----


@dataclass(frozen=True)
class Batch:
    """Clean crops x0 (B, 3, h, w), noisy crops x0 + sigma eps, sigma (B,), and known entries (B, 3, h, w).

    Missing entries of the noisy crops hold values interpolated from known ones. masked: (B,) crops with a mask; it
    stays on the host.
    levels: only for a network that takes them, the noise level of every entry (B, 3, h, w), infinite where nothing is
    known. Then missing entries are not interpolated; they have noise of their own level.
    """

    clean: Tensor
    noisy: Tensor
    sigma: Tensor
    known: Tensor
    masked: Tensor
    levels: Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device, which nobody waits for."""
        clean, noisy, sigma, known = (
            send(part, device) for part in (self.clean, self.noisy, self.sigma, self.known)
        )
        levels = None if self.levels is None else send(self.levels, device)
        return Batch(clean, noisy, sigma, known, self.masked, levels)


def draw_batch(photos: list[Pixels], settings: TrainSettings, *, rng: Generator) -> Batch:
    """Draw crops, noise and, for a network that takes them, masks.

    A grey crop has the same noise and mask in its three channels, like a grey photograph.
    """
    if settings.network.blind:
        return _draw_camera_batch(photos, settings, rng=rng)
    count = settings.batch_size
    clean = torch.stack([draw_crop(photos, settings, rng=rng) for _ in range(count)])
    is_grey = (clean == clean[:, :1]).flatten(1).all(1)[:, None, None, None]
    masked = torch.zeros(count, dtype=torch.bool)
    known = torch.ones_like(clean, dtype=torch.bool)
    if settings.network.takes_mask or settings.network.takes_levels:
        masked = random.bernoulli((count,), settings.mask_share, rng=rng)
        for index in masked.nonzero()[:, 0].tolist():
            known[index] = draw_mask(clean.shape[1:], rng=rng)
        known = torch.where(is_grey, known[:, :1], known)
    z = random.normal((count,), rng=rng).clamp(-3, 3)
    median = torch.where(masked, settings.mask_noise, settings.noise_median)
    sigma = median * (settings.noise_spread * z).exp()
    noise = random.normal_like(clean, rng=rng)
    noise = torch.where(is_grey, noise[:, :1], noise)
    if settings.network.takes_levels:
        missing = _missing_levels(sigma, settings, rng=rng)
        levels = torch.where(known, sigma[:, None, None, None], missing[:, None, None, None])
        noisy = clean + torch.where(levels.isfinite(), levels, 0) * noise
        return Batch(clean, noisy, sigma, known, masked, levels)
    noisy = clean + sigma[:, None, None, None] * noise
    return Batch(clean, interpolate(noisy, known), sigma, known, masked)


def _draw_camera_batch(photos: list[Pixels], settings: TrainSettings, *, rng: Generator) -> Batch:
    """Draw crops as cameras save them; sigma is what the network is told of the noise."""
    wide = replace(settings, crop=settings.cut)
    count = range(settings.batch_size)
    pairs = [draw_camera(draw_crop(photos, wide, rng=rng), rng=rng) for _ in count]
    clean, noisy = (torch.stack(side) for side in zip(*pairs, strict=True))
    told = as_told(camera_level(clean, noisy), Blind.UNKNOWN, rng=rng)
    every = torch.ones_like(clean, dtype=torch.bool)
    return Batch(clean, noisy, told, every, torch.zeros(len(clean), dtype=torch.bool))


def _missing_levels(sigma: Tensor, settings: TrainSettings, *, rng: Generator) -> Tensor:
    """Draw noise levels (B,) of missing entries: infinite, or log-uniform between sigma and HIGHEST_LEVEL."""
    nothing, place = random.uniform32((2, len(sigma)), rng=rng)
    between = sigma * (HIGHEST_LEVEL / sigma).clamp_min(1) ** place
    return torch.where(nothing < settings.fill_share, torch.inf, between)
