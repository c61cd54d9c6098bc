"""The image step of CP: the picture's patches are a CP tensor of unknown rank."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import torch
from torch import Generator, Tensor

from ..devices import is_out_of_memory, release_memory
from ..errors import MemoryLimitError
from ..lowrank import cp, cusp
from ..lowrank.cp import State, initial
from ..lowrank.cp_sweep import sweep
from ..lowrank.likelihood import Coupling, Observation, observe
from ..lowrank.stream import Stream, observe_in_chunks, observe_some
from ..lowrank.tensorize import Patches, Tensorization
from ..options import Options
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from .low_rank import BATCHES_IN_BUDGET, SMALLEST_BUDGET, Settings
from .split_gibbs import Drawn, Pull

T = TypeVar("T")
IN_CHUNKS = 8000  # patches beyond which a sweep goes through them in chunks
ATOM_SWEEPS = 20  # over the patches that the atoms are learned from
# A strong coupling makes X smooth. The misfit then counts as noise, and the data lose their weight. The noise that is
# found without the prior, while the atoms are learned, bounds it.
NOISE_SLACK = 1.1


@dataclass(frozen=True)
class LowRank:
    """X = CP(lambda, A): draws factors, weights, noise and rank.

    atoms: a state to start from, see `learn_atoms`. in_chunks: observes in chunks of so many bytes, to save memory.
    """

    observation: Observation | Stream
    settings: Settings
    atoms: State | None = None
    in_chunks: Callable[[int], Stream] | None = None

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
        coupling = None if pull is None else Coupling(pull.rho**-2, pull.image)
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
        """Hold the noise at its given level, if there is one."""
        given = self.settings.noise_std
        return state if given is None else replace(state, noise_precision=given**-2)

    def planned(self, *, burn_in: int) -> LowRank:
        """The same step for another burn-in."""
        return replace(self, settings=replace(self.settings, burn_in=burn_in))

    def without_warm_up(self) -> LowRank:
        """The same step with two steps before the prior's first call: they pay for starting up."""
        return replace(self, settings=replace(self.settings, warm_up=2))

    def with_less_memory(self) -> LowRank | None:
        """The same step with batches of half the size, which changes no draw; at last with the picture in chunks."""
        budget = self.settings.budget // 2
        if budget >= SMALLEST_BUDGET:
            return replace(self, settings=replace(self.settings, budget=budget))
        if self.in_chunks is None:
            return None
        device = self.observation.device
        chunks = _in_chunks_that_fit(self.in_chunks, BATCHES_IN_BUDGET * self.settings.budget, device)
        return replace(self, observation=chunks, in_chunks=None)


def cp_step(
    problem: Problem,
    shape: Tensorization,
    settings: Settings,
    options: Options,
    watch: Watch,
) -> LowRank:
    """The step of a problem, its picture laid out by `shape`.

    Where there are many patches, atoms are learned from some of them first.
    """
    image, known, once = problem.y, problem.known, options.patch_weights == "once"
    if not isinstance(shape, Patches):
        return LowRank(observe(image, known, shape, once=once), settings)
    count, atoms = shape.right[0], None
    if 0 < options.atom_patches < count:
        watch.note(f"learning atoms from {options.atom_patches} of {count} patches")
        rng = Seeds(options.seed, "").generator("atoms", problem.device)
        some = observe_some(image, known, shape, options.atom_patches, once=once, rng=rng)
        atoms = learn_atoms(some, settings, sweeps=ATOM_SWEEPS, rng=rng)
        most = NOISE_SLACK * atoms.noise_precision**-0.5
        noise = replace(settings.hyper.noise, least=most**-2)
        settings = replace(settings, warm_up=1, hyper=replace(settings.hyper, noise=noise))

    def in_chunks(budget: int) -> Stream:
        return observe_in_chunks(image, known, shape, once=once, budget=budget)

    if count <= IN_CHUNKS:
        whole = _if_it_fits(lambda: observe(image, known, shape, once=once))
        if whole is not None:
            return LowRank(whole, settings, atoms, in_chunks)
        watch.note("out of memory: the picture is observed in chunks")
    return LowRank(_in_chunks_that_fit(in_chunks, settings.budget, problem.device), settings, atoms)


def _if_it_fits(observe: Callable[[], T]) -> T | None:
    """What is observed, None if the memory runs out."""
    try:
        return observe()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    return None


def _in_chunks_that_fit(in_chunks: Callable[[int], Stream], budget: int, device: torch.device) -> Stream:
    """Observe in chunks of `budget` bytes, or of half as many, and so on."""
    while budget >= SMALLEST_BUDGET:
        found = _if_it_fits(partial(in_chunks, budget))
        if found is not None:
            return found
        release_memory(device)
        budget //= 2
    raise MemoryLimitError(
        "the photograph does not fit in the device's memory", hint="--device cpu, or a smaller --rank"
    )


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
