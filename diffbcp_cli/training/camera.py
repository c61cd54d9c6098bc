"""Camera noise: crops as a camera would have saved them, with the noise of its sensor and the losses of its JPEG.

No two cameras are alike, so everything about one is drawn anew for each crop: how strong the noise is, how it grows
with the light, over how many pixels it spreads, how much of it is colour, whether there is a Bayer mosaic, and how
strong the JPEG is. A tenth of the crops has no noise, so that the network learns to leave a clean picture alone.
"""

from __future__ import annotations

import io
import math

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Generator, Tensor

from .. import random
from ..units import to_signed, to_unit

BORDER = 16
"""Pixels that a crop loses on the way, so that it begins anywhere on the grid of the JPEG and of the mosaic."""
Pixels = NDArray[np.float32]  # (H, W, 3) on [0, 1]

_WEAKEST, _STRONGEST = 0.004, 0.12  # noise std on [0, 1]
_CLEAN, _MOSAIC, _JPEG, _QUARTER = 0.1, 0.45, 0.75, 0.7  # shares of the crops; _QUARTER: of the JPEGs, 4:2:0
_WORST, _BEST = 50, 98  # JPEG qualities


def draw_camera(crop: Tensor, *, rng: Generator) -> tuple[Tensor, Tensor]:
    """Draw what a camera makes of a crop (3, n + BORDER, n + BORDER), without noise and with it: (3, n, n) each."""
    draw = np.random.default_rng(random.integer(2**62, rng=rng))
    grey = bool((crop[0] == crop[1]).all() and (crop[0] == crop[2]).all())
    clean = to_unit(crop)
    if draw.random() < _MOSAIC and not grey:
        clean, noisy = _mosaicked(clean, draw)
    else:
        noisy = clean + _spread_noise(clean, grey, draw)
    if draw.random() < _JPEG:
        noisy = _through_jpeg(noisy, draw)
    else:
        noisy = np.rint(255 * noisy.clip(0, 1)) / np.float32(255)
    top, left = draw.integers(0, BORDER + 1, 2)
    height, width = (length - BORDER for length in clean.shape[:2])
    window = (slice(top, top + height), slice(left, left + width))
    pair = [to_signed(picture[window].astype(np.float32)) for picture in (clean, noisy)]
    return (pair[0], pair[1].mean(0, keepdim=True).expand(3, -1, -1)) if grey else (pair[0], pair[1])


def _level(draw: np.random.Generator) -> float:
    if draw.random() < _CLEAN:
        return 0.0
    return math.exp(draw.uniform(math.log(_WEAKEST), math.log(_STRONGEST)))


def _mosaicked(clean: Pixels, draw: np.random.Generator) -> tuple[Pixels, Pixels]:
    """Through a Bayer mosaic in linear light, without noise and with read noise and noise of the light."""
    gamma = draw.uniform(1.8, 2.4)
    light: Pixels = np.power(clean, gamma, dtype=np.float32)
    level, read = _level(draw), math.exp(draw.uniform(math.log(0.003), math.log(0.3)))
    std = gamma * level * np.sqrt((1 - read) * light + read * 0.2)
    noisy = np.asarray(light + std * draw.standard_normal(light.shape), np.float32)
    top, left, edges = draw.integers(0, 2), draw.integers(0, 2), draw.random() < 0.5
    pictures = []
    for picture in (light, noisy):
        rolled = np.roll(picture, (top, left), (0, 1))
        made = _by_edges(rolled) if edges else _bilinear(rolled)
        back = np.roll(made, (-top, -left), (0, 1)).clip(0, 1)
        pictures.append(np.asarray(back ** (1 / gamma), np.float32))
    return pictures[0], pictures[1]


def _bilinear(light: Pixels) -> Pixels:
    """A mosaic RGGB of light (H, W, 3), and its missing colours by the mean of their neighbours."""
    mask = np.zeros(light.shape, np.float32)
    mask[0::2, 0::2, 0] = mask[0::2, 1::2, 1] = mask[1::2, 0::2, 1] = mask[1::2, 1::2, 2] = 1
    kernel = np.outer([1, 2, 1], [1, 2, 1]).astype(np.float32)
    sums = [cv2.filter2D(image.astype(np.float32), -1, kernel) for image in (light * mask, mask)]
    return np.asarray(sums[0] / sums[1], np.float32)


def _by_edges(light: Pixels) -> Pixels:
    """The same mosaic, and its missing colours along the edges, as OpenCV does it on 16 bits."""
    levels = np.rint(65535 * (light * 0.9 + 0.05).clip(0, 1)).astype(np.uint16)
    mosaic = np.empty(light.shape[:2], np.uint16)
    for row, column, channel in ((0, 0, 0), (0, 1, 1), (1, 0, 1), (1, 1, 2)):
        mosaic[row::2, column::2] = levels[row::2, column::2, channel]
    made = cv2.demosaicing(mosaic, cv2.COLOR_BayerRGGB2RGB_EA)
    return np.asarray((made.astype(np.float32) / 65535 - 0.05) / 0.9, np.float32)


def _spread_noise(clean: Pixels, grey: bool, draw: np.random.Generator) -> Pixels:
    """Noise that spreads over some pixels, more of it in brightness or in colour, and may grow with the light."""
    shape = (*clean.shape[:2], 1 if grey else 3)
    noise = _blurred(draw.standard_normal(shape), _width(draw))
    if not grey and draw.random() < 0.5:  # brightness and colour apart
        brightness = _blurred(draw.standard_normal((*shape[:2], 1)), _width(draw))
        colour = _blurred(draw.standard_normal(shape), _width(draw) * draw.uniform(1, 2))
        noise = draw.uniform(0.3, 1) * brightness + draw.uniform(0, 1) * (
            colour - colour.mean(2, keepdims=True)
        )
    noise = noise / noise.std() * _level(draw)
    if draw.random() < 0.5:
        noise = noise * np.sqrt(draw.uniform(0.02, 1) + 2 * clean) / 1.2
    return np.asarray(noise, np.float32)


def _width(draw: np.random.Generator) -> float:
    """Of the Gaussian that spreads the noise, in pixels: often none."""
    return 0.0 if draw.random() < 0.4 else float(draw.uniform(0.3, 1.6))


def _blurred(noise: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    if width == 0:
        return noise
    made = cv2.GaussianBlur(noise, (0, 0), width).reshape(noise.shape)
    return np.asarray(made / made.std())


def _through_jpeg(picture: Pixels, draw: np.random.Generator) -> Pixels:
    """Saved as a JPEG and read again."""
    levels = np.rint(255 * picture.clip(0, 1)).astype(np.uint8)
    file = io.BytesIO()
    quality, fewer = int(draw.integers(_WORST, _BEST + 1)), draw.random() < _QUARTER
    Image.fromarray(levels).save(file, "JPEG", quality=quality, subsampling=2 if fewer else 0)
    return np.asarray(Image.open(file)).astype(np.float32) / np.float32(255)


def camera_level(clean: Tensor, noisy: Tensor) -> Tensor:
    """The std of what a camera has done to each crop, (B, C, H, W) -> (B,)."""
    return (noisy - clean).square().mean((1, 2, 3)).sqrt()


def as_told(level: Tensor, unknown: float, *, rng: Generator) -> Tensor:
    """The levels (B,) that the network is told: half of them are unknown, the others right within a quarter or so."""
    near = level.clamp_min(1e-3) * (0.25 * random.normal(tuple(level.shape), rng=rng)).exp()
    return torch.where(random.bernoulli(tuple(level.shape), 0.5, rng=rng), unknown, near)
