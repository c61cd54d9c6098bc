"""The noise of a picture: how `denoise` removes it by its kind, and what `inpaint` takes for noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import torch

from ..devices import pick_device
from ..errors import UsageError
from ..estimators.noise import LOWEST, NoiseLevel
from ..estimators.noise_model import CLEAR, Kind, Light, Taken, light_of, picture_level, taken_away
from ..options import Options, draws_by_langevin
from ..photos.jpeg import step_of_pixels
from ..priors import LoadedPrior, load_prior
from ..priors.base import Prior
from ..problem import Restoration
from ..random import Seeds
from ..units import Bools, Floats, level_to_signed, level_to_unit, to_signed
from ..watch import Watch

CAMERA = "camera"  # the method for noise that is not white, and its network
_NEAR_LIMIT = 2 * LOWEST  # on [-1, 1]: a level below is the end of the search interval rather than a finding
_STRONG_JPEG = 2.0  # the mean step (photos/jpeg.py) from which on a network always mends it: quality 92 or so
_WITHIN = (
    1.3  # factor within which the level by the network is right in nine of ten cases (benchmarks/real.py)
)
_MOST = 2048  # pixels a side that are looked at for grain, in the middle


@dataclass(frozen=True)
class Denoising:
    """How a picture is denoised: its pixels, perhaps on another scale, the options of the method, and its prior.

    back: from the restoration of these pixels to that of the picture.
    """

    pixels: Floats
    options: Options
    prior: Prior | None
    back: Callable[[Restoration], Restoration]


def denoising(
    pixels: Floats,
    options: Options,
    prior: Prior | None,
    name: str,
    watch: Watch,
    *,
    jpeg: float | None = None,
) -> Denoising:
    """Choose how to denoise pixels (H, W, C), all known. jpeg: how strongly its file is compressed."""
    asked = options.noise_model
    if prior is None or (options.sigma is not None and asked == "auto"):
        return _given(pixels, options, prior)
    device = pick_device(options.device)
    picture = to_signed(pixels, device)
    rng = Seeds(options.seed, name).generator("noise model", device)
    white = picture_level(prior, picture, rng=rng) if asked != "correlated" else None
    if asked == "correlated" or (asked == "auto" and white is not None and _has_network(options)):
        taken = taken_away(camera_prior(options), picture, torch.ones_like(picture, dtype=torch.bool))
        jpeg = step_of_pixels(pixels) if jpeg is None else jpeg
        kind = asked if asked != "auto" or white is None else kind_of(taken, white, jpeg)
        if kind in ("correlated", "none"):
            return _by_network(pixels, options, kind, taken, jpeg, watch)
    if white is None:
        return _given(pixels, options, prior)
    light = None
    if asked == "poisson" or (asked == "auto" and white.std > CLEAR):
        light = light_of(prior, picture, white.std, always=asked == "poisson")
    if light is not None:
        watch.note("the noise grows with the light: it is made even before it is removed")
        even = light.even(pixels)
        found = picture_level(prior, to_signed(even, device), rng=rng) if options.sigma is None else None
        stated = options.sigma if found is None else level_to_unit(found.std)
        back = _Back(options, "poisson", white.in_units(), light)
        return Denoising(even, _with_level(options, stated), prior, back)
    chosen = options if options.strength == 1 else _with_level(options, level_to_unit(white.std))
    return Denoising(pixels, chosen, prior, _Back(options, "white", white.in_units()))


def kind_of(taken: Taken | None, white: NoiseLevel, jpeg: float | None) -> Kind:
    """White, correlated, or none. taken: by the network for any noise; white: by the prior, if the noise is white.

    Of a weak JPEG nothing is taken away unless there is noise in it.
    """
    noisy = white.std > _NEAR_LIMIT
    if taken is not None and taken.spreads:
        return "correlated"
    if jpeg is not None and (jpeg >= _STRONG_JPEG or noisy):
        return "correlated"
    return "white" if noisy or taken is None else "none"


@lru_cache(maxsize=2)
def _load(device: str, precision: str) -> LoadedPrior:
    return load_prior(CAMERA, device=device, precision=precision)


def camera_prior(options: Options) -> LoadedPrior:
    """The network for noise of any kind."""
    return _load(options.device, options.precision)


def _has_network(options: Options) -> bool:
    """Whether the network may take the place of the method: that of photographs is not asked for by name."""
    return draws_by_langevin(options) and options.prior == Options.prior


def _by_network(
    pixels: Floats, options: Options, kind: Kind, taken: Taken | None, jpeg: float | None, watch: Watch
) -> Denoising:
    """By the network for any noise, which is told the level that is given, or that of where it is sure."""
    if not draws_by_langevin(options) and options.method != CAMERA:
        raise UsageError(
            f"--noise-model correlated is a network of its own, not one of --method {options.method}",
            hint="leave --method out",
        )
    if kind == "none":
        watch.note("no noise was found: the picture is left as it is")
    else:
        why = "the picture was a JPEG" if jpeg is not None else "the noise is correlated"
        watch.note(f"{why}: a network for such noise removes it")
    told = options.sigma
    if told is None and taken is not None:
        told = level_to_unit(taken.sure)
    chosen = replace(
        options,
        method=CAMERA,
        prior=CAMERA,
        iterations=1,
        burn_in=0,
        thin=1,
        chains=1,
        calibrate=False,
        until_converged=False,
        time_budget=None,
        sigma=None if told is None else min(1.0, told * options.strength),
    )
    level = {} if taken is None else _roughly(level_to_unit(taken.usual))
    return Denoising(pixels, chosen, camera_prior(options), _OfNetwork(options, kind, pixels, level, jpeg))


def _roughly(std: float) -> dict[str, float]:
    return {"std": std, "lower": std / _WITHIN, "upper": std * _WITHIN}


def _given(pixels: Floats, options: Options, prior: Prior | None) -> Denoising:
    """White noise of the level that is given, or that the method finds."""
    return Denoising(pixels, _with_level(options, options.sigma), prior, _as_it_is)


def _with_level(options: Options, level: float | None) -> Options:
    """The noise level, unless it is given, times the strength that is asked for."""
    level = level if options.sigma is None else options.sigma
    return options if level is None else replace(options, sigma=min(1.0, level * options.strength))


@dataclass(frozen=True)
class _OfNetwork:
    """From what the network gives to the restoration: the level, and the picture itself where there is no noise.

    taken: the level, with its interval. What a JPEG takes from texture counts too, so its level is that of all.
    """

    given: Options
    kind: Kind
    pixels: Floats
    taken: dict[str, float]
    jpeg: float | None

    def __call__(self, found: Restoration) -> Restoration:
        """The mean and std of the picture, and its noise."""
        network = camera_prior(self.given).identity.as_dict()
        numbers = {
            **found.numbers,
            **{"noise_model": self.kind, "jpeg_step": self.jpeg, "noise_prior": network},
        }
        found = replace(found, options=self.given, numbers=numbers)
        if self.kind == "none":
            return self._as_it_was(found)
        if self.given.sigma is not None:
            return found
        whole = found.noise if self.jpeg is not None or not self.taken else None
        noise = self.taken if whole is None else _roughly(whole["std"])
        return replace(found, noise=noise, numbers={**numbers, "noise_source": "prior"})

    def _as_it_was(self, found: Restoration) -> Restoration:
        """The picture itself. Of a JPEG the network says what it lost; else noise may be below the limit."""
        numbers = {**found.numbers, "noise_source": "prior"}
        if self.jpeg is None or found.std is None or found.noise is None:
            level = level_to_unit(_NEAR_LIMIT)
            std, noise = np.full_like(self.pixels, level), {"std": 0.0, "lower": 0.0, "upper": level}
        else:
            std = np.hypot(found.std, found.mean - self.pixels)
            noise = {**_roughly(found.noise["std"]), "lower": 0.0}
        return replace(found, mean=self.pixels, std=std, noise=noise, numbers=numbers)


@dataclass(frozen=True)
class _Back:
    """From the restoration of the whitened picture to that of the picture. white: the level of noise by the prior."""

    given: Options
    kind: Kind
    white: dict[str, float]
    light: Light | None = None

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
        return replace(found, noise=self.white, numbers={**numbers, "noise_source": "prior"})


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


def noise_of_known(
    pixels: Floats, observed: Bools, options: Options, prior: Prior | None, watch: Watch
) -> tuple[Options, Callable[[Restoration], Restoration]]:
    """Grain and JPEG count as noise of known entries, (H, W, C) both: the prior alone takes them for the picture.

    The options with this level, and a function that says so in the restoration.
    """
    given, asked = options.sigma is not None, options.noise_model
    if prior is None or given or not (asked == "correlated" or (asked == "auto" and _has_network(options))):
        return options, _as_it_is
    middle = tuple(
        slice(max(0, (length - _MOST) // 2), (length + _MOST) // 2) for length in observed.shape[:2]
    )
    here, device = (
        np.array(observed[middle]),
        pick_device(options.device),
    )  # a copy: torch wants to be able to write
    picture = to_signed(np.where(here, pixels[middle], np.float32(0)), device)
    known = torch.from_numpy(here).permute(2, 0, 1).to(device)
    taken = taken_away(camera_prior(options), picture, known)
    if taken is None or (asked == "auto" and not taken.spreads):
        return options, _as_it_is
    level = level_to_unit(taken.usual)
    watch.note(f"grain counts as noise, of a level of {level:.3f}")
    return replace(options, sigma=min(1.0, level)), _OfKnown(options, level)


def _as_it_is(found: Restoration) -> Restoration:
    return found


@dataclass(frozen=True)
class _OfKnown:
    """Says that the noise of known entries was found before."""

    given: Options
    level: float

    def __call__(self, found: Restoration) -> Restoration:
        """The same picture; its noise is a finding, not one that was given."""
        numbers = {**found.numbers, "noise_model": "correlated", "noise_source": "prior"}
        options = replace(found.options, sigma=self.given.sigma)
        return replace(found, options=options, noise=_roughly(self.level), numbers=numbers)
