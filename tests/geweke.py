"""Geweke's joint distribution test: prior and data simulated at once, and the same by the sampler's moves.

Draws of the parameters come from the prior itself, and from a chain that draws the parameters given data and
then new data given the parameters, in turn. If the sampler is right, both have the same distribution. Every
quantity is replaced by its rank among the prior's draws, so that heavy tails do no harm; the mean of the rank
and of its squared distance from 1/2 are compared, with the chain's effective sample size in the error.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import numpy as np
import torch
from scipy import stats

from diffbcp_cli.lowrank.cp import Hyper, State
from diffbcp_cli.lowrank.cusp import Cusp, CuspPrior
from diffbcp_cli.lowrank.likelihood import NoisePrior
from diffbcp_cli.run.diagnostics import effective_sample_size

FALSE_ALARM = 1e-4  # of one whole comparison, all its quantities together
HYPER = Hyper(
    noise=NoisePrior(shape=12.0, rate=8.0),
    cusp=CuspPrior(slab_shape=5.0, slab_rate=4.0, spike_var=0.05, stick=2.0),
)
PRIOR_DRAWS = 60_000
CHAINS, STEPS = 32, 30  # chains that start at draws from the prior


@dataclass(frozen=True)
class Draws:
    """Many draws of the model's parts: factors [(n, I, R), ...], the others (n, R) and (n,)."""

    factors: list
    weights: np.ndarray
    shrinkage: np.ndarray
    allocation: np.ndarray
    sticks: np.ndarray
    noise_precision: np.ndarray

    def entries(self, left):
        """X (n, U, V), with `left` modes in the left group."""
        rows = [self.factors[0], self.factors[left]]
        for side, group in enumerate((self.factors[1:left], self.factors[left + 1 :])):
            for factor in group:
                product = rows[side][:, :, None, :] * factor[:, None, :, :]
                rows[side] = product.reshape(len(factor), -1, factor.shape[2])
        return np.einsum("nur,nr,nvr->nuv", rows[0], self.weights, rows[1], optimize=True)

    def take(self, keep):
        return Draws([f[keep] for f in self.factors], *(getattr(self, name)[keep] for name in PARTS))

    def state(self, i, left):
        """One draw as a state of the sampler."""
        factors = [torch.from_numpy(f[i]).float() for f in self.factors]
        return State(
            left=tuple(factors[:left]),
            right=tuple(factors[left:]),
            weights=torch.from_numpy(self.weights[i]).float(),
            cusp=Cusp(*(torch.from_numpy(getattr(self, name)[i]) for name in CUSP)),
            noise_precision=float(self.noise_precision[i]),
        )


CUSP = ("shrinkage", "allocation", "sticks")
PARTS = ("weights", *CUSP, "noise_precision")


def collect(states):
    """The states of a chain as draws."""
    modes = range(len(states[0].left) + len(states[0].right))
    factors = [np.stack([(*s.left, *s.right)[mode].double().numpy() for s in states]) for mode in modes]
    holder = dict.fromkeys(CUSP, "cusp.")
    parts = [attrgetter(holder.get(name, "") + name) for name in PARTS]
    return Draws(factors, *(np.stack([np.asarray(part(s)) for s in states]) for part in parts))


def prior_draws(count, sizes, rank, hyper, rng, *, tau_shape=None):
    """Draw everything but the data from the prior, straight from its definition."""
    sticks = rng.beta(1.0, hyper.cusp.stick, (count, rank))
    sticks[:, -1] = 1.0
    omega = sticks * np.cumprod(np.concatenate([np.ones((count, 1)), 1 - sticks[:, :-1]], 1), 1)
    edges = np.cumsum(omega, 1)[:, None, :-1]  # (n, 1, R - 1)
    allocation = 1 + (rng.random((count, rank, 1)) > edges).sum(2)
    slab = hyper.cusp.slab_rate / rng.gamma(hyper.cusp.slab_shape, size=(count, rank))
    shrinkage = np.where(allocation > np.arange(1, rank + 1), slab, hyper.cusp.spike_var)
    return Draws(
        factors=[rng.normal(size=(count, size, rank)) for size in sizes],
        weights=rng.normal(size=(count, rank)) * np.sqrt(shrinkage),
        shrinkage=shrinkage,
        allocation=allocation,
        sticks=sticks,
        noise_precision=rng.gamma(tau_shape or hyper.noise.shape, size=count) / hyper.noise.rate,
    )


