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
sigma the known entries get the noise that they lack. Known entries that are held out to calibrate by are predicted
in the last steps of burn-in, at sigma, and then put back. Two chains run in a pair with opposite noise, so that the
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
from ..operators.mask import smoothed
from ..options import Options
from ..priors.base import Prior, can_fill
from ..priors.evidence import Residual, first_guess, newton, residual
from ..priors.interpolate import interpolate
from ..priors.reverse import sample
from ..priors.turning import Turning
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from .base import Info, Kind
from .held_out import Tally, misfit
from .path import known_entries

START = 0.4  # noise level that burn-in starts at, on [-1, 1]
LOWEST, HIGHEST = 0.004, 1.0  # an inferred noise level
PROBE_EVERY, EARLY_PROBES = 5, (0, 2)  # steps
SMOOTHED = 3  # rounds of smoothing of Var(z | u), which a few probes measure
FRICTION = 0.5  # a step
DRAW_CALLS = 4  # of the prior for a whole draw
HELD_STEPS = 8  # of burn-in, in which held-out entries are predicted
FROM_BELOW = 0.35  # of the first guess: a level that is too low rises soon, one that is too high falls slowly
_MOST_CHANGE = 1.6  # of the level in one step

_KEEP = math.exp(-FRICTION)


@dataclass(frozen=True)
class LangevinState:
    """Where the pair of chains stands, images (2, C, H, W); (1, C, H, W) where nothing is missing.

    u: the noisy picture. momentum: of its missing entries, in units of the noise level. clean: D(u). added: the
    noise that the known entries have at this level and lack in the data. noise_std: of the data, on [-1, 1].
    within: (C, H, W) the mean of Var(z | u) so far, in units of noise_std^2. probes: how many probes it is of.
    held: D(u) over the steps in which entries are held out, at the level of the noise. free: the mean of 1 - J_ii
    over known entries, the share of noise that the prior tells from the picture. misfit: see `held_out.misfit`.
    """

    u: Tensor
    momentum: Tensor
    clean: Tensor
    added: Tensor
    noise_std: float
    step: int = 0
    within: Tensor | None = None
    probes: int = 0
    held: Tally | None = None
    free: float | None = None
    misfit: float = 1.0


