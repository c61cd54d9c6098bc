"""The reverse process: draw x0 given x = x0 + rho eps, under the prior.

With lambda = -ln sigma, the reverse SDE is  dx = 2 (D(x, sigma) - x) dlambda + sqrt(2) sigma dW.
`ancestral` takes D as constant between two levels, `second_order` as linear in lambda; both integrate the rest
exactly. `euler_vp` is the paper's solver.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Generator, Tensor

from .. import random
from ..errors import UsageError
from . import grids
from .base import Prior

Solver = Literal["second-order", "ancestral", "paper"]
SOLVERS: tuple[Solver, ...] = get_args(Solver)


@dataclass(frozen=True)
class ReverseDraw:
    """The result of one run of the reverse process, images (B, C, H, W).

    sample: the draw of x0. mean: D(x, rho) = E[x0 | x], the exact conditional mean of that draw, for
    Rao-Blackwellised averages. last_mean: the denoised image of the last call. calls: how many calls were made.
    """

    sample: Tensor
    mean: Tensor
    last_mean: Tensor
    calls: int


@torch.no_grad()
def sample(
    prior: Prior,
    x: Tensor,
    rho: float,
    *,
    solver: Solver = "second-order",
    calls: int = 4,
    rng: Generator,
) -> ReverseDraw:
    """Draw x0 given x = x0 + rho eps, x (B, C, H, W), with `calls` calls of the prior. No graph is kept.

    `paper` ignores `calls`: it makes one call for each of its 100 steps that lies below rho.
    """
    if solver == "paper":
        return euler_vp(prior, x, grids.vp_times(rho), rng=rng)
    steps: dict[str, Callable[..., ReverseDraw]] = {"ancestral": ancestral, "second-order": second_order}
    if solver not in steps:
        raise UsageError(f"unknown solver {solver!r}", hint=f"--solver {'|'.join(SOLVERS)}")
    return steps[solver](prior, x, grids.power_grid(rho, calls), rng=rng)


def ancestral(prior: Prior, x: Tensor, levels: Tensor, *, rng: Generator) -> ReverseDraw:
    """At each level, draw the next x as if the denoised image were x0.

    x' ~ N(D + q (x - D), s'^2 (1 - q)),  q = s'^2 / s^2;  the last step, to s' = 0, is D.
    levels: (calls + 1,) from rho down to 0.
    """
    means: list[Tensor] = []
    for s, s_next in zip(levels[:-1].tolist(), levels[1:].tolist(), strict=True):
        means.append(prior.denoise(x, s))
        q = (s_next / s) ** 2
        x = means[-1] + q * (x - means[-1])
        if s_next > 0:
            x = x + s_next * math.sqrt(1 - q) * random.normal_like(x, rng=rng)
    return ReverseDraw(sample=x, mean=means[0], last_mean=means[-1], calls=len(means))


def second_order(prior: Prior, x: Tensor, levels: Tensor, *, rng: Generator) -> ReverseDraw:
    """Ancestral steps, with D linear in lambda through its values at this level and the level before.

    The integral 2 int exp(-2 (lambda' - l)) (D + (l - lambda) slope) dl over a step of length h adds
    (h - (1 - q) / 2) slope to the ancestral step, q = exp(-2 h) = s'^2 / s^2. D is a martingale along the
    true process, so the slope has mean zero: it adds the posterior variance that ancestral steps lack. The first
    step has no slope, nor has the last one, to zero. levels: as in `ancestral`.
    """
    means: list[Tensor] = []
    slope: Tensor | None = None
    h_before = math.inf
    for s, s_next in zip(levels[:-1].tolist(), levels[1:].tolist(), strict=True):
        means.append(prior.denoise(x, s))
        if s_next == 0:
            x = means[-1]
            break
        h, q = math.log(s / s_next), (s_next / s) ** 2
        x = means[-1] + q * (x - means[-1]) + s_next * math.sqrt(1 - q) * random.normal_like(x, rng=rng)
        if len(means) > 1:
            slope = (means[-1] - means[-2]) / h_before
            x = x + (h - (1 - q) / 2) * slope
        h_before = h
    return ReverseDraw(sample=x, mean=means[0], last_mean=means[-1], calls=len(means))


def euler_vp(prior: Prior, x: Tensor, times: Tensor, *, rng: Generator) -> ReverseDraw:
    """The paper's scheme: Euler-Maruyama on Eq. (2), the variance-preserving reverse SDE in its own time.

    y = s(t) x with s = 1 / sqrt(1 + sigma^2), and
    dy = [s_dot/s y - 2 s sigma_dot/sigma (D(y/s, sigma) - y/s)] dt + s sqrt(2 sigma_dot sigma) dw.
    With b = beta(t) = d/dt ln(1 + sigma^2): sigma_dot = b (1 + sigma^2) / (2 sigma), s_dot/s = -b/2.
    times: (calls + 1,) from t(rho) down to 0; no noise is added in the last step.
    """
    means: list[Tensor] = []
    sigmas = grids.PAPER.sigma(times)
    y = x / math.sqrt(1 + float(sigmas[0]) ** 2)
    for t, t_next, sigma in zip(times[:-1].tolist(), times[1:].tolist(), sigmas.tolist(), strict=False):
        beta = grids.PAPER.beta(t)
        s = 1 / math.sqrt(1 + sigma**2)
        sigma_rate = beta * (1 + sigma**2) / (2 * sigma)
        means.append(prior.denoise(y / s, sigma))
        drift = -0.5 * beta * y - 2 * s * (sigma_rate / sigma) * (means[-1] - y / s)
        y = y + (t_next - t) * drift
        if t_next > 0:
            y = y + s * math.sqrt(2 * sigma_rate * sigma * (t - t_next)) * random.normal_like(y, rng=rng)
    return ReverseDraw(sample=y, mean=means[0], last_mean=means[-1], calls=len(means))
