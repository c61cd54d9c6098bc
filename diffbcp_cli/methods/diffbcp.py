"""DiffBCP: the picture is a CP tensor of unknown rank, held by a diffusion prior.

Assumes: Gaussian noise of unknown level and a mask, whose entries may differ between the colours; patches of the
picture that share few components. Any prior. Without one (`--prior none`) it is Bayesian CP by Gibbs sampling.

The picture is cut into overlapping patches, and their tensor is sum_r lambda_r a_r o b_r o c_r o d_r plus noise of
precision tau. A shrinkage prior (CUSP) on the weights lambda settles the rank. A copy Z of the picture, held to it
by a coupling rho = sqrt(c / tau), is drawn from the prior by reverse diffusion from level rho. Both are drawn in
turn. The result is the mean of the draws, refined by the prior (`--finish`); its standard deviation is that of the
draws of both.

Cost: in each iteration one Gram matrix of the size of the rank for every patch, and --calls network calls; 100
iterations by default, and then the calls of --finish.

Reference: Bayesian Tensor Decomposition with Diffusion Model Prior, ICML 2026.

Ours differs: conditionals that are printed with theta in place of 1 / theta, and draws of the published code that
are no Gibbs steps, are put right; c, rho, the solver and the estimate are other ones by default.
docs/explanation/model.md lists every difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from torch import Generator, Tensor

from ..lowrank import cp, cusp
from ..lowrank.cp import State, initial
from ..lowrank.cp_sweep import sweep
from ..lowrank.likelihood import Coupling, Observation, observe
from ..lowrank.ring import RingState
from ..lowrank.stream import Stream, observe_in_chunks, observe_some
from ..lowrank.tensorize import Patches, tensorize
from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from .low_rank import SMALLEST_BUDGET, Settings, settings_of
from .ring_step import RingStep, ring_step
from .split_gibbs import Adaptive, Drawn, Pull, SplitGibbs, SplitState

IN_CHUNKS = 8000  # patches beyond which a sweep goes through them in chunks
ATOM_SWEEPS = 20  # over the patches that the atoms are learned from
# A strong coupling makes X smooth. The misfit then counts as noise, and the data lose their weight. The noise that is
# found without the prior, while the atoms are learned, bounds it.
NOISE_SLACK = 1.1

STATE_CLASSES = (SplitState, State, RingState, cusp.Cusp)


@dataclass(frozen=True)
class LowRank:
    """X = CP(lambda, A): draws factors, weights, noise and rank. atoms: a state to start from, see `learn_atoms`."""

    observation: Observation | Stream
    settings: Settings
    atoms: State | None = None

    @property
    def warm_up(self) -> int:
        """Sweeps before the prior's first call."""
        return self.settings.first_call

    def init(self, *, rng: Generator) -> tuple[State, None]:
        """The state before the first sweep; the sweep draws the first X."""
        state = self.atoms
        if state is None:
            state = initial(self.observation, self.settings.rank, self.settings.hyper, rng=rng)
        else:
            count = math.prod(self.observation.shape.right)
            state = replace(state, right=(state.right[0].new_zeros(count, state.rank),))
        return self._with_noise(state), None

    def step(self, state: State, pull: Pull | None, index: int, *, rng: Generator) -> tuple[State, Drawn]:
        """Adapt the rank if it is time for it, then sweep over the tensor model."""
        settings = self.settings
        if settings.adapts(index) and cusp.adaptation_due(index, rng=rng):
            floor, shrink = settings.adapt_floor or 0.0, settings.may_drop(index)
            state = cp.adapt(state, self.observation, settings.hyper, floor=floor, shrink=shrink, rng=rng)
        for sweeps in range(settings.sweeps):
            state, image = self._sweep(state, pull, first=index + sweeps == 0, rng=rng)
            state = self._with_noise(state)
        numbers = cp.effective_ranks(state, self.observation)
        return state, Drawn(image, state.noise_precision, numbers)

    def _sweep(self, state: State, pull: Pull | None, *, first: bool, rng: Generator) -> tuple[State, Tensor]:
        """Draw the tensor model given the prior's image; return it and X folded, (C, H, W)."""
        settings, observation = self.settings, self.observation
        coupling = None if pull is None else Coupling(observation.share * pull.rho**-2, pull.image)
        return sweep(
            state,
            observation,
            settings.hyper,
            coupling=coupling,
            block=settings.block,
            budget=settings.budget,
            shuffle=not first,
            rng=rng,
        )

    def _with_noise(self, state: State) -> State:
        """Hold the noise at its given level, if there is one, and below its bound."""
        given = self.settings.noise_std
        least = self.settings.noise_most**-2
        precision = max(state.noise_precision, least) if given is None else given**-2
        return replace(state, noise_precision=precision)

    def planned(self, *, burn_in: int) -> LowRank:
        """The same step for another burn-in."""
        return replace(self, settings=replace(self.settings, burn_in=burn_in))

    def without_warm_up(self) -> LowRank:
        """The same step with two steps before the prior's first call: they pay for starting up."""
        return replace(self, settings=replace(self.settings, warm_up=2))

    def with_less_memory(self) -> LowRank | None:
        """The same step with batches of half the size, which changes no draw."""
        budget = self.settings.budget // 2
        return (
            None
            if budget < SMALLEST_BUDGET
            else replace(self, settings=replace(self.settings, budget=budget))
        )