STATE_CLASSES = (LangevinState, Tally)


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
        prior, known, y = Turning(self.prior, rng), self.known(0), self.problem.y[None]
        noise_std = self.problem.noise_std
        if noise_std is None:
            guess = first_guess(prior, y, known, self._fill, rng=rng)
            guess *= 1 if self.problem.operator.complete else FROM_BELOW
            noise_std = min(max(guess, LOWEST), HIGHEST)
        if self.problem.operator.complete:
            none = torch.zeros_like(y)
            return LangevinState(y, none, prior.denoise(y, noise_std), none, noise_std)
        fill = self._fill(y, known, noise_std)
        level = self._level(0, noise_std)
        added = lacking(level, noise_std) * _opposite(y, rng)
        u = torch.where(known, y + added, fill + level * _opposite(y, rng))
        return LangevinState(u, _opposite(y, rng), prior.denoise(u, level), added, noise_std)

    @property
    def annealing(self) -> int:
        """Steps from START down to the level of the noise."""
        held = 0 if self.problem.later is None else min(HELD_STEPS, self.burn_in // 2)
        return self.burn_in - held

    def known(self, step: int) -> Tensor:
        """(1, C, H, W) which entries are used in a step."""
        known = known_entries(self.problem, "langevin")[None]
        later = self.problem.later
        return known if later is None or step >= self.burn_in else known & ~later

    @torch.no_grad()
    def step(self, state: LangevinState, *, rng: Generator) -> tuple[LangevinState, Info]:
        """Move at the level of this step, measure the noise and the variance if it is time, go down a level."""
        prior, level = Turning(self.prior, rng), self._level(state.step, state.noise_std)
        before = state.clean
        if not self.problem.operator.complete:
            state = self._move(state, prior, level, rng)
        elif state.step:
            state = replace(state, clean=prior.denoise(state.u, level))
        if self._probes(state.step):
            state = self._probe(state, prior, level, rng)
        state = self._hold(state)
        predicted = self._predicted(state)
        info = self._info(state, level, float((state.clean - before).square().mean().sqrt()), predicted)
        state = self._down(replace(state, step=state.step + 1), level, rng)
        return state if predicted is None else self._put_back(state, predicted), info

    def _hold(self, state: LangevinState) -> LangevinState:
        """Take a step at the level of the noise into account, while entries are held out."""
        if self.problem.later is None or not self.annealing <= state.step < self.burn_in:
            return state
        return replace(state, held=(state.held or Tally()).plus(state.clean))

    def _predicted(self, state: LangevinState) -> Tensor | None:
        """(2, C, H, W) mean and std of the picture without the held-out entries, in the last step of burn-in."""
        if state.held is None or state.step != self.burn_in - 1:
            return None
        variance = state.held.variance + self._variance_given_u(state)
        return torch.stack([state.held.mean, variance.sqrt()])

    def _put_back(self, state: LangevinState, predicted: Tensor) -> LangevinState:
        """Use the entries that were held out from here on, and what they say about the prior's variance."""
        later, y = self.problem.later, self.problem.y
        assert later is not None
        wrong = misfit(y, later, self.known(0)[0], predicted, state.noise_std)
        return replace(state, u=torch.where(later, y + state.added, state.u), held=None, misfit=wrong)

    def _level(self, step: int, noise_std: float) -> float:
        """The level of a step: geometric from START to the level of the noise over burn-in."""
        start = max(START, noise_std)
        anneals = self.annealing > 1 and not self.problem.operator.complete
        share = min(1.0, step / (self.annealing - 1)) if anneals else 1.0
        return float(start * (noise_std / start) ** share)

    def _move(self, state: LangevinState, prior: Prior, level: float, rng: Generator) -> LangevinState:
        """One step of the BAOAB splitting, of length one in units of the level; known entries stay."""
        momentum = state.momentum + 0.5 * (state.clean - state.u) / level
        half = state.u + 0.5 * level * momentum
        momentum = _KEEP * momentum + math.sqrt(1 - _KEEP**2) * _opposite(momentum[:1], rng)
        u = torch.where(self.known(state.step), state.u, half + 0.5 * level * momentum)
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
        known = self.known(state.step)
        return replace(state, u=torch.where(known, self.problem.y[None] + added, u), added=added)

    # ---- the level of the noise, and the variance of z given u ----

    def _probes(self, step: int) -> bool:
        """Whether this step measures: from the end of burn-in on every fifth one, and a few more at first."""
        since = step - self.annealing + 1
        return since in EARLY_PROBES or (since > 0 and since % PROBE_EVERY == 0)

    def _probe(self, state: LangevinState, prior: Prior, level: float, rng: Generator) -> LangevinState:
        """Measure the noise, unless it is given, and Var(z | u) = sigma^2 (1 - free)."""
        signs = random.normal_like(state.u, rng=rng).sign()
        found = residual(prior, state.u, signs, level, clean=state.clean)
        known = self.known(state.step)
        within = (1 - found.free).mean(0)
        count = state.probes + 1
        old = torch.zeros_like(within) if state.within is None else state.within
        free = float((found.free * known).sum() / (known.sum() * len(found.free)).clamp_min(1))
        free = free if state.free is None else state.free + (free - state.free) / count
        state = replace(state, within=old + (within - old) / count, probes=count, free=free)
        if self.problem.noise_std is not None:
            return state
        return self._with_noise(state, level, found)

    def _with_noise(self, state: LangevinState, level: float, found: Residual) -> LangevinState:
        """A Newton step towards the most likely noise level; late ones are shorter, so that it settles."""
        known = self.known(state.step)
        measured = newton(found, known, level, misfit=state.misfit) or 1.0
        gain = 1 / (1 + 0.3 * max(0, state.probes - 3))
        factor = min(max(measured, 1 / _MOST_CHANGE), _MOST_CHANGE) ** gain
        now = min(max(level * factor, LOWEST), HIGHEST)
        u = torch.where(known, state.u, state.clean + now / level * (state.u - state.clean))
        return replace(state, u=u, noise_std=now)

    def _fill(self, y: Tensor, known: Tensor, noise_std: float) -> Tensor:
        """The prior's fill of y (1, C, H, W), or an interpolation if it takes no mask."""
        guess = interpolate(y, known)
        if can_fill(self.prior) and not bool(known.all()):
            return self.prior.fill(guess, known, noise_std)
        return guess

    # ---- what is reported ----

    def _info(self, state: LangevinState, level: float, change: float, predicted: Tensor | None) -> Info:
        """The mean of the pair, and the std of z about it: from u, and between the two."""
        mean, given_u = state.clean.mean(0), self._variance_given_u(state)
        variance = (state.clean - mean).square().mean(0) + given_u
        numbers = {"level": level, "change": change, "free": state.free}
        draw = self._draw(state) if state.step in self.draws else None
        return Info(mean, state.noise_std, mean, numbers, variance.sqrt(), draw, predicted)

    def _variance_given_u(self, state: LangevinState) -> Tensor:
        """(C, H, W) Var(z | u), smoothed over neighbours of the same kind; zero before it has been measured."""
        share = torch.zeros_like(self.problem.y) if state.within is None else state.within
        share = smoothed(share, self.known(state.step)[0], rounds=SMOOTHED)
        return state.noise_std**2 * share.clamp_min(0)

    def _draw(self, state: LangevinState) -> Tensor:
        """A draw of z given u of one of the two chains, by the reverse diffusion."""
        rng = self.seeds.generator(f"draw {state.step}", state.u.device)
        u = state.u[state.step % len(state.u)][None]
        return sample(Turning(self.prior, rng), u, state.noise_std, calls=DRAW_CALLS, rng=rng).sample[0]

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
