"""What kind of noise a picture has: white, as strong as the light asks for, or correlated between neighbours.

The level that the prior finds assumes white noise. Correlated noise (demosaicing, JPEG) lacks fine frequencies, so
this level falls to the end of its search interval. In copies of a quarter and an eighth of the size it is found
again. There clean pictures have a level too, of their texture; the differences of neighbours in the next smaller copy
say how much. Averaging makes no noise stronger, so the level of a copy bounds that of the picture from below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional

from ..priors.base import Prior
from ..units import Floats, level_to_unit, values_to_unit
from .crops import representative_crops
from .noise import LOWEST, NoiseLevel, most_likely_noise

Kind = Literal["white", "poisson", "correlated"]

MOST_HALVINGS = 3
SMALLEST = 24  # pixels a side of the smallest copy
CLEAR = 4 * LOWEST  # a level from which on its dependence on the light can be told
_AT_LIMIT = 1.5 * LOWEST  # a copy of a lower level is left as it is
_HIGH = 0.3  # on [-1, 1]: the level is looked for up to twice of it
_COPIES = (4, 8)  # how much smaller the copies are that tell
_CLEAN = (0.0044, 0.0056)  # levels that those of clean photographs have without texture, and
_BY_TEXTURE = (0.2, 0.22)  # for each unit of texture so much more
_NOT_WHITE = (0.6, 0.4)  # of the picture's level: white noise has 0.25 and 0.125
_COARSE_TEXTURE = 0.025  # a level of the smallest copy above which it is texture
_STEADY = 1.3  # a level at least so many times that of the next smaller copy: between 1 and 2 of white noise
_MEDIAN = 0.6745  # of the absolute value of a standard normal
_ROTATIONS = 2
_BLOCK = 8
_UNEVEN = 1.5  # ratio of the noise in bright and dark places above which it follows the light
_FEWEST_BLOCKS = 20
_LEAST_READ = 0.02  # read noise, as a share of the variance of all


@dataclass(frozen=True)
class Coarse:
    """A picture (C, H, W) whose coarse noise has been removed, and the level of what is left on [-1, 1].

    found: the level of the largest copy.
    """

    picture: Tensor
    level: float
    found: float


@torch.no_grad()
def is_correlated(prior: Prior, picture: Tensor, white: float, *, rng: Generator) -> bool:
    """Whether smaller copies of a picture (C, H, W) have more noise than white noise of that level would leave."""
    sizes = [size for size in _COPIES if min(picture.shape[-2:]) // size >= SMALLEST]
    copies = [_crops(functional.avg_pool2d(picture, size)) for size in sizes]
    levels = [_level(prior, crops, rng) for crops in copies]
    if len(sizes) == len(_COPIES) and levels[-1] > _COARSE_TEXTURE:
        return False
    rules = zip(levels, copies, _CLEAN, _BY_TEXTURE, _NOT_WHITE, strict=False)
    return any(
        level > max(clean + slope * _texture(functional.avg_pool2d(crops, 2)), share * white)
        for level, crops, clean, slope, share in rules
    )


def _texture(image: Tensor) -> float:
    """How much neighbours (N, C, H, W) differ, robustly: as the std of white noise that would differ as much."""
    across = image[..., 1:] - image[..., :-1]
    return float((across[..., 1:, :] - across[..., :-1, :]).abs().median()) / (2 * _MEDIAN)


@torch.no_grad()
def without_coarse_noise(prior: Prior, picture: Tensor, *, rng: Generator) -> Coarse:
    """Denoise smaller copies of a picture (C, H, W), the smallest first, and take what this changes out of it.

    The noise that is left has the finer frequencies; the method that follows removes it. Where the smallest copy
    shows texture, it is left alone, and the levels are those that are found.
    """
    height, width = picture.shape[-2:]
    count = MOST_HALVINGS
    while count > 1 and min(height, width) >> count < SMALLEST:
        count -= 1
    step = 2**count
    padded = functional.pad(picture[None], (0, -width % step, 0, -height % step), mode="replicate")
    copies = [padded]
    for _ in range(count):
        copies.append(functional.avg_pool2d(copies[-1], 2))
    steady = _STEADY
    if _level(prior, _crops(copies[-1][0]), rng) > _COARSE_TEXTURE:
        copies, steady = copies[:-1], 1.0
    change, level = torch.zeros_like(copies[-1]), 0.0
    for copy in copies[:0:-1]:
        level = max(_level(prior, _crops((copy + change)[0]), rng), steady * level)
        change = _larger(_denoised(prior, copy + change, level) - copy)
    left = (padded + change)[0, :, :height, :width]
    return Coarse(left, max(_level(prior, _crops(left), rng), steady * level), level)


def _larger(image: Tensor) -> Tensor:
    return functional.interpolate(image, scale_factor=2, mode="bicubic", align_corners=False)


def _denoised(prior: Prior, image: Tensor, level: float) -> Tensor:
    """D(image, level), the mean of two turns; image (1, C, H, W)."""
    if level <= _AT_LIMIT:
        return image
    turns = range(min(_ROTATIONS, prior.traits.rotations))
    found = [
        torch.rot90(prior.denoise(torch.rot90(image, turn, (-2, -1)), level), -turn, (-2, -1))
        for turn in turns
    ]
    return torch.stack(found).mean(0)


def _crops(picture: Tensor) -> Tensor:
    """Representative crops (N, C, h, w) of a picture (C, H, W), some all over a large one."""
    return representative_crops(torch.ones_like(picture, dtype=torch.bool)).of(picture)


def _level(prior: Prior, crops: Tensor, rng: Generator) -> float:
    found = _white_level(prior, crops, rng)
    return LOWEST if found is None else found.std


def picture_level(prior: Prior, picture: Tensor, *, rng: Generator) -> NoiseLevel | None:
    """The level of white noise under which a picture (C, H, W) is most likely, on [-1, 1]."""
    return _white_level(prior, _crops(picture), rng)


@torch.no_grad()
def _white_level(prior: Prior, crops: Tensor, rng: Generator) -> NoiseLevel | None:
    return most_likely_noise(prior, crops, torch.ones_like(crops, dtype=torch.bool), crops, _HIGH, rng=rng)


@dataclass(frozen=True)
class Light:
    """Noise of variance gain x + read at brightness x on [0, 1], and the curve on which it is the same everywhere.

    The curve is t(x) = int_0^x dv / std(v), scaled to t(1) = 1.
    """

    gain: float
    read: float

    def _at(self) -> tuple[Floats, Floats]:
        x = np.linspace(0, 1, 1025, dtype=np.float64)
        slope = 1 / np.sqrt(self.gain * x + self.read)
        t = np.concatenate([[0], np.cumsum((slope[1:] + slope[:-1]) / 2)])
        return x.astype(np.float32), (t / t[-1]).astype(np.float32)

    def even(self, pixels: Floats) -> Floats:
        """Pixels on the curve; beyond black and white it goes on as a line."""
        x, t = self._at()
        return _mapped(pixels, x, t)

    def back(self, even: Floats) -> Floats:
        """The inverse of `even`."""
        x, t = self._at()
        return _mapped(even, t, x)

    def slope_back(self, even: Floats) -> Floats:
        """The derivative of `back`, by which a standard deviation is scaled."""
        step = np.float32(1e-3)
        return np.asarray((self.back(even + step) - self.back(even - step)) / (2 * step), np.float32)


def _mapped(values: Floats, start: Floats, end: Floats) -> Floats:
    inside = np.interp(values, start, end)
    below, above = ((end[i + 1] - end[i]) / (start[i + 1] - start[i]) for i in (0, len(start) - 2))
    return np.asarray(
        inside + below * np.minimum(values - start[0], 0) + above * np.maximum(values - start[-1], 0),
        np.float32,
    )


@torch.no_grad()
def light_of(prior: Prior, picture: Tensor, level: float, *, always: bool = False) -> Light | None:
    """How the noise of a picture (C, H, W) follows the light; None if it does not (unless always) or none can tell.

    Blocks of what the prior takes away are grouped by brightness. The median of each group is the noise: blocks with
    texture have more.
    """
    crops = _crops(picture)
    clean = prior.denoise(crops, level)
    power = functional.avg_pool2d((values_to_unit(crops) - values_to_unit(clean)).square(), _BLOCK).flatten()
    bright = functional.avg_pool2d(values_to_unit(clean), _BLOCK).flatten()
    inside = (bright > 0.04) & (bright < 0.96)
    power, bright = power[inside], bright[inside]
    if len(bright) < 3 * _FEWEST_BLOCKS:
        return None
    order = bright.argsort().tensor_split(min(8, len(bright) // _FEWEST_BLOCKS))
    levels = np.array([[float(bright[group].median()), float(power[group].median())] for group in order])
    gain, read = np.polyfit(levels[:, 0], levels[:, 1], 1, w=1 / levels[:, 1].clip(1e-8))
    gain, read = max(float(gain), 0.0), max(float(read), _LEAST_READ * level_to_unit(level) ** 2)
    ratio = (gain * levels[-1, 0] + read) / (gain * levels[0, 0] + read)
    told = levels[-1, 0] - levels[0, 0] > 0.2 and ratio > _UNEVEN
    return Light(gain, read) if told or always else None
