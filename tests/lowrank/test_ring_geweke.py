"""Geweke's joint test of the sweep over a train and a ring; planted mistakes must be found by it.

A right sampler fails one comparison with probability 1e-4 (`geweke.FALSE_ALARM`); the seeds are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import geweke
import numpy as np
import pytest
import rings
import tiny
import torch

from diffbcp_cli.lowrank import ring_draws, ring_sweep
from diffbcp_cli.lowrank.cusp import Cusp
from diffbcp_cli.lowrank.likelihood import Coupling
from diffbcp_cli.lowrank.ring import RingState, reconstruct_ring
from diffbcp_cli.lowrank.ring_sweep import sweep_ring

pytestmark = pytest.mark.statistical
HYPER = rings.ProperHyper()
PRIOR_DRAWS, CHAINS, STEPS = 20_000, 24, 16


@dataclass(frozen=True)
class RingCase:
    """A tiny tensor with entry weights, a mask and perhaps a target z; see `SweepCase` of the test of CP."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    ranks: tuple[int, ...]
    closed: bool
    rho: float | None = None
    block: int = 2

    def observation(self):
        return tiny.random_observation(self.left, self.right, seed=3, dtype=torch.float32)

    def spread(self):
        weight = self.observation().weight
        return torch.where(weight > 0, weight.clamp_min(1e-9).rsqrt(), torch.zeros_like(weight))

    def prior(self, rng):
        """Draws of the state from the prior, as many states with a first axis of draws, and their quantities."""
        observation = self.observation()
        counted = (observation.weight * observation.observed).double().numpy()
        shape = HYPER.noise.shape + 0.5 * (counted.sum() - (counted > 0).sum())
        bonds = [geweke.prior_draws(PRIOR_DRAWS, [], rank, HYPER, rng) for rank in self.ranks]
        ends = self.ranks if self.closed else (*self.ranks, 1)
        shapes = zip((ends[-1], *ends[:-1]), (*self.left, *self.right), ends, strict=True)
        found = {
            "cores": [rng.normal(size=(PRIOR_DRAWS, *one)) for one in shapes],
            "weights": [one.weights for one in bonds],
            "cusps": [(one.shrinkage, one.allocation, one.sticks) for one in bonds],
            "tau": rng.gamma(shape, size=PRIOR_DRAWS) / HYPER.noise.rate,
        }
        x = self.entries(found)
        spread = self.spread().numpy()
        y = x + spread * rng.normal(size=x.shape) / np.sqrt(found["tau"])[:, None, None]
        z = x + spread * rng.normal(size=x.shape) * (self.rho or 0.0)
        return found, self.quantities(found, y, z)

    def entries(self, found):
        subscripts = rings.naive(found["cores"], found["weights"], batch="z")
        x = np.einsum(subscripts, *found["cores"], *found["weights"], optimize=True)
        return x.reshape(len(x), int(np.prod(self.left)), -1)

    def quantities(self, found, y, z):
        observation, x = self.observation(), self.entries(found)
        weight, observed = observation.weight.numpy(), observation.observed.numpy()
        named = {"tau": found["tau"], "|X|^2": (x**2).sum((1, 2)), "x of one entry": x[:, 0, 0]}
        for n, (lam, (theta, zeta, nu)) in enumerate(zip(found["weights"], found["cusps"], strict=True)):
            for r in range(lam.shape[1]):
                named[f"|lambda {n} {r}|"] = np.abs(lam[:, r])
                named[f"theta {n} {r}"], named[f"zeta {n} {r}"] = theta[:, r], zeta[:, r]
                named[f"nu {n} {r}"] = nu[:, r]
                named[f"|G {n} {r}|^2"] = (found["cores"][n][..., r] ** 2).sum((1, 2))
        named["misfit"] = found["tau"] * (weight * observed * (y - x) ** 2).sum((1, 2))
        if self.rho is not None:
            named["pull"] = (weight * (z - x) ** 2).sum((1, 2))
        return named

    def state(self, found, i):
        return RingState(
            cores=tuple(torch.from_numpy(core[i]).float() for core in found["cores"]),
            weights=tuple(torch.from_numpy(lam[i]).float() for lam in found["weights"]),
            cusps=tuple(Cusp(*(torch.from_numpy(part[i]) for part in one)) for one in found["cusps"]),
            noise_precision=float(found["tau"][i]),
        )

    def chains(self, starts, generator):
        """New data given the state, then the sweep, in turn; name -> (K, N)."""
        observation, spread, states, data = self.observation(), self.spread(), [], []
        for state in starts:
            for _ in range(STEPS):
                x = reconstruct_ring(state, len(self.left))
                noise = torch.randn((2, *x.shape), generator=generator)
                y = x + spread * state.noise_precision**-0.5 * noise[0]
                z = x + spread * (self.rho or 0.0) * noise[1]
                coupling = None if self.rho is None else Coupling(self.rho**-2, z[None])
                seen = replace(observation, values=y * observation.observed)
                state, _ = sweep_ring(state, seen, HYPER, coupling=coupling, block=self.block, rng=generator)
                states.append(state)
                data.append(torch.stack([y, z]).double().numpy())
        y, z = np.stack(data, 1)
        return geweke.in_chains(self.quantities(collect(states), y, z), len(starts))


