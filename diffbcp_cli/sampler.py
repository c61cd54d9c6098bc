"""The split Gibbs sampler: the tensor model and the prior's image, drawn in turn.

`run` yields draws and never ends by itself; the loop belongs to the caller.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch
from torch import Generator, Tensor

from .bcp import rank
from .bcp.state import Hyper, Observation, State, image_of, initial
from .bcp.sweep import MEMORY_BUDGET, Coupling, sweep
from .coupling import CouplingRule
from .diffusion.prior import Prior
from .diffusion.reverse import Solver, sample


@dataclass(frozen=True)
class Settings:
    """What fixes the Markov kernel."""

    rank: int = 200
    block: int = 25
    burn_in: int = 40
    adapt_floor: float | None = None  # None: the rank stays as it is
    noise_std: float | None = None  # on [-1, 1]; None: inferred
    warm_up: int = 10  # sweeps before the prior's first call
    rule: CouplingRule = field(default_factory=CouplingRule)
    solver: Solver = "second-order"
    calls: int = 4
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


class SplitGibbs:
    """Draw X = CP(lambda, A), its noise and rank, and the prior's image Z, each given the rest."""

    def __init__(self, observation: Observation, prior: Prior | None, settings: Settings) -> None:
        self.observation = observation
        self.prior = prior
        self.settings = settings

    def init(self, *, rng: Generator) -> Chain:
        """Start a chain."""
        state = initial(self.observation, self.settings.rank, self.settings.hyper, rng=rng)
        return Chain(self._with_noise(state), None, None, 0)

    def step(self, chain: Chain, *, rng: Generator) -> tuple[Chain, Draw]:
        """Draw the prior's image given X, then the tensor model given both images."""
        settings, observation = self.settings, self.observation
        state, z, rho = chain.state, chain.prior_image, None
        coupling = None
        if self.prior is not None and chain.image is not None and chain.step >= settings.warm_up:
            rho = settings.rule.rho(state.noise_precision)
            z = self._draw_prior_image(chain.image, rho, rng)
            coupling = Coupling(observation.share * rho**-2, observation.shape.unfold(z))
        if self._adapts(chain.step) and rank.adaptation_due(chain.step, rng=rng):
            floor = settings.adapt_floor or 0.0
            state = rank.adapt(state, observation, settings.hyper, floor=floor, rng=rng)
        state, info = sweep(
            state,
            observation,
            settings.hyper,
            coupling=coupling,
            block=settings.block,
            budget=settings.budget,
            shuffle=chain.step > 0,
            rng=rng,
        )
        state = self._with_noise(state)
        image = image_of(info.entries, observation)
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

    def _draw_prior_image(self, image: Tensor, rho: float, rng: Generator) -> Tensor:
        """Draw Z | X: the reverse process from noise level rho, started at the fold average of X."""
        assert self.prior is not None
        draw = sample(
            self.prior, image[None], rho, solver=self.settings.solver, calls=self.settings.calls, rng=rng
        )
        return draw.sample[0]

    def _with_noise(self, state: State) -> State:
        """Hold the noise at its given level, if there is one."""
        given = self.settings.noise_std
        return state if given is None else replace(state, noise_precision=given**-2)


def make_generator(seed: int, device: torch.device) -> Generator:
    """Return the chain's generator."""
    return torch.Generator(device=device).manual_seed(seed)
