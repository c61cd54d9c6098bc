"""The noise level by the prior: the one under which the known pixels are most likely.

priors/evidence.py has the equation that it obeys. The tensor model's own noise level also holds what its components
cannot explain; this one does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from .. import random
from ..errors import InputError
from ..options import METHODS, Options
from ..priors.base import Prior
from ..priors.evidence import residual
from ..priors.interpolate import interpolate
from ..problem import Problem
from ..random import Seeds
from ..units import level_to_unit
from .crops import representative_crops
from .plug_and_play import refine

LOWEST = 0.003  # on [-1, 1]: below the rounding of an 8-bit picture
_HALVINGS = 6
_FEWEST = 50
_BLOCKS = 4  # a side: the spread of the level over them gives its standard error
_STEEPEST = 0.9
_Z90 = 1.6448536
_GUESS = 0.5  # on [-1, 1]: an upper bound is twice of it
_FILL_CALLS = 4  # of the prior, to fill what is missing before the first draw


@dataclass(frozen=True)
class NoiseLevel:
    """A noise std with its 90 % interval, on [-1, 1]."""

    std: float
    lower: float
    upper: float

    def in_units(self) -> dict[str, float]:
        """On the [0, 1] scale, as a record has it."""
        return {name: level_to_unit(getattr(self, name)) for name in ("std", "lower", "upper")}


def noise_before(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds) -> NoiseLevel | None:
    """The noise level by the prior before the first draw; None if it is given or the method infers it."""
    if prior is None or problem.noise_std is not None or not METHODS[options.method].needs_noise:
        return None
    return noise_of_problem(problem, prior, rng=seeds.generator("noise", problem.device))


@torch.no_grad()
def noise_of_problem(problem: Problem, prior: Prior, *, rng: Generator) -> NoiseLevel:
    """Estimate the noise level of a problem of which nothing has been drawn yet.

    What is missing is interpolated first; the level that this gives serves to refine it, for a second estimate.
    """
    crop = representative_crops(problem.known).of
    values, known = crop(problem.y), crop(problem.known)
    filled = interpolate(values, known)
    found = most_likely_noise(prior, values, known, filled, _GUESS, rng=rng)
    if found is not None and not problem.operator.complete:
        filled = refine(prior, values, known, filled, found.std, calls=_FILL_CALLS)
        found = most_likely_noise(prior, values, known, filled, found.std, rng=rng)
    if found is None:
        raise InputError("too few pixels are known to estimate their noise", hint="give it: --sigma 0.02")
    return found


def most_likely_noise(
    prior: Prior, values: Tensor, known: Tensor, filled: Tensor, guess: float, *, rng: Generator
) -> NoiseLevel | None:
    """Find the sigma under which the known pixels are most likely; None where too few of them can tell.

    values, known, filled: (N, C, H, W) on [-1, 1]. Where nothing is known the filled picture stands in, with noise
    of the level that is tried. guess: a first idea; the level is looked for up to twice of it.
    """
    low, high = math.log(LOWEST), math.log(max(2 * guess, 4 * LOWEST))
    at_low: float | None = None
    at_high: float | None = None
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        excess = _excess(prior, values, known, filled, math.exp(middle), rng)
        if excess is None:
            return None
        if excess[0] > 0:
            low, at_low = middle, excess[0]
        else:
            high, at_high = middle, excess[0]
    place, slope = (low + high) / 2, -0.5
    if at_low is not None and at_high is not None and at_low > at_high:
        slope = (at_high - at_low) / (high - low)
        place = low - at_low / slope
    excess = _excess(prior, values, known, filled, math.exp(place), rng)
    if excess is None:
        return None
    blocks = excess[1] / max(-slope, 1 - _STEEPEST)
    error = float(blocks.std() / math.sqrt(len(blocks))) if len(blocks) > 1 else 0.0
    return NoiseLevel(*(math.exp(place + z * error) for z in (0.0, -_Z90, _Z90)))


def _excess(
    prior: Prior, values: Tensor, known: Tensor, filled: Tensor, sigma: float, rng: Generator
) -> tuple[float, Tensor] | None:
    """Return ln(|u - D|^2 / (n - div D)) / 2 - ln sigma over the known pixels: of all, and of each block of them."""
    signs, noise = (random.normal_like(values, rng=rng) for _ in range(2))
    u = torch.where(known, values, filled + sigma * noise)
    found = residual(prior, u, torch.where(known, signs.sign(), 0.0), sigma)
    if int(found.counts.sum()) < _FEWEST:
        return None
    each = (found.square, found.free, torch.ones_like(found.free))
    parts = torch.stack([_in_blocks(part * found.counts) for part in each])
    whole = parts.sum(1)
    if whole[1] <= 0 or whole[0] <= 0:
        return None
    usable = parts[:, (parts[2] >= whole[2] / (4 * parts.shape[1])) & (parts[1] > 0) & (parts[0] > 0)]
    level = math.log(sigma)
    return float((whole[0] / whole[1]).log() / 2 - level), (usable[0] / usable[1]).log() / 2 - level


def _in_blocks(image: Tensor) -> Tensor:
    """Sums over channels and over squares of the pictures: (N, C, H, W) -> (blocks,), up to one common factor."""
    height, width = image.shape[-2:]
    grid = (min(_BLOCKS, height), min(_BLOCKS, width))
    return functional.adaptive_avg_pool2d(image.sum(1, keepdim=True).cpu().double(), grid).flatten()
