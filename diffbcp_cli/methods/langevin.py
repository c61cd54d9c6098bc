"""Draws of one posterior: the prior and the data, by Langevin dynamics with the prior's own score.

Assumes: Gaussian noise of one level, known or not, single known and missing entries, any prior.

The density, z the clean picture, y the known entries, sigma their noise level:

    p(z) prod_known N(y_i; z_i, sigma^2) prod_missing N(u_i; z_i, sigma^2)

The last product gives the missing entries the noise that the known ones have. It integrates to one, so z given y is
what it would be without it, and u = (y, u_missing) is a picture of the prior with noise of one level everywhere. By
Tweedie's formula its score is (D(u, sigma) - u) / sigma^2. Underdamped Langevin dynamics moves u_missing by it, one
call a step. The mean is the average of E[z | u] = D(u, sigma), and the variance that of D(u, sigma) plus the mean of
Var(z | u) = sigma^2 diag J, J the Jacobian of D, which random probes give.

Burn-in anneals: it starts at the network's fill with noise of START, and goes down to sigma, level by level. Above
sigma the known entries get the noise that they lack. Two chains run in a pair with opposite noise, so that the
errors of their average cancel to first order. Each call sees another quarter turn, if the prior knows all of them.

A noise level that is not given is the most likely one (priors/evidence.py), found anew as the chain goes on, so it is
that of the picture with its missing entries drawn.

Cost: two network calls an iteration, four in every fifth one.

Reference: Laumond, De Bortoli, Almansa, Delon, Durmus, Pereyra, Bayesian Imaging Using Plug & Play Priors: When
Langevin Meets Tweedie, SIAM Journal on Imaging Sciences 15, 2022. Leimkuhler and Matthews, Rational Construction of
Stochastic Numerical Methods for Molecular Sampling, Applied Mathematics Research eXpress, 2013 (the splitting).

Ours differs: underdamped instead of overdamped, annealed, the likelihood is exact through u instead of a gradient
step, and conditional means and variances are averaged instead of draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Generator, Tensor

from .. import random
from ..operators.mask import mean_of_neighbours
from ..options import Options
from ..priors.base import Prior, can_fill
from ..priors.evidence import Residual, newton, residual
from ..priors.interpolate import interpolate
from ..priors.reverse import sample
from ..priors.turning import Turning
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from .base import Info, Kind
from .path import known_entries

START = 0.4  # noise level that burn-in starts at, on [-1, 1]
LOWEST, HIGHEST = 0.004, 1.0  # an inferred noise level
PROBE_EVERY, EARLY_PROBES = 5, (0, 2)  # steps
FRICTION = 0.5  # a step
DRAW_CALLS = 4  # of the prior for a whole draw
_FIRST_GUESS, _GUESSES = 0.1, 3
FROM_BELOW = 0.35  # of the first guess: a level that is too low rises soon, one that is too high falls slowly
_MOST_CHANGE = 1.6  # of the level in one step
_WINDOW = 256  # pixels a side that the first guess is made on

_KEEP = math.exp(-FRICTION)


@dataclass(frozen=True)
class LangevinState:
    """Where the pair of chains stands, images (2, C, H, W); (1, C, H, W) where nothing is missing.

    u: the noisy picture. momentum: of its missing entries, in units of the noise level. clean: D(u). added: the
    noise that the known entries have at this level and lack in the data. noise_std: of the data, on [-1, 1].
    within: (C, H, W) the mean of Var(z | u) so far, in units of noise_std^2. probes: how many probes it is of.
    """

    u: Tensor
    momentum: Tensor
    clean: Tensor
    added: Tensor
    noise_std: float
    step: int = 0
    within: Tensor | None = None
    probes: int = 0


STATE_CLASSES = (LangevinState,)


@dataclass(frozen=True)
class Langevin:
    """Moves the noisy picture by underdamped Langevin dynamics, down the levels and then at the level of the noise.

    draws: the steps in which a whole draw is made. seeds: of these draws, which change nothing else.
    """

    problem: Problem
    prior: Prior
    burn_in: int
    draws: range
    seeds: Seeds
    kind: Kind = "chain"
    length: int | None = None

    @torch.no_grad()
    def init(self, *, rng: Generator) -> LangevinState:
        """Start at the network's fill, with noise of the first level."""
        prior, known, y = self._turning(rng), self.known, self.problem.y[None]
        given = self.problem.noise_std
        noise_std = self._first_guess(prior, rng) if given is None else given
        if self.problem.operator.complete:
            return LangevinState(
                y, torch.zeros_like(y), prior.denoise(y, noise_std), torch.zeros_like(y), noise_std
            )
        fill = self._fill(y, known, noise_std)
        level = self._level(0, noise_std)
        added = lacking(level, noise_std) * _opposite(y, rng)
        u = torch.where(known, y + added, fill + level * _opposite(y, rng))
        return LangevinState(u, _opposite(y, rng), prior.denoise(u, level), added, noise_std)

    @property
    def known(self) -> Tensor:
        """(1, C, H, W) which entries are known."""
        return known_entries(self.problem, "langevin")[None]

    @torch.no_grad()
    def step(self, state: LangevinState, *, rng: Generator) -> tuple[LangevinState, Info]:
        """Move at the level of this step, measure the noise and the variance if it is time, go down a level."""
        prior, level = self._turning(rng), self._level(state.step, state.noise_std)
        before = state.clean
        if not self.problem.operator.complete:
            state = self._move(state, prior, level, rng)
        elif state.step:
            state = replace(state, clean=prior.denoise(state.u, level))
        if self._probes(state.step):
            state = self._probe(state, prior, level, rng)
        info = self._info(state, level, float((state.clean - before).square().mean().sqrt()))
        state = replace(state, step=state.step + 1)
        return self._down(state, level, rng), info

    def _turning(self, rng: Generator) -> Prior:
        return Turning(self.prior, rng)

    def _level(self, step: int, noise_std: float) -> float:
        """The level of a step: geometric from START to the level of the noise over burn-in."""
        start = max(START, noise_std)
        anneals = self.burn_in > 1 and not self.problem.operator.complete
        share = min(1.0, step / (self.burn_in - 1)) if anneals else 1.0
        return float(start * (noise_std / start) ** share)

    def _move(self, state: LangevinState, prior: Prior, level: float, rng: Generator) -> LangevinState:
        """One step of the BAOAB splitting, of length one in units of the level; known entries stay."""
        momentum = state.momentum + 0.5 * (state.clean - state.u) / level
        half = state.u + 0.5 * level * momentum
        momentum = _KEEP * momentum + math.sqrt(1 - _KEEP**2) * _opposite(momentum[:1], rng)
        u = torch.where(self.known, state.u, half + 0.5 * level * momentum)
        clean = prior.denoise(u, level)
        return replace(state, u=u, clean=clean, momentum=momentum + 0.5 * (clean - u) / level)

    def _down(self, state: LangevinState, level: float, rng: Generator) -> LangevinState:
        """Take the noisy picture to the next level: an ancestral step where missing, less added noise where known."""
        below = self._level(state.step, state.noise_std)
        had, has = lacking(level, state.noise_std), lacking(below, state.noise_std)
        if below >= level or had == 0:
            return replace(state, added=has / had * state.added if had else state.added * 0)
        q = (below / level) ** 2
        fresh = _opposite(state.u[:1], rng)
        u = state.clean + q * (state.u - state.clean) + below * math.sqrt(1 - q) * fresh
        keep = (has / had) ** 2  # a Brownian bridge: the added noise at both levels is that of one path
        added = keep * state.added + has * math.sqrt(1 - keep) * fresh
        return replace(state, u=torch.where(self.known, self.problem.y[None] + added, u), added=added)

    # ---- the level of the noise, and the variance of z given u ----

    def _probes(self, step: int) -> bool:
        """Whether this step measures: from the end of burn-in on every fifth one, and a few more at first."""
        since = step - self.burn_in + 1
        return since in EARLY_PROBES or (since > 0 and since % PROBE_EVERY == 0)

    def _probe(self, state: LangevinState, prior: Prior, level: float, rng: Generator) -> LangevinState:
        """Measure the noise, unless it is given, and Var(z | u) = sigma^2 (1 - free)."""
        signs = random.normal_like(state.u, rng=rng).sign()
        found = residual(prior, state.u, signs, level, clean=state.clean)
        within = (1 - found.free).mean(0)
        count = state.probes + 1
        old = torch.zeros_like(within) if state.within is None else state.within
        state = replace(state, within=old + (within - old) / count, probes=count)
        if self.problem.noise_std is not None:
            return state
        return self._with_noise(state, level, found)

    def _with_noise(self, state: LangevinState, level: float, found: Residual) -> LangevinState:
        """A Newton step towards the most likely noise level; late ones are shorter, so that it settles."""
        measured = newton(found, self.known, level)
        if measured is None:
            return state
        gain = 1 / (1 + 0.3 * max(0, state.probes - 3))
        factor = min(max(measured, 1 / _MOST_CHANGE), _MOST_CHANGE) ** gain
        now = min(max(level * factor, LOWEST), HIGHEST)
        u = torch.where(self.known, state.u, state.clean + now / level * (state.u - state.clean))
        return replace(state, u=u, noise_std=now)

    def _first_guess(self, prior: Prior, rng: Generator) -> float:
        """The noise level of the middle of the picture, its missing entries interpolated."""
        height, width = self.problem.y.shape[-2:]
        top, left = max(0, height - _WINDOW) // 2, max(0, width - _WINDOW) // 2
        window = (..., slice(top, top + _WINDOW), slice(left, left + _WINDOW))
        y, known = self.problem.y[None][window], self.known[window]
        sigma = _FIRST_GUESS
        for _ in range(_GUESSES):
            filled = self._fill(y, known, sigma)
            u = torch.where(known, y, filled + sigma * random.normal_like(y, rng=rng))
            signs = random.normal_like(y, rng=rng).sign()
            measured = newton(residual(prior, u, signs, sigma), known, sigma)
            if measured is None:
                break
            sigma = min(max(sigma * min(max(measured, 1 / 4), 2.0), LOWEST), HIGHEST)
        return FROM_BELOW * sigma

    def _fill(self, y: Tensor, known: Tensor, noise_std: float) -> Tensor:
        """The prior's fill of y (1, C, H, W), or an interpolation if it takes no mask."""
        guess = interpolate(y, known)
        if can_fill(self.prior) and not bool(known.all()):
            return self.prior.fill(guess, known, noise_std)
        return guess

    # ---- what is reported ----

    def _info(self, state: LangevinState, level: float, change: float) -> Info:
        """The mean of the pair, and the std of z about it: from u, and between the two."""
        mean = state.clean.mean(0)
        within = (state.clean - mean).square().mean(0)
        if state.within is not None:
            within = within + state.noise_std**2 * mean_of_neighbours(state.within, self.known[0]).clamp_min(
                0
            )
        numbers = {"level": level, "change": change}
        draw = self._draw(state) if state.step in self.draws else None
        return Info(mean, state.noise_std, prior_image=mean, numbers=numbers, std=within.sqrt(), draw=draw)

    def _draw(self, state: LangevinState) -> Tensor:
        """A draw of z given u of one of the two chains, by the reverse diffusion."""
        rng = self.seeds.generator(f"draw {state.step}", state.u.device)
        u = state.u[state.step % len(state.u)][None]
        return sample(self._turning(rng), u, state.noise_std, calls=DRAW_CALLS, rng=rng).sample[0]

    def planned(self, *, burn_in: int) -> Self:
        """The same method for another burn-in."""
        return replace(self, burn_in=burn_in)

    def without_warm_up(self) -> Self:
        """The same method: every step costs the same."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def lacking(level: float, noise_std: float) -> float:
    """The std of the noise that data of level noise_std lack at a level."""
    return math.sqrt(max(0.0, level**2 - noise_std**2))


def _opposite(like: Tensor, rng: Generator) -> Tensor:
    """Standard normals of a pair of chains, the second the opposite of the first: (1, C, H, W) -> (2, C, H, W)."""
    noise = random.normal_like(like, rng=rng)
    return torch.cat([noise, -noise])


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Langevin:
    """The sampler of a problem."""
    if prior is None:
        raise ValueError("the score is the prior's")
    last = options.max_iterations if options.until_converged else options.iterations
    wanted = "samples" in options.save
    draws = range(options.burn_in, max(last, options.iterations), options.thin) if wanted else range(0)
    return Langevin(problem, prior, options.burn_in, draws, seeds)
