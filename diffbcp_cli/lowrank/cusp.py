"""The cumulative-shrinkage prior (CUSP) on the weights of a decomposition, and rank adaptation.

    lambda_r | theta_r ~ N(0, theta_r)
    theta_r | zeta_r   ~ InvGamma(alpha, beta) if zeta_r > r (the slab), else the constant spike_var (the spike)
    P(zeta_r = l)      = omega_l = nu_l prod_{m<l} (1 - nu_m),   nu_l ~ Beta(1, stick),   nu_R = 1

It knows nothing of the decomposition: CP has one such prior on its R weights, a tensor train one for each bond.
Everything here is float64 on the CPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import random


@dataclass(frozen=True)
class CuspPrior:
    """Constants of the prior."""

    slab_shape: float = 2.0  # theta_r ~ InvGamma(slab_shape, slab_rate) in the slab
    slab_rate: float = 2.0
    spike_var: float = 1e-3  # theta_r in the spike, a variance
    stick: float = 5.0  # nu_l ~ Beta(1, stick)
    shrinks: bool = True  # False: the variances stay where they start, and all components are in the slab


@dataclass(frozen=True)
class Cusp:
    """One draw of the prior's variables.

    shrinkage:   (R,) theta, the variance of each weight.
    allocation:  (R,) zeta, counted from 1: component r is in the slab when zeta_r > r.
    sticks:      (R,) nu.
    """

    shrinkage: Tensor
    allocation: Tensor
    sticks: Tensor

    @property
    def in_slab(self) -> Tensor:
        """(R,) which components the prior calls active. The last one never is once zeta has been drawn."""
        return self.allocation > torch.arange(1, len(self.allocation) + 1)

    def select(self, keep: Tensor) -> Cusp:
        """Keep some components (n,), by index, in order; their labels are renumbered for the new length."""
        position = torch.arange(1, len(keep) + 1)
        allocation = torch.where(self.in_slab[keep], torch.full_like(position, len(keep) + 1), position)
        return Cusp(self.shrinkage[keep], allocation, self.sticks[keep])

    def grow(self, prior: CuspPrior, *, rng: Generator) -> Cusp:
        """Add one component at the end, in the spike; the stick before it is drawn from the prior."""
        stick = random.beta(torch.ones(1), torch.full((1,), prior.stick), rng=rng)
        return Cusp(
            torch.cat([self.shrinkage, torch.tensor([prior.spike_var], dtype=torch.float64)]),
            torch.cat([self.allocation, torch.tensor([len(self.allocation) + 1])]),
            torch.cat([self.sticks[:-1], stick, torch.ones(1, dtype=torch.float64)]),
        )


def initial(rank: int, prior: CuspPrior) -> Cusp:
    """Start with every component in the slab, at variance 1 and the sticks' prior mean."""
    return Cusp(
        shrinkage=torch.ones(rank, dtype=torch.float64),
        allocation=torch.full((rank,), rank + 1, dtype=torch.long),
        sticks=torch.full((rank,), 1 / (1 + prior.stick), dtype=torch.float64),
    )


# --- the conditionals ------------------------------------------------------------------------------------


def draw(weights: Tensor, cusp: Cusp, prior: CuspPrior, *, rng: Generator) -> Cusp:
    """Draw labels, sticks and variances, in this order, given the weights (R,)."""
    if not prior.shrinks:
        return cusp
    weights = weights.cpu().double()
    allocation = draw_allocation(weights, cusp.sticks, prior, rng=rng)
    sticks = draw_sticks(allocation, prior, rng=rng)
    drawn = Cusp(cusp.shrinkage, allocation, sticks)
    return Cusp(draw_shrinkage(weights, drawn.in_slab, prior, rng=rng), allocation, sticks)