def build(
    problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch
) -> SplitGibbs[State] | SplitGibbs[RingState]:
    """The sampler of a problem. Where there are many patches, atoms are learned from some of them first."""
    rule = Adaptive(options.coupling, options.rho_min, options.rho_max)
    step = _low_rank(problem, options, watch)
    if isinstance(step, RingStep):
        return SplitGibbs(step, prior, rule, options.solver, options.calls)
    return SplitGibbs(step, prior, rule, options.solver, options.calls)


def _low_rank(problem: Problem, options: Options, watch: Watch) -> LowRank | RingStep:
    image, known = problem.y, problem.known
    channels, height, width = image.shape
    once, settings, atoms = options.patch_weights == "once", settings_of(options, problem.noise_std), None
    kind: Literal["patch", "reshape"] = "reshape" if options.tensorize == "reshape" else "patch"
    shape = tensorize((channels, height, width), kind, patch=options.patch_size, stride=options.stride)
    if options.decomposition != "cp":
        return ring_step(problem, shape, settings, once=once, closed=options.decomposition == "tr")
    if not isinstance(shape, Patches):
        return LowRank(observe(image, known, shape, once=once), settings)
    count = shape.right[0]
    if 0 < options.atom_patches < count:
        watch.note(f"learning atoms from {options.atom_patches} of {count} patches")
        rng = Seeds(options.seed, "").generator("atoms", problem.device)
        some = observe_some(image, known, shape, options.atom_patches, once=once, rng=rng)
        atoms = learn_atoms(some, settings, sweeps=ATOM_SWEEPS, rng=rng)
        most = NOISE_SLACK * atoms.noise_precision**-0.5
        settings = replace(settings, warm_up=1, noise_most=most)
    if count > IN_CHUNKS:
        chunks = observe_in_chunks(image, known, shape, once=once, budget=settings.budget)
        return LowRank(chunks, settings, atoms)
    return LowRank(observe(image, known, shape, once=once), settings, atoms)


def learn_atoms(some: Observation, settings: Settings, *, sweeps: int, rng: Generator) -> State:
    """Sweep over some of the patches, without a prior: left factors, weights and noise to start chains from."""
    state = initial(some, settings.rank, settings.hyper, rng=rng)
    for index in range(sweeps):
        state, _ = sweep(
            state,
            some,
            settings.hyper,
            block=settings.block,
            budget=settings.budget,
            shuffle=index > 0,
            rng=rng,
        )
        if settings.noise_std is not None:
            state = replace(state, noise_precision=settings.noise_std**-2)
    return state
