"""Tiny tensor trains and rings: states away from zero, X and the joint density written out naively."""

from __future__ import annotations

from dataclasses import dataclass, field

import tiny
import torch

from diffbcp_cli.lowrank.cusp import Cusp, CuspPrior
from diffbcp_cli.lowrank.likelihood import NoisePrior
from diffbcp_cli.lowrank.ring import RingHyper, RingState

LETTERS = "abcdefg"


@dataclass(frozen=True)
class ProperHyper(RingHyper):
    """Constants with few heavy tails, for joint tests."""

    noise: NoisePrior = field(default_factory=lambda: NoisePrior(shape=12.0, rate=8.0))

    @property
    def cusp(self):
        return CuspPrior(slab_shape=5.0, slab_rate=4.0, spike_var=0.05, stick=2.0)


def random_ring(sizes, ranks, *, closed, seed=0, dtype=torch.float64):
    """A state with every part away from its neighbours; ranks of the bonds with weights."""
    generator, ends = tiny.rng(seed), (*ranks,) if closed else (*ranks, 1)
    cusps = []
    for rank in ranks:
        allocation = torch.randint(1, rank + 1, (rank,), generator=generator)
        theta = 0.3 + torch.rand(rank, generator=generator, dtype=torch.float64)
        sticks = 0.1 + 0.6 * torch.rand(rank, generator=generator, dtype=torch.float64)
        sticks[-1] = 1.0
        cusps.append(Cusp(theta, allocation, sticks))
    shapes = zip((ends[-1], *ends[:-1]), sizes, ends, strict=True)
    return RingState(
        cores=tuple(tiny.normal(*shape, generator=generator, dtype=dtype) for shape in shapes),
        weights=tuple(tiny.normal(rank, generator=generator, dtype=dtype) for rank in ranks),
        cusps=tuple(cusps),
        noise_precision=1.7,
    )


def naive(cores, weights, *, batch=""):
    """X of every mode, by one einsum: Tr(G1 L1 ... GN LN); batch: a letter in front of everything."""
    count = len(cores)
    bonds, modes = LETTERS[:count], LETTERS[:count].upper()
    words = [f"{batch}{bonds[n - 1]}{modes[n]}{bonds[n]}" for n in range(count)]
    words += [f"{batch}{bonds[n]}" for n in range(len(weights))]
    return ",".join(words) + f"->{batch}{modes}"


def entries_of(state):
    """X (I1, ..., IN)."""
    return torch.einsum(naive(state.cores, state.weights), *state.cores, *state.weights)


def log_of_entries(cores, weights, thetas, tau, observation, pull, rho):
    """The part of the log joint density that cores and weights are in."""
    sizes = [core.shape[1] for core in cores]
    x = torch.einsum(naive(cores, weights), *cores, *weights)
    y, o, w = (
        t.double().reshape(sizes) for t in (observation.values, observation.observed, observation.weight)
    )
    total = -0.5 * tau * (o * w * (y - x) ** 2).sum()
    if pull is not None:
        total = total - (w * (pull.reshape(sizes) - x) ** 2).sum() / (2 * rho**2)
    total = total - 0.5 * sum((core**2).sum() for core in cores)
    return total - 0.5 * sum((lam**2 / theta).sum() for lam, theta in zip(weights, thetas, strict=True))


def rel(one, two):
    return float((one - two).norm() / two.norm())


def low_rank_tensor(sizes, ranks, *, closed, seed):
    """A tensor (I1, ..., IN) of unit variance with these bonds, and noise of standard deviation 0.05."""
    generator = tiny.rng(seed)
    ends = (*ranks,) if closed else (*ranks, 1)
    shapes = zip((ends[-1], *ends[:-1]), sizes, ends, strict=True)
    cores = [torch.randn(shape, generator=generator) for shape in shapes]
    x = torch.einsum(naive(cores, ()), *cores)
    x = x / x.std()
    return x, x + 0.05 * torch.randn(x.shape, generator=generator)
