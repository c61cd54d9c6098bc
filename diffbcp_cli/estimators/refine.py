"""The finish: what the tensor model leaves out, the prior puts back.

The posterior mean of a low-rank model is smooth: of the known pixels it keeps only what its components
explain. The finish goes back to their measured values y. It looks for the picture that the prior would not
change, known pixels at y and noise of std sigma on all of them:

    u = y where known, v elsewhere;   v <- v + a (D(u, sigma) - v),   D(x, sigma) = E[x0 | x0 + sigma eps = x]

started at the posterior mean. The result is the last D(u, sigma), so known pixels come out denoised. If the network
has learned from pictures any way up, each step shows it the next quarter turn, so that its errors do not add up.

The level sigma is chosen by the data: some known pixels, held out from the tensor model as well, are treated
as missing, and the level that fills them best, judged by their measured values, is taken. No truth is needed,
and a noise level that the tensor model has got wrong, because it calls fine detail noise, does no harm.

A prior that takes a mask fills what is missing itself, at one call: once from the known pixels alone, and once
with the posterior mean as a guess. The result then is the average of all three with the weights that suit the
held-out pixels best (blending.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import cycle, islice

import torch
from torch import Tensor
from torch.nn import functional

from ..priors.base import Prior, can_fill
from ..priors.interpolate import interpolate
from .ensemble import average, weigh
from .parts import parts_with

RELAXATION = 1.8  # a: beyond 1, for fewer calls; below 2, for stability
TRIAL_SHARE = 0.04  # of the known pixels are held out to choose the level
TRIAL_WINDOW = 10  # pixels a side: where holes are wide, pieces of this size are held out
FILLS = 2  # calls of a prior that takes a mask
FEWEST = 20  # held-out entries that a level can be chosen by
_STEP = math.sqrt(0.5)
_STEPS = 8
_REACH = 8  # pixels, half a patch
_RIDGE, _RIDGE_OF_PIECES = 0.02, 0.2  # see blending.py
_AS_GOOD = 0.002  # of the squared error: 0.01 dB, not worth a call
_LOWEST = 0.004  # half a step of an 8-bit picture, on [-1, 1]


@dataclass(frozen=True)
class Choice:
    """How to finish: the noise level on [-1, 1], and the number of calls.

    fill_level: the noise level for a prior that takes a mask, and weights: those of the finish and of its fills.
    """

    level: float
    calls: int
    fill_level: float | None = None
    weights: tuple[float, ...] = (1.0,)


def finish(prior: Prior, values: Tensor, known: Tensor, start: Tensor, level: float, *, calls: int) -> Tensor:
    """Return the finished picture. values, known, start: (..., C, H, W), level on [-1, 1], one call per step.

    Where nothing is missing the first step has all to say: the mean over quarter turns, if there are calls for it.
    """
    steps = _steps(prior, values, known, start, level)
    if calls and bool(known.all()):  # every step is D(values), in another turn
        turns = min(calls, prior.traits.rotations)
        return torch.stack(list(islice(steps, turns))).mean(0)
    finished = torch.where(known, values, start)
    for _ in range(calls):
        finished = next(steps)
    return finished


def finish_by(choice: Choice, prior: Prior, values: Tensor, known: Tensor, start: Tensor) -> Tensor:
    """The finished picture (..., C, H, W), averaged with the fills if there are any; arguments as in `finish`."""
    calls = choice.calls if choice.weights[0] > 0 else 0
    if choice.fill_level is None:
        return finish(prior, values, known, start, choice.level, calls=calls)
    start, fills = _fills(prior, values, known, start, choice.fill_level)
    finished = finish(prior, values, known, start, choice.level, calls=calls)
    return average([finished, *fills], choice.weights)


def _fills(
    prior: Prior, values: Tensor, known: Tensor, start: Tensor, level: float
) -> tuple[Tensor, list[Tensor]]:
    """What a prior that takes a mask makes of the known pixels: alone, and with the start as a guess.

    Also the start itself, with the former fill where no known pixel is near: of that the tensor model knows nothing.
    """
    assert can_fill(prior)
    shape = values.shape
    level = max(level, _LOWEST)
    values, known, start = (image.reshape(-1, *shape[-3:]) for image in (values, known, start))
    alone = prior.fill(interpolate(values, known), known, level)
    near = _near(known).to(start.dtype)
    start = near * start + (1 - near) * alone
    guided = prior.fill(torch.where(known, values, start), known, level)
    return start.reshape(shape), [alone.reshape(shape), guided.reshape(shape)]


def _near(known: Tensor) -> Tensor:
    """1 at known entries (N, C, H, W), falling to 0 at twice _REACH pixels from any."""
    near, width = known.float(), 2 * _REACH + 1
    for pool in (functional.max_pool2d, functional.avg_pool2d):
        near = functional.pad(near, (_REACH,) * 4, mode="replicate")
        near = pool(pool(near, (width, 1), stride=1), (1, width), stride=1)  # one side after the other
    return near


def _steps(prior: Prior, values: Tensor, known: Tensor, start: Tensor, level: float) -> Iterator[Tensor]:
    """Yield D(u, level) of one step after the other, for ever."""
    u = torch.where(known, values, start)
    for quarters in cycle(range(prior.traits.rotations)):
        picture = torch.rot90(u if u.ndim == 4 else u[None], quarters, (-2, -1))
        finished = torch.rot90(prior.denoise(picture, level), -quarters, (-2, -1)).reshape(u.shape)
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
    At the best level there are as few calls as do as well as the best number: in fine texture D is no contraction,
    and more steps lead away. calls: the most.
    """
    where = parts_with(held)
    values, known, held, start = (where.of(image) for image in (values, known, held, start))
    if int(held.sum()) < FEWEST:
        return Choice(max(noise_std, _LOWEST), calls)
    errors: list[Tensor] = []  # by level: squared, (calls, held-out entries)
    least: list[float] = []
    for step in range(_STEPS):
        level = max(noise_std * _STEP**step, _LOWEST)
        trial = islice(_steps(prior, values, known & ~held, start, level), calls)
        errors.append(torch.stack([(filled - values)[held].square() for filled in trial]))
        least.append(float(errors[-1].mean(1).min().log()))
        if step and least[-1] > least[-2]:
            break
    best = min(range(len(least)), key=least.__getitem__)
    level = float(max(noise_std * _STEP ** (best + _offset(least, best)), _LOWEST))
    return Choice(level, fewest_calls(errors[best]))


