"""What kind of noise a picture has: white, as strong as the light asks for, or spread over neighbours.

A network for noise of any kind (methods/camera.py) takes it away from some crops. Where neighbours of what it takes
away are alike, and where it is coloured, the noise is not white: a mosaic, a filter, or a JPEG has spread it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Generator, Tensor
from torch.nn import functional

from ..priors.base import BlindPrior, Prior
from ..priors.interpolate import interpolate
from ..priors.precondition import Blind
from ..units import Floats, level_to_unit, values_to_unit
from .crops import representative_crops
from .noise import LOWEST, NoiseLevel, most_likely_noise

Kind = Literal["none", "white", "poisson", "correlated"]

CLEAR = 4 * LOWEST  # a level from which on its dependence on the light can be told
_HIGH = 0.3  # on [-1, 1]: the level is looked for up to twice of it
_BLOCK = 8
_MARGIN = 3  # pixels around what is missing that do not count
_FEWEST = 1000  # entries that can tell
_BY_COLOUR, _SPREADS = 0.125, 0.66  # what `Taken.spreads` adds up; of twelve clean photographs 0.65 at most
_LEAST = 0.012  # on [-1, 1]: less noise is not told from texture
_MUCH, _ALIKE = 0.06, 0.2  # so much that neighbours are so alike is not texture
_GREY, _GRAIN, _GRAINY = (
    0.1,
    0.03,
    0.13,
)  # of grey pictures: colour at most, the level and how alike from which on
_UNEVEN = 1.5  # ratio of the noise in bright and dark places above which it follows the light
_FEWEST_BLOCKS = 20
_LEAST_READ = 0.02  # read noise, as a share of the variance of all


@dataclass(frozen=True)
class Taken:
    """What a network for any noise takes away from a picture, on [-1, 1].

    level: of all that it takes for noise, in flat places and in texture. sure: the same, where it is surer the more
    it counts. alike: the correlation of neighbours. colour: the power of colour over that of brightness.
    """

    level: float
    sure: float
    alike: float
    colour: float

    @property
    def spreads(self) -> bool:
        """Whether it has spread over neighbours and colours: white noise and texture have less of both."""
        alike = self.alike + _BY_COLOUR * self.colour > _SPREADS and self.sure > _LEAST
        grain = self.colour < _GREY and self.sure > _GRAIN and self.alike > _GRAINY
        return alike or grain or (self.sure > _MUCH and self.alike > _ALIKE)

    @property
    def usual(self) -> float:
        """The level of the noise: that of texture is too high, that of flat places too low."""
        return math.sqrt(self.level * self.sure)


@torch.no_grad()
def taken_away(prior: BlindPrior, picture: Tensor, known: Tensor) -> Taken | None:
    """What the network takes away from a picture where it is known, (C, H, W) each; None if too little is known.

    Only entries whose neighbours are all known count.
    """
    crops = representative_crops(known)
    values, there = crops.of(picture), crops.of(known)
    values = interpolate(values, there)
    here = -functional.max_pool2d(-there.float(), 2 * _MARGIN + 1, 1, _MARGIN).amax(1, keepdim=True)
    if int(here.sum()) < _FEWEST:
        return None
    away = values - prior.denoise(values, Blind.UNKNOWN)
    left = prior.spread(values, Blind.UNKNOWN).square()
    count = here.sum() * away.shape[1]
    power, rest = ((part * here).sum() / count for part in (away.square(), left))
    across, down = here[..., 1:] * here[..., :-1], here[..., 1:, :] * here[..., :-1, :]
    product = (away[..., 1:] * away[..., :-1] * across).sum() + (
        away[..., 1:, :] * away[..., :-1, :] * down
    ).sum()
    neighbours = product / ((across.sum() + down.sum()) * away.shape[1]).clamp_min(1)
    brightness = away.mean(1, keepdim=True)
    rest_of_it = (away - brightness).square().mean(1, keepdim=True)
    colour = (rest_of_it * here).sum() / (brightness.square() * here).sum().clamp_min(1e-9)
    return Taken(
        level=float((power + rest).sqrt()),
        sure=_sure_level(away, left, here),
        alike=float(neighbours / power.clamp_min(1e-12)),
        colour=float(colour),
    )


def _sure_level(away: Tensor, left: Tensor, here: Tensor) -> float:
    """sqrt(sum_b (r_b^2 + v_b) / v_b / sum_b 1 / v_b) over whole blocks b of what is taken away and what is left."""
    parts = (away.square().mean(1, keepdim=True), left.mean(1, keepdim=True), here)
    taken, rest, whole = (functional.avg_pool2d(part, _BLOCK).flatten() for part in parts)
    taken, rest = taken[whole == 1], rest[whole == 1]
    if not len(rest):
        return float((away.square() + left).mean().sqrt())
    return float((((taken + rest) / rest).sum() / (1 / rest).sum()).sqrt())


def picture_level(prior: Prior, picture: Tensor, *, rng: Generator) -> NoiseLevel | None:
    """The level of white noise under which a picture (C, H, W) is most likely, on [-1, 1]."""
    crops = _crops(picture)
    with torch.no_grad():
        return most_likely_noise(
            prior, crops, torch.ones_like(crops, dtype=torch.bool), crops, _HIGH, rng=rng
        )


def _crops(picture: Tensor) -> Tensor:
    """Representative crops (N, C, h, w) of a picture (C, H, W), some all over a large one."""
    return representative_crops(torch.ones_like(picture, dtype=torch.bool)).of(picture)


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
