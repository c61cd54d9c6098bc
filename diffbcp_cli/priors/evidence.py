"""How likely a noise level is, by the prior: the equation that the level of a picture's noise obeys.

Let p_sigma be the density of a clean picture of the prior plus noise of std sigma. It obeys the heat equation, d
log p_sigma / d sigma^2 = (laplace log p_sigma + |grad log p_sigma|^2) / 2, and by Tweedie's formula its score is
(D(u, sigma) - u) / sigma^2. So log p_sigma(u) is stationary in sigma where

    |u - D(u, sigma)|^2 = sigma^2 (n - div D(u, sigma)),

both sides of which two calls of the prior give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import add_up, fetch, sums
from .base import Prior

_STEP = 0.1  # of the probe for the divergence, in units of sigma
_LEAST_FREE = (
    0.1  # a Newton step for the level divides by the share of the noise that the prior can tell, at least
)
_FIRST_GUESS, _GUESSES = 0.1, 3
_WINDOW = 256  # pixels a side that the first guess is made on
_FEWEST = 50  # entries that a level can be measured by
_MARGIN, _MOST_MARGIN = 2.5, 0.8  # pixels nearer to black or white, in units of sigma, may have been clipped


@dataclass(frozen=True)
class Residual:
    """What the prior leaves of u, (B, C, H, W) each.

    clean: D(u, sigma). square: (u - D)^2. free: 1 - b (J b), J the Jacobian of D and b random signs; its mean is
    1 - J_ii. counts: the entries that count, not those that may have been clipped.
    """

    clean: Tensor
    square: Tensor
    free: Tensor
    counts: Tensor


def residual(
    prior: Prior, u: Tensor, probe: Tensor, sigma: float, *, clean: Tensor | None = None
) -> Residual:
    """The residual of u (B, C, H, W) at sigma; probe: random signs where it is asked for, zero elsewhere.

    clean: D(u, sigma), if it is there already.
    """
    clean = prior.denoise(u, sigma) if clean is None else clean
    moved = prior.denoise(u + _STEP * sigma * probe, sigma)
    free = 1 - probe * (moved - clean) / (_STEP * sigma)
    counts = (probe != 0) & (clean.abs() < 1 - min(_MARGIN * sigma, _MOST_MARGIN))
    return Residual(clean, (u - clean).square(), free, counts)


def newton(found: Residual, known: Tensor, level: float, *, misfit: float = 1.0) -> float | None:
    """The factor on the level by one Newton step towards |u - D|^2 = level^2 (n - div D) over the known entries.

    The right side also falls with the level, so the step is longer than the ratio of the two. None if too few
    entries can tell. misfit: how many times larger than it says the prior's variance of the picture is; its errors
    then add (misfit - 1) div D on the right side.
    """
    counts = found.counts & known
    parts = (sums(part * counts) for part in (found.square, found.free))
    square, free, number = (add_up(part) for part in fetch(*parts, counts.sum()[None]))
    free += (misfit - 1) * max(0.0, number - free)
    if number < _FEWEST or free <= 0 or square <= 0:
        return None
    share = max(_LEAST_FREE, free / number)
    return float(math.exp(0.5 * math.log(square / (level**2 * free)) * min(1 / share, 2.0)))


def first_guess(
    prior: Prior, y: Tensor, known: Tensor, fill: Callable[[Tensor, Tensor, float], Tensor], *, rng: Generator
) -> float:
    """The noise level of the middle of y (1, C, H, W) by a few Newton steps.

    fill: what the missing entries of a picture (1, C, h, w) hold, given it, its known entries and a level.
    """
    height, width = y.shape[-2:]
    top, left = max(0, height - _WINDOW) // 2, max(0, width - _WINDOW) // 2
    y, known = (part[..., top : top + _WINDOW, left : left + _WINDOW] for part in (y, known))
    sigma = _FIRST_GUESS
    for _ in range(_GUESSES):
        u = torch.where(known, y, fill(y, known, sigma) + sigma * random.normal_like(y, rng=rng))
        signs = random.normal_like(y, rng=rng).sign()
        measured = newton(residual(prior, u, signs, sigma), known, sigma)
        if measured is None:
            break
        sigma *= min(max(measured, 1 / 4), 2.0)
    return sigma
