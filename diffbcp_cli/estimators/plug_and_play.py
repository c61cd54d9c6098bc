"""Plug-and-play refinement: iterate the denoiser with known pixels held at their measured values.

The posterior mean of a low-rank model is smooth: it keeps only what the components explain. The refinement goes
back to the measured values y of the known pixels. It looks for the fixed point of the denoiser D with known pixels
at y:

    u = y where known, v elsewhere;   v <- v + a (D(u, sigma) - v),   D(x, sigma) = E[x0 | x0 + sigma eps = x]

The start is the posterior mean and the result is the last D(u, sigma), so known pixels come out denoised. A network
that was trained on all quarter turns sees the next one at each step, so that its errors do not add up.

Hold-out pixels choose the level sigma: some known pixels are hidden from the sampler too, and the level that fills
them best is taken. That needs no truth, and it forgives a noise level that the tensor model has overestimated.

A prior that takes a mask fills the missing pixels at one call: once from the known pixels alone, and once with the
posterior mean as a guess. The result is then the stack of all three, with the weights that fill the hold-out pixels
best (ensemble.py).
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
from .crops import representative_crops
from .ensemble import stack, stacking_weights

RELAXATION = 1.8  # a: beyond 1, for fewer calls; below 2, for stability
TRIAL_SHARE = 0.04  # of the known pixels are held out to choose the level
TRIAL_WINDOW = 10  # pixels a side: where holes are wide, pieces of this size are held out
FILLS = 2  # calls of a prior that takes a mask
FEWEST = 20  # held-out entries that a level can be chosen by
_STEP = math.sqrt(0.5)
_STEPS = 8
_REACH = 8  # pixels, half a patch
_RIDGE, _RIDGE_OF_PIECES = 0.02, 0.2  # see ensemble.py
_AS_GOOD = 0.002  # of the squared error: 0.01 dB, not worth a call
_LOWEST = 0.004  # half a step of an 8-bit picture, on [-1, 1]


@dataclass(frozen=True)
class Refinement:
    """How to refine: the noise level on [-1, 1], and the number of calls.

    fill_level: the noise level for a prior that takes a mask. weights: of the refined picture and of the fills.
    """

    level: float
    calls: int
    fill_level: float | None = None
    weights: tuple[float, ...] = (1.0,)


def refine(prior: Prior, values: Tensor, known: Tensor, start: Tensor, level: float, *, calls: int) -> Tensor:
    """Refine a picture. values, known, start: (..., C, H, W), level on [-1, 1], one call per step.

    Where nothing is missing every step asks the same question, so the answers in all quarter turns are averaged.
    """
    steps = _steps(prior, values, known, start, level)
    if calls and bool(known.all()):  # every step is D(values), in another turn
        turns = min(calls, prior.traits.rotations)
        return torch.stack(list(islice(steps, turns))).mean(0)
    refined = torch.where(known, values, start)
    for _ in range(calls):
        refined = next(steps)
    return refined


def refine_by(choice: Refinement, prior: Prior, values: Tensor, known: Tensor, start: Tensor) -> Tensor:
    """The refined picture (..., C, H, W), stacked with the fills if there are any; arguments as in `refine`."""
    calls = choice.calls if choice.weights[0] > 0 else 0
    if choice.fill_level is None:
        return refine(prior, values, known, start, choice.level, calls=calls)
    start, fills = _fills(prior, values, known, start, choice.fill_level)
    refined = refine(prior, values, known, start, choice.level, calls=calls)
    return stack([refined, *fills], choice.weights)


def _fills(
    prior: Prior, values: Tensor, known: Tensor, start: Tensor, level: float
) -> tuple[Tensor, list[Tensor]]:
    """The fills of a prior that takes a mask: from the known pixels alone, and with the start as a guess.

    Return the start too, with the first fill wherever no known pixel is near: the tensor model knows nothing there.
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
    """Yield D(u, level) of one step after the other, without end."""
    u = torch.where(known, values, start)
    for quarters in cycle(range(prior.traits.rotations)):
        picture = torch.rot90(u if u.ndim == 4 else u[None], quarters, (-2, -1))
        refined = torch.rot90(prior.denoise(picture, level), -quarters, (-2, -1)).reshape(u.shape)
        yield refined
        u = torch.where(known, values, u + RELAXATION * (refined - u))


def choose_level(
    prior: Prior,
    values: Tensor,
    known: Tensor,
    held: Tensor,
    start: Tensor,
    noise_std: float,
    *,
    calls: int,
) -> Refinement:
    """Choose sigma: from the inferred noise downwards in steps of 3 dB, while the hold-out pixels improve.

    values, known, held, start: (C, H, W), held among the known. The noise of the tensor model includes its misfit,
    so it is an upper bound. A parabola through the best level and its neighbours refines the minimum. At the best
    level the number of calls is the smallest that does as well as the best one: in fine texture D is no
    contraction, and more steps lead away. calls: at most so many.
    """
    where = representative_crops(held)
    values, known, held, start = (where.of(image) for image in (values, known, held, start))
    if int(held.sum()) < FEWEST:
        return Refinement(max(noise_std, _LOWEST), calls)
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
    return Refinement(level, fewest_calls(errors[best]))


def fewest_calls(errors: Tensor) -> int:
    """The fewest calls that are within one standard error of the best number; errors: squared, (calls, entries).

    The standard error is that of the difference, entry by entry.
    """
    worse = errors - errors[errors.mean(1).argmin()]
    uncertain = worse.std(1) / math.sqrt(errors.shape[1])
    as_good = ~(worse.mean(1) > uncertain)
    return 1 + int(as_good.nonzero()[0])


def choose_stack(
    choice: Refinement,
    prior: Prior,
    values: Tensor,
    known: Tensor,
    held: Tensor,
    start: Tensor,
    noise_std: float,
    *,
    scattered: bool,
) -> Refinement:
    """Stack the refined picture with the fills of a prior that takes a mask; hold-out pixels choose the weights.

    The number of calls is the smallest that the stack needs: few where the fills have most of the weight.
    scattered: single pixels are held out, not pieces of holes. The other arguments are as in `choose_level`.
    """
    where = representative_crops(held)
    values, known, held, start = (where.of(image) for image in (values, known, held, start))
    hidden = known & ~held
    start, fills = _fills(prior, values, hidden, start, noise_std)
    ridge = _RIDGE if scattered else _RIDGE_OF_PIECES
    weights, errors = [], []  # by the number of calls
    for refined in islice(_steps(prior, values, hidden, start, choice.level), choice.calls):
        weights.append(stacking_weights([refined, *fills], values, held, ridge=ridge))
        errors.append(float((stack([refined, *fills], weights[-1]) - values)[held].square().mean()))
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
