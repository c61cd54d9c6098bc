"""Before and after `denoise`: the picture is made one with white noise, and the result is made one of it again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..devices import pick_device
from ..estimators.noise import LOWEST, NoiseLevel
from ..estimators.noise_model import (
    CLEAR,
    Kind,
    Light,
    is_correlated,
    light_of,
    picture_level,
    without_coarse_noise,
)
from ..options import Options
from ..priors.base import Prior
from ..problem import Restoration
from ..random import Seeds
from ..units import Floats, level_to_signed, level_to_unit, to_signed, to_unit
from ..watch import Watch

_NEAR_LIMIT = 2 * LOWEST  # on [-1, 1]: a level below is the end of the search interval rather than a finding
_ROUGHLY = 2.0  # the level of correlated noise is known to such a factor
_LEFT = 1.25  # and it is as much above what is removed, in the cases of benchmarks/real.py


@dataclass(frozen=True)
class Whitened:
    """A picture whose noise is white, how to denoise it, and how to make the result one of the picture again."""

    pixels: Floats
    options: Options
    back: Callable[[Restoration], Restoration]


def whiten(pixels: Floats, options: Options, prior: Prior | None, name: str, watch: Watch) -> Whitened:
    """Choose the noise model of pixels (H, W, C), all known, and make their noise white."""
    asked = options.noise_model
    if prior is None or (options.sigma is not None and asked == "auto"):
        return _scaled(pixels, options)
    device = pick_device(options.device)
    picture = to_signed(pixels, device)
    rng = Seeds(options.seed, name).generator("noise model", device)
    white = picture_level(prior, picture, rng=rng)
    if white is None:
        return _scaled(pixels, options)
    light = None
    if asked == "correlated" or (asked == "auto" and is_correlated(prior, picture, white.std, rng=rng)):
        coarse = without_coarse_noise(prior, picture, rng=rng)
        level = level_to_unit(coarse.level)
        watch.note(f"the noise is correlated: it is removed from smaller copies first, then at {level:.3f}")
        back = _Back(options, "correlated", pixels, white, coarse=level_to_unit(coarse.found))
        return Whitened(to_unit(coarse.picture), _with_level(options, level), back)
    if asked == "poisson" or (asked == "auto" and white.std > CLEAR):
        light = light_of(prior, picture, white.std, always=asked == "poisson")
    if light is not None:
        watch.note("the noise grows with the light: it is made even before it is removed")
        even = light.even(pixels)
        found = picture_level(prior, to_signed(even, device), rng=rng) if options.sigma is None else None
        stated = options.sigma if found is None else level_to_unit(found.std)
        return Whitened(even, _with_level(options, stated), _Back(options, "poisson", pixels, white, light))
    chosen = options if options.strength == 1 else _with_level(options, level_to_unit(white.std))
    return Whitened(pixels, chosen, _Back(options, "white", pixels, white))


def _scaled(pixels: Floats, options: Options) -> Whitened:
    """White noise of the level that is given, or that the method finds."""
    return Whitened(pixels, _with_level(options, options.sigma), lambda found: found)


def _with_level(options: Options, level: float | None) -> Options:
    """The noise level, unless it is given, times the strength that is asked for."""
    level = level if options.sigma is None else options.sigma
    return options if level is None else replace(options, sigma=min(1.0, level * options.strength))


@dataclass(frozen=True)
class _Back:
    """From the restoration of the whitened picture to that of the picture.

    white: the level of white noise by the prior. coarse: the level of the largest of the smaller copies.
    """

    given: Options
    kind: Kind
    pixels: Floats
    white: NoiseLevel
    light: Light | None = None
    coarse: float = 0.0

    def __call__(self, found: Restoration) -> Restoration:
        """The mean and std of the picture, and its noise."""
        options = replace(found.options, sigma=self.given.sigma)
        numbers = {**found.numbers, "noise_model": self.kind}
        found = replace(found, options=options, numbers=numbers)
        if self.light is not None:
            std = None if found.std is None else found.std * self.light.slope_back(found.mean)
            found = replace(found, mean=self.light.back(found.mean), std=std)
        if self.given.sigma is not None or (self.kind == "white" and self.given.strength == 1):
            return _said_at_limit(found)
        return replace(found, noise=self._noise(found), numbers={**numbers, "noise_source": "prior"})

    def _noise(self, found: Restoration) -> dict[str, float]:
        """The level by the prior, or what was removed where that finds nothing."""
        if self.kind != "correlated":
            return self.white.in_units()
        removed = float(np.sqrt(np.square(self.pixels - found.mean).mean()))
        std = max(_LEFT * removed / self.given.strength, self.coarse)
        return {"std": std, "lower": max(self.coarse, std / _ROUGHLY), "upper": std * _ROUGHLY}


def _said_at_limit(found: Restoration) -> Restoration:
    """A level at the lower end of the search interval is no finding: it has no tight interval, and is said."""
    noise = found.noise
    if noise is None or found.numbers.get("noise_source") == "given":
        return found
    if level_to_signed(noise["std"]) > _NEAR_LIMIT:
        return found
    wide = {**noise, "lower": 0.0, "upper": max(noise["upper"], 4 * noise["std"])}
    text = (
        f"the noise level is near the lower limit of what can be found ({noise['std']:.4f}): there is none, or it is "
        "correlated (--noise-model correlated removes that)"
    )
    return replace(found, noise=wide, warnings=(*found.warnings, text))