def draw_allocation(weights: Tensor, sticks: Tensor, prior: CuspPrior, *, rng: Generator) -> Tensor:
    """Eq. (9): draw zeta_r = h with weight omega_h N(lambda_r; 0, spike_var) if h <= r, else omega_h t(lambda_r).

    t is the slab with theta integrated out: Student's, 2 alpha degrees of freedom, squared scale beta/alpha.
    """
    rank = len(weights)
    log_omega = _log_stick_weights(sticks)
    spike = -0.5 * (weights.square() / prior.spike_var + math.log(2 * math.pi * prior.spike_var))
    slab = _log_student(weights, 2 * prior.slab_shape, prior.slab_rate / prior.slab_shape)
    label = torch.arange(rank)
    log_density = torch.where(label[None, :] <= label[:, None], spike[:, None], slab[:, None])
    return random.categorical(log_omega[None, :] + log_density, rng=rng) + 1


def _log_stick_weights(sticks: Tensor) -> Tensor:
    """log omega_l = log nu_l + sum_{m<l} log(1 - nu_m), with nu_R = 1."""
    log_left = torch.log1p(-sticks[:-1]).cumsum(0)
    before = torch.cat([torch.zeros(1, dtype=sticks.dtype), log_left])
    return before + torch.cat([sticks[:-1].log(), torch.zeros(1, dtype=sticks.dtype)])


def _log_student(x: Tensor, freedom: float, scale_square: float) -> Tensor:
    const = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)
    const -= 0.5 * math.log(freedom * math.pi * scale_square)
    return const - 0.5 * (freedom + 1) * torch.log1p(x.square() / (freedom * scale_square))


def draw_sticks(allocation: Tensor, prior: CuspPrior, *, rng: Generator) -> Tensor:
    """Eq. (10): draw nu_l ~ Beta(1 + #{zeta = l}, stick + #{zeta > l}); the last is 1."""
    rank = len(allocation)
    count = torch.bincount(allocation - 1, minlength=rank)[:rank].double()
    above = (rank - count.cumsum(0)).clamp_min(0)
    sticks = random.beta(1 + count, prior.stick + above, rng=rng).clamp(1e-12, 1 - 1e-12)
    sticks[-1] = 1.0
    return sticks


def draw_shrinkage(weights: Tensor, in_slab: Tensor, prior: CuspPrior, *, rng: Generator) -> Tensor:
    """Eq. (11): draw theta_r ~ InvGamma(alpha + 1/2, beta + lambda_r^2/2) in the slab, else set it to spike_var."""
    shape = torch.full_like(weights, prior.slab_shape + 0.5)
    slab = random.inverse_gamma(shape, prior.slab_rate + 0.5 * weights.square(), rng=rng)
    return torch.where(in_slab, slab, torch.full_like(slab, prior.spike_var))


# --- rank adaptation -------------------------------------------------------------------------------------


SPARES = 0.25  # inactive components that are kept, as a share of the active ones


@dataclass(frozen=True)
class RankChange:
    """What rank adaptation decides: which components (R,) to drop, or how many to add. Never both."""

    drop: Tensor
    grow: int


def adaptation_due(step: int, *, rng: Generator) -> bool:
    """Whether to adapt at this step: with probability exp(-1 - 0.005 step)."""
    return bool(random.uniform((), rng=rng) < math.exp(-1 - 0.005 * step))


def rank_change(cusp: Cusp, energy: Tensor, least: float) -> RankChange:
    """Alg. 2: decide what to do, with "inactive" meaning in the spike and of energy (R,) below `least`.

    As many inactive components as `SPARES` says stay, the strongest ones: a component needs some sweeps to find its
    place, and the rank grows by those that do. If there are fewer, new ones are added. The same number of active
    components is then at rest whether the rank was too large or too small. The paper keeps none and adds one at a
    time, and drops |lambda_r| < 1e-4 instead, but a spike of standard deviation 0.03 hardly ever gives that.
    """
    drop = ~cusp.in_slab & (energy < least)
    inactive = int(drop.sum())
    spares = math.ceil(SPARES * (len(energy) - inactive)) or 1
    strongest = torch.where(drop, energy, -math.inf).argsort(descending=True)
    drop[strongest[: min(spares, inactive)]] = False
    return RankChange(drop, grow=max(0, spares - inactive))