def fewest_calls(errors: Tensor) -> int:
    """The fewest calls that are within one standard error of the best number; errors: squared, (calls, entries).

    The standard error is that of the difference, entry by entry.
    """
    worse = errors - errors[errors.mean(1).argmin()]
    uncertain = worse.std(1) / math.sqrt(errors.shape[1])
    as_good = ~(worse.mean(1) > uncertain)
    return 1 + int(as_good.nonzero()[0])


def choose_fills(
    choice: Choice,
    prior: Prior,
    values: Tensor,
    known: Tensor,
    held: Tensor,
    start: Tensor,
    noise_std: float,
    *,
    scattered: bool,
) -> Choice:
    """For a prior that takes a mask: also average with its fills at this noise, by weights that suit held-out pixels.

    There are as few calls as the average needs: where the fills have most of the weight, few.
    scattered: single pixels are held out, not pieces of holes. The other arguments are as in `choose`.
    """
    where = parts_with(held)
    values, known, held, start = (where.of(image) for image in (values, known, held, start))
    hidden = known & ~held
    start, fills = _fills(prior, values, hidden, start, noise_std)
    ridge = _RIDGE if scattered else _RIDGE_OF_PIECES
    weights, errors = [], []  # by the number of calls
    for finished in islice(_steps(prior, values, hidden, start, choice.level), choice.calls):
        weights.append(weigh([finished, *fills], values, held, ridge=ridge))
        errors.append(float((average([finished, *fills], weights[-1]) - values)[held].square().mean()))
    calls = choice.calls
    if int(held.sum()) >= FEWEST:
        calls = next((k for k, e in enumerate(errors, 1) if e <= (1 + _AS_GOOD) * min(errors)), calls)
    return replace(choice, calls=calls, fill_level=noise_std, weights=tuple(weights[calls - 1]))


def _offset(errors: list[float], best: int) -> float:
    """Where the parabola through three neighbouring errors is least, in steps from the middle one."""
    if not 0 < best < len(errors) - 1:
        return 0.0
    before, here, after = errors[best - 1 : best + 2]
    bend = before - 2 * here + after
    return 0.5 * (before - after) / bend if bend > 0 else 0.0