def collect(states):
    def stack(parts):
        return np.stack([part.double().numpy() for part in parts])

    bonds = range(len(states[0].weights))
    names = ("shrinkage", "allocation", "sticks")
    return {
        "cores": [stack([s.cores[n] for s in states]) for n in range(len(states[0].cores))],
        "weights": [stack([s.weights[n] for s in states]) for n in bonds],
        "cusps": [tuple(stack([getattr(s.cusps[n], name) for s in states]) for name in names) for n in bonds],
        "tau": np.array([s.noise_precision for s in states]),
    }


CASES = {
    "train, one core on the right": RingCase((2, 2), (4,), (2, 2), closed=False, rho=0.9),
    "ring": RingCase((1, 2), (2, 2), (2, 2, 1, 2), closed=True, rho=1.2),
}


@pytest.mark.parametrize("name", CASES)
def test_the_sweep_keeps_the_joint_distribution(name):
    case = CASES[name]
    found, prior = case.prior(np.random.default_rng(1))
    chains = case.chains([case.state(found, i) for i in range(CHAINS)], tiny.rng(1))
    name, z, threshold = geweke.worst(prior, chains)
    assert abs(z) < threshold, (name, z)


REAL = {"draw_linear": ring_draws.draw_linear, "draw_scale": ring_sweep.draw_scale, "outer": ring_sweep.outer}


def half_the_prior(seen, start, ridge, *rest):
    return REAL["draw_linear"](seen, start, ridge / 2, *rest)


def outer_without_the_split(state, left):
    first, second = REAL["outer"](state, left)
    return first / state.weights[left - 1].abs().clamp_min(1e-3), second


def gauge_that_forgets_the_weights(norm, length, weights, shrinkage, *, rng):
    return REAL["draw_scale"](norm, length, weights, torch.full_like(shrinkage, 1e9), rng=rng)


BUGS = {
    half_the_prior: (ring_draws, "draw_linear"),
    outer_without_the_split: (ring_sweep, "outer"),
    gauge_that_forgets_the_weights: (ring_sweep, "draw_scale"),
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_wrong_sweep_is_found_out(bug, monkeypatch):
    case = CASES["train, one core on the right"]
    found, prior = case.prior(np.random.default_rng(2))
    monkeypatch.setattr(*BUGS[bug], bug)
    chains = case.chains([case.state(found, i) for i in range(CHAINS)], tiny.rng(2))
    _, z, threshold = geweke.worst(prior, chains)
    assert abs(z) > threshold