def quantities(draws, entries):
    """What is compared: every part of the state, and moments of X (n, U, V), by name -> (n,)."""
    found = {"tau": draws.noise_precision}
    for r in range(draws.weights.shape[1]):
        found[f"|lambda {r}|"] = np.abs(draws.weights[:, r])
        found[f"theta {r}"] = draws.shrinkage[:, r]
        found[f"zeta {r}"] = draws.allocation[:, r]
        found[f"nu {r}"] = draws.sticks[:, r]
        found[f"slab {r}"] = draws.allocation[:, r] > r + 1
        found[f"lambda {r} / sqrt theta"] = np.abs(draws.weights[:, r]) / np.sqrt(draws.shrinkage[:, r])
        for mode, factor in enumerate(draws.factors):
            found[f"|a {mode} {r}|^2"] = (factor[:, :, r] ** 2).sum(1)
    found["|X|^2"] = (entries**2).sum((1, 2))
    found["x of one entry"] = entries[:, 0, 0]
    found["tau |X|^2"] = draws.noise_precision * found["|X|^2"]
    return found


def compare(prior, chains):
    """z of each statistic, the |z| that a right sampler rarely passes, and the effective sample sizes.

    prior: name -> (n,). chains: name -> (K, N), K independent chains that start at draws from the prior; the
    sample size counts their disagreement, so that slow quantities are not taken for precise ones. (For
    autoregressions of any memory, 30 chains of 40 draws have |z| > 3.5 no more often than normals do.)
    """
    names, scores, expected = [], [], []
    for name, values in prior.items():
        order = np.sort(values)

        def rank_of(x, order=order):
            low, high = np.searchsorted(order, x, "left"), np.searchsorted(order, x, "right")
            return (low + high) / (2 * len(order))

        exact, found = rank_of(values), rank_of(chains[name])
        for kind, transform in (("place", lambda u: u), ("spread", lambda u: (u - 0.5) ** 2)):
            if np.ptp(transform(exact)) > 0.01:
                names.append(f"{kind} of {name}")
                scores.append(transform(found))
                expected.append(transform(exact))
    scores, expected = np.stack(scores, -1), np.stack(expected, -1)
    total = scores.shape[0] * scores.shape[1]
    worth = np.minimum(effective_sample_size(scores, split=False), total)
    error = np.sqrt(expected.var(0) * (1 / worth + 1 / len(expected)))
    z = (scores.mean((0, 1)) - expected.mean(0)) / error
    threshold = stats.norm.isf(FALSE_ALARM / (2 * len(z)))
    return dict(zip(names, z.tolist(), strict=True)), float(threshold), worth


def worst(prior, chains):
    """(name, z, threshold) of the statistic that is furthest off."""
    z, threshold, _ = compare(prior, chains)
    name = max(z, key=lambda key: abs(z[key]))
    return name, z[name], threshold


def in_chains(quantities, count):
    """The draws of `count` chains, one after the other, as name -> (K, N)."""
    return {name: values.reshape(count, -1) for name, values in quantities.items()}


def found(case, draws, prior, left, generator, *, at_a_time=8):
    """Run chains until the comparison finds something; return what, or None after as many as a right one gets."""
    parts = []
    for first in range(0, CHAINS, at_a_time):
        starts = [draws.state(i, left) for i in range(first, first + at_a_time)]
        parts.append(case.chains(starts, STEPS, generator))
        together = {name: np.concatenate([p[name] for p in parts]) for name in prior}
        name, z, threshold = worst(prior, together)
        if abs(z) > threshold:
            return name
    return None
