"""The split Gibbs sampler: the tensor model and the prior's image, drawn in turn.

`run` yields draws and never ends by itself; the loop belongs to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TypedDict

import torch
from torch import Generator, Tensor

from ..lowrank import cp, cusp
from ..lowrank.cp import Hyper, State, initial
from ..lowrank.cp_sweep import MEMORY_BUDGET, sweep
from ..lowrank.likelihood import Coupling, Observation, image_of
from ..lowrank.stream import ImageCoupling, Stream, sweep_in_chunks
from ..priors.base import Prior
from ..priors.reverse import Solver, sample
from .coupling import CouplingRule


@dataclass(frozen=True)
class Settings:
    """What fixes the Markov kernel."""

    rank: int = 200
    block: int = 25
    sweeps: int = 1  # over the tensor model in each step
    burn_in: int = 40
    adapt_floor: float | None = None  # None: the rank stays as it is
    noise_std: float | None = None  # on [-1, 1]; None: inferred
    noise_most: float = math.inf  # the inferred noise stays below
    warm_up: int = 10  # sweeps before the prior's first call
    rule: CouplingRule = field(default_factory=CouplingRule)
    solver: Solver = "second-order"
    calls: int = 2
    hyper: Hyper = field(default_factory=Hyper)
    budget: int = MEMORY_BUDGET


@dataclass(frozen=True)
class Chain:
    """Where the chain stands: the tensor model, the prior's image (C, H, W) if it has been drawn, the step."""

    state: State
    prior_image: Tensor | None
    image: Tensor | None
    step: int


@dataclass(frozen=True)
class Draw:
    """One step of the chain, images (C, H, W) on [-1, 1], noise on the same scale."""

    step: int
    image: Tensor
    prior_image: Tensor | None
    noise_std: float
    rank: int
    active_rank: int
    rho: float | None
    change: float  # rms difference from the image one step before


class _Options(TypedDict):
    block: int
    budget: int
    shuffle: bool


class SplitGibbs:
    """Draw X = CP(lambda, A), its noise and rank, and the prior's image Z, each given the rest."""

    def __init__(
        self,
        observation: Observation | Stream,
        prior: Prior | None,
        settings: Settings,
        atoms: State | None = None,
    ) -> None:
        """atoms: a state of some of the patches, see `learn_atoms`; chains start from its left factors."""
        self.observation = observation
        self.prior = prior
        self.settings = settings
        self.atoms = atoms

    def init(self, *, rng: Generator) -> Chain:
        """Start a chain."""
        state = self.atoms
        if state is None:
            state = initial(self.observation, self.settings.rank, self.settings.hyper, rng=rng)
        else:
            count = math.prod(self.observation.shape.right)
            state = replace(state, right=(state.right[0].new_zeros(count, state.rank),))
        return Chain(self._with_noise(state), None, None, 0)

    def step(self, chain: Chain, *, rng: Generator) -> tuple[Chain, Draw]:
        """Draw the prior's image given X, then the tensor model given both images."""
        settings, observation = self.settings, self.observation
        state, z, rho = chain.state, chain.prior_image, None
        if self.prior is not None and chain.image is not None and chain.step >= settings.warm_up:
            rho = settings.rule.rho(state.noise_precision)
            z = self._draw_prior_image(chain.image, rho, rng)
        if self._adapts(chain.step) and cusp.adaptation_due(chain.step, rng=rng):
            floor = settings.adapt_floor or 0.0
            state = cp.adapt(state, observation, settings.hyper, floor=floor, rng=rng)
        for index in range(settings.sweeps):
            state, image = self._sweep(state, z, rho, first=chain.step + index == 0, rng=rng)
            state = self._with_noise(state)
        change = math.inf if chain.image is None else float((image - chain.image).square().mean().sqrt())
        draw = Draw(
            step=chain.step,
            image=image,
            prior_image=z,
            noise_std=state.noise_precision**-0.5,
            rank=state.rank,
            active_rank=int(state.in_slab.sum()),
            rho=rho,
            change=change,
        )
        return Chain(state, z, image, chain.step + 1), draw

    def run(self, chain: Chain | None = None, *, rng: Generator) -> Iterator[tuple[Chain, Draw]]:
        """Yield (chain, draw) for ever, from the start or from a chain."""
        chain = chain if chain is not None else self.init(rng=rng)
        while True:
            chain, draw = self.step(chain, rng=rng)
            yield chain, draw

    def _adapts(self, step: int) -> bool:
        """Rank adaptation waits for the second half of burn-in: before, components are still growing."""
        settings = self.settings
        return settings.adapt_floor is not None and settings.burn_in // 2 <= step < settings.burn_in

    def _sweep(
        self, state: State, z: Tensor | None, rho: float | None, *, first: bool, rng: Generator
    ) -> tuple[State, Tensor]:
        """Draw the tensor model given the prior's image; return it and X folded, (C, H, W)."""
        settings, observation = self.settings, self.observation
        options = _Options(block=settings.block, budget=settings.budget, shuffle=not first)
        if z is not None and rho is not None:
            pull = observation.share * rho**-2
        else:
            z, pull = None, 0.0
        if isinstance(observation, Stream):
            whole = None if z is None else ImageCoupling(pull, z)
            return sweep_in_chunks(state, observation, settings.hyper, coupling=whole, rng=rng, **options)
        coupling = None if z is None else Coupling(pull, observation.shape.unfold(z))
        state, info = sweep(state, observation, settings.hyper, coupling=coupling, rng=rng, **options)
        return state, image_of(info.entries, observation)

    def _draw_prior_image(self, image: Tensor, rho: float, rng: Generator) -> Tensor:
        """Draw Z | X: the reverse process from noise level rho, started at the fold average of X."""
        assert self.prior is not None
        draw = sample(
            self.prior, image[None], rho, solver=self.settings.solver, calls=self.settings.calls, rng=rng
        )
        return draw.sample[0]

    def _with_noise(self, state: State) -> State:
        """Hold the noise at its given level, if there is one, and below its limit."""
        given = self.settings.noise_std
        least = self.settings.noise_most**-2
        return replace(
            state, noise_precision=max(state.noise_precision, least) if given is None else given**-2
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


def make_generator(seed: int, device: torch.device) -> Generator:
    """Return the chain's generator."""
    return torch.Generator(device=device).manual_seed(seed)
