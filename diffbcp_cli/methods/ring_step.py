"""The image step of a tensor train or a tensor ring: what `LowRank` is for CP."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Generator

from ..devices import full_precision
from ..lowrank import cusp, ring, tr, tt
from ..lowrank.likelihood import Coupling, Observation, image_of, observe
from ..lowrank.ring import RingHyper, RingState
from ..lowrank.ring_sweep import adapt_ring, sweep_ring
from ..lowrank.tensorize import Tensorization
from ..operators.mask import where_float64
from ..problem import Problem
from .low_rank import SMALLEST_BUDGET, Settings
from .split_gibbs import Drawn, Pull


@dataclass(frozen=True)
class RingStep:
    """X = centre + a train or a ring: draws cores, weights, noise and the bonds' sizes.

    ranks: of the bonds, to start with. closed: whether it is a ring. centre: the mean of what is known. device: of
    the prior's images; the cores are on the host if it has no float64.
    """

    observation: Observation
    settings: Settings
    ranks: tuple[int, ...]
    closed: bool
    hyper: RingHyper
    centre: float
    device: torch.device

    @property
    def warm_up(self) -> int:
        """Sweeps before the prior's first call."""
        return self.settings.first_call

    def init(self, *, rng: Generator) -> tuple[RingState, None]:
        """The state before the first sweep; the sweep draws the first X."""
        initial = tr.initial if self.closed else tt.initial
        return self._with_noise(initial(self.observation, self.ranks, self.hyper, rng=rng)), None

    def step(
        self, state: RingState, pull: Pull | None, index: int, *, rng: Generator
    ) -> tuple[RingState, Drawn]:
        """Adapt the bonds if it is time for it, then sweep over the tensor model."""
        with full_precision(self.device):
            return self._step(state, pull, index, rng)

    def _step(
        self, state: RingState, pull: Pull | None, index: int, rng: Generator
    ) -> tuple[RingState, Drawn]:
        settings, observation = self.settings, self.observation
        if settings.adapts(index) and cusp.adaptation_due(index, rng=rng):
            floor, shrink = settings.adapt_floor or 0.0, settings.may_drop(index)
            state = adapt_ring(state, observation, self.hyper, floor=floor, shrink=shrink, rng=rng)
        coupling = None
        if pull is not None:
            image = pull.image.to(observation.device) - self.centre
            coupling = Coupling(pull.rho**-2, image)
        entries = None
        for _ in range(settings.sweeps):
            state, entries = sweep_ring(
                state,
                observation,
                self.hyper,
                coupling=coupling,
                block=settings.block,
                budget=settings.budget,
                rng=rng,
            )
            state = self._with_noise(state)
        assert entries is not None
        image = (image_of(entries, observation) + self.centre).to(self.device)
        return state, Drawn(image, state.noise_precision, ring.effective_ranks(state, observation))

    def _with_noise(self, state: RingState) -> RingState:
        """Hold the noise at its given level, if there is one."""
        given = self.settings.noise_std
        return state if given is None else replace(state, noise_precision=given**-2)

    def planned(self, *, burn_in: int) -> RingStep:
        """The same step for another burn-in."""
        return replace(self, settings=replace(self.settings, burn_in=burn_in))

    def without_warm_up(self) -> RingStep:
        """The same step with two steps before the prior's first call: they pay for starting up."""
        return replace(self, settings=replace(self.settings, warm_up=2))

    def with_less_memory(self) -> RingStep | None:
        """The same step with batches of half the size, which changes no draw."""
        budget = self.settings.budget // 2
        if budget < SMALLEST_BUDGET:
            return None
        return replace(self, settings=replace(self.settings, budget=budget))


def ring_step(
    problem: Problem, shape: Tensorization, settings: Settings, *, once: bool, closed: bool
) -> RingStep:
    """The step of a problem, its picture laid out by `shape`."""
    device, problem = problem.device, where_float64(problem)
    known = problem.known
    centre = float(problem.y[known].mean()) if bool(known.any()) else 0.0
    observation = observe(torch.where(known, problem.y - centre, 0.0), known, shape, once=once)
    sizes = (*shape.left, *shape.right)
    ranks = tr.ring_ranks(sizes, settings.rank) if closed else tt.train_ranks(sizes, settings.rank)
    hyper = ring.suited(observation, ranks, shrinks=settings.hyper.cusp.shrinks)
    return RingStep(observation, settings, ranks, closed, hyper, centre, device)
