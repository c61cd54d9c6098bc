"""The CP sweep on a tiny tensor with a known joint distribution, and mistakes to plant in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import geweke
import numpy as np
import tiny
import torch

from diffbcp_cli import random
from diffbcp_cli.lowrank import cp, cp_blocks, cusp, likelihood
from diffbcp_cli.lowrank.cp import reconstruct
from diffbcp_cli.lowrank.cp_sweep import sweep
from diffbcp_cli.lowrank.likelihood import Coupling


@dataclass(frozen=True)
class SweepCase:
    """A tiny tensor with entry weights, a mask, and perhaps a target z for every entry.

    Data: y_j ~ N(x_j, 1/(tau w_j)) at observed entries. The model's N(x_j, 1/tau)^{w_j} is that density times
    tau^{(w_j - 1)/2}, so tau's marginal is a gamma of shape a0 + sum_obs (w_j - 1)/2. With a target,
    z_j ~ N(x_j, rho^2 / w_j): the coupling with a fixed rho is a second observation of all entries.
    """

    left: tuple[int, ...]
    right: tuple[int, ...]
    block: int
    rho: float | None = None
    rank: int = 3
    strategy: str | None = None

    def observation(self):
        return tiny.random_observation(
            self.left, self.right, seed=3, dtype=torch.float32, strategy=self.strategy
        )

    def prior(self, rng):
        """Marginal-conditional draws of the state, and then of the data."""
        observation = self.observation()
        counted = (observation.weight * observation.observed).double().numpy()
        shape = geweke.HYPER.noise.shape + 0.5 * (counted.sum() - (counted > 0).sum())
        draws = geweke.prior_draws(
            geweke.PRIOR_DRAWS, [*self.left, *self.right], self.rank, geweke.HYPER, rng, tau_shape=shape
        )
        x = draws.entries(len(self.left))
        spread = self.spread(observation.weight).numpy()
        y = x + spread * rng.normal(size=x.shape) / np.sqrt(draws.noise_precision)[:, None, None]
        z = x + spread * rng.normal(size=x.shape) * (self.rho or 0.0)
        return draws, self.quantities(draws, y, z)

    @staticmethod
    def spread(weight):
        return torch.where(weight > 0, weight.clamp_min(1e-9).rsqrt(), torch.zeros_like(weight))

    def quantities(self, draws, y, z):
        """Of the state, and of how it fits its data."""
        observation, x = self.observation(), draws.entries(len(self.left))
        weight, observed = observation.weight.numpy(), observation.observed.numpy()
        found = geweke.quantities(draws, x)
        found["misfit"] = draws.noise_precision * (weight * observed * (y - x) ** 2).sum((1, 2))
        if self.rho is not None:
            found["pull"] = (weight * (z - x) ** 2).sum((1, 2))
        return found

    def chains(self, starts, steps, generator):
        """Successive-conditional draws: new data given the state, then the sweep; name -> (K, N)."""
        observation = self.observation()
        spread = self.spread(observation.weight)
        states, data = [], []
        for start in starts:
            state = start
            for _ in range(steps):
                x = reconstruct(state)
                noise = torch.randn((2, *x.shape), generator=generator)
                y = x + spread * state.noise_precision**-0.5 * noise[0]
                z = x + spread * (self.rho or 0.0) * noise[1]
                coupling = None if self.rho is None else Coupling(self.rho**-2, z[None])
                seen = replace(observation, values=y * observation.observed)
                state, _ = sweep(
                    state, seen, geweke.HYPER, coupling=coupling, block=self.block, rng=generator
                )
                states.append(state)
                data.append(torch.stack([y, z]).double().numpy())
        y, z = np.stack(data, 1)
        return geweke.in_chains(self.quantities(geweke.collect(states), y, z), len(starts))


REAL = {
    name: getattr(module, name)
    for module in (cp, cp_blocks, cusp, likelihood)
    for name in vars(module)
    if name.startswith(("draw_", "_draw_modes"))
}


def weights_with_theta_for_its_inverse(gram, linear, shrinkage, *, rng):
    return REAL["draw_weights"](gram, linear, 1 / shrinkage, rng=rng)


def noise_without_its_half(square, count, prior, *, rng):
    return REAL["draw_noise_precision"](square, 2 * count, prior, rng=rng)


def scale_with_a_degree_of_freedom_too_many(norm, length, weights, shrinkage, *, rng):
    return REAL["draw_scale"](norm, length + 1, weights, shrinkage, rng=rng)


def scale_that_forgets_the_weights(norm, length, weights, shrinkage, *, rng):
    return REAL["draw_scale"](norm, length, weights, torch.full_like(shrinkage, 1e9), rng=rng)


def spike_with_its_variance_as_std(weights, sticks, prior, *, rng):
    return REAL["draw_allocation"](weights, sticks, replace(prior, spike_var=prior.spike_var**2), rng=rng)


def labels_of_the_neighbour(weights, sticks, prior, *, rng):
    """Each label is drawn from the weight of the component before."""
    shifted = torch.cat([weights[1:], weights[:1]])
    drawn = REAL["draw_allocation"](shifted, sticks, prior, rng=rng)
    return torch.cat([drawn[-1:], drawn[:-1]])


def sticks_that_count_their_own_label_as_above(allocation, prior, *, rng):
    labels = torch.arange(1, len(allocation) + 1)
    count = (allocation[None] == labels[:, None]).sum(1).double()
    above = (allocation[None] >= labels[:, None]).sum(1).double()
    sticks = random.beta(1 + count, prior.stick + above, rng=rng)
    sticks[-1] = 1.0
    return sticks


def variances_without_their_half(weights, in_slab, prior, *, rng):
    less = replace(prior, slab_shape=prior.slab_shape - 0.5)
    return REAL["draw_shrinkage"](weights, in_slab, less, rng=rng)


def rows_without_their_prior(gram, linear, noise, which=None, *, what):
    return REAL["draw_rows"](gram - 0.5 * torch.eye(gram.shape[-1]), linear, noise, which, what=what)


def rows_without_lambda(factors, weights, *rest):
    return REAL["_draw_modes"](factors, torch.ones_like(weights), *rest)


BUGS = {
    weights_with_theta_for_its_inverse: (cp, "draw_weights"),
    noise_without_its_half: (likelihood, "draw_noise_precision"),
    scale_with_a_degree_of_freedom_too_many: (cp, "draw_scale"),
    scale_that_forgets_the_weights: (cp, "draw_scale"),
    spike_with_its_variance_as_std: (cusp, "draw_allocation"),
    labels_of_the_neighbour: (cusp, "draw_allocation"),
    sticks_that_count_their_own_label_as_above: (cusp, "draw_sticks"),
    variances_without_their_half: (cusp, "draw_shrinkage"),
    rows_without_their_prior: (cp, "draw_rows"),
    rows_without_lambda: (cp_blocks, "_draw_modes"),
}
