"""The finish: what the tensor model leaves out, the prior puts back.

The posterior mean of a low-rank model is smooth: of the known pixels it keeps only what its components
explain. The finish goes back to their measured values y. It looks for the picture that the prior would not
change, known pixels at y and noise of std sigma on all of them:

    u = y where known, v elsewhere;   v <- v + a (D(u, sigma) - v),   D(x, sigma) = E[x0 | x0 + sigma eps = x]

started at the posterior mean. The result is the last D(u, sigma), so known pixels come out denoised.

The level sigma is chosen by the data: some known pixels, held out from the tensor model as well, are treated
as missing, and the level that fills them best, judged by their measured values, is taken. No truth is needed,
and a noise level that the tensor model has got wrong, because it calls fine detail noise, does no harm.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from .diffusion.prior import Prior

RELAXATION = 1.8  # a: beyond 1, for fewer calls; below 2, for stability
TRIAL_SHARE = 0.04  # of the known pixels are held out to choose the level
_TRIAL_SIDE = 192  # pixels a side, at most, that the level is chosen on
TRIAL_PIXELS = _TRIAL_SIDE**2
_FEWEST = 20
_STEP = math.sqrt(0.5)
_STEPS = 8
_LOWEST = 0.004  # half a step of an 8-bit picture, on [-1, 1]


@dataclass(frozen=True)
class Choice:
    """How to finish: the noise level on [-1, 1], and the number of calls."""

    level: float
    calls: int


def finish(prior: Prior, values: Tensor, known: Tensor, start: Tensor, level: float, *, calls: int) -> Tensor:
    """Return the finished picture. values, known, start: (C, H, W), level on [-1, 1], one call per step.

    Where nothing is missing the first call has all to say.
    """
    finished, steps = torch.where(known, values, start), _steps(prior, values, known, start, level)
    for _ in range(min(calls, 1) if bool(known.all()) else calls):
        finished = next(steps)
    return finished


def _steps(prior: Prior, values: Tensor, known: Tensor, start: Tensor, level: float) -> Iterator[Tensor]:
    """Yield D(u, level) of one step after the other, for ever."""
    u = torch.where(known, values, start)
    while True:
        finished = prior.denoise(u[None], level)[0]
        yield finished
        u = torch.where(known, values, u + RELAXATION * (finished - u))


def choose(
    prior: Prior,
    values: Tensor,
    known: Tensor,
    held: Tensor,
    start: Tensor,
    noise_std: float,
    *,
    calls: int,
) -> Choice:
    """Choose sigma: from the inferred noise downwards in steps of 3 dB, while held-out pixels improve.

    values, known, held, start: (C, H, W), held among the known. The tensor model's noise holds its misfit,
    so the level is not above it. A parabola through the best level and its neighbours refines the minimum.
    At the best level, the calls stop where held-out pixels were best: in fine texture D is no contraction, and
    more steps lead away. calls: the most.
    """
    values, known, held, start = (middle(part) for part in (values, known, held, start))
    if int(held.sum()) < _FEWEST:
        return Choice(max(noise_std, _LOWEST), calls)
    errors: list[list[float]] = []  # by level, by call
    for step in range(_STEPS):
        level = max(noise_std * _STEP**step, _LOWEST)
        trial = islice(_steps(prior, values, known & ~held, start, level), calls)
        errors.append([float((filled - values)[held].square().mean().log()) for filled in trial])
        if step and min(errors[-1]) > min(errors[-2]):
            break
    least = [min(by_call) for by_call in errors]
    best = min(range(len(least)), key=least.__getitem__)
    level = float(max(noise_std * _STEP ** (best + _offset(least, best)), _LOWEST))
    return Choice(level, 1 + errors[best].index(least[best]))


def _offset(errors: list[float], best: int) -> float:
    """Where the parabola through three neighbouring errors is least, in steps from the middle one."""
    if not 0 < best < len(errors) - 1:
        return 0.0
    before, here, after = errors[best - 1 : best + 2]
    bend = before - 2 * here + after
    return 0.5 * (before - after) / bend if bend > 0 else 0.0


def middle(image: Tensor) -> Tensor:
    """The middle of an image, at most _TRIAL_SIDE pixels a side."""
    height, width = image.shape[-2:]
    high, wide = min(height, _TRIAL_SIDE), min(width, _TRIAL_SIDE)
    top, left = (height - high) // 2, (width - wide) // 2
    return image[:, top : top + high, left : left + wide]
