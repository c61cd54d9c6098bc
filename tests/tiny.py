"""Tiny tensors for tests of the tensor model, and its joint density written out from the model's page."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from diffbcp_cli.lowrank.cp import Hyper, State
from diffbcp_cli.lowrank.cusp import Cusp, CuspPrior
from diffbcp_cli.lowrank.grams import plan
from diffbcp_cli.lowrank.likelihood import NoisePrior, observe

PROPER = Hyper(
    noise=NoisePrior(shape=6.0, rate=5.0),
    cusp=CuspPrior(slab_shape=5.0, slab_rate=4.0, spike_var=0.05, stick=5.0),
)


@dataclass(frozen=True)
class Plain:
    """The tensorization of an image (1, U, V) that is the matrix of entries itself."""

    left: tuple[int, ...]
    right: tuple[int, ...]

    def unfold(self, image):
        return image[0]

    def fold(self, entries):
        return entries[None]


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, generator, dtype=torch.float64):
    """Standard normals, the same numbers whatever their type."""
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)


def make_observation(values, observed, weight, left, right, *, strategy=None):
    """An observation from its entries (U, V); strategy forces the way of both Grams."""
    plain = observe(values[None], observed.bool()[None], Plain(left, right))
    return replace(
        plain,
        values=values,
        weight=weight,
        pull=weight,
        left_plan=plan(weight, observed, strategy),
        right_plan=plan(weight.T.contiguous(), observed.T.contiguous(), strategy),
        count=float((weight * observed).sum(dtype=torch.float64)),
    )


def random_observation(left, right, *, seed=0, dtype=torch.float64, share=0.6, strategy=None):
    """Noise as values, a random mask, weights of 1/4, 1/2 or 1 and a few zeros."""
    generator, size = rng(seed), (math.prod(left), math.prod(right))
    values = normal(*size, generator=generator, dtype=dtype)
    observed = (torch.rand(size, generator=generator) < share).to(dtype)
    weight = torch.tensor([0.0, 0.25, 0.5, 1.0, 1.0], dtype=dtype)
    weight = weight[torch.randint(5, size, generator=generator)]
    return make_observation(values, observed * (weight > 0), weight, left, right, strategy=strategy)


def photograph(size, share=0.5, seed=0):
    """An image (C, H, W) of smooth waves with noise, and a mask."""
    generator = rng(seed)
    y, x = torch.meshgrid(torch.arange(size[1]) / 9, torch.arange(size[2]) / 7, indexing="ij")
    waves = torch.stack([torch.sin(x + c) * torch.cos(y - c) for c in range(size[0])])
    image = 0.5 * waves + 0.05 * torch.randn(size, generator=generator)
    return image, torch.rand(size, generator=generator) < share


def random_state(left, right, rank, *, seed=0, dtype=torch.float64, hyper=PROPER):
    """A state with every part away from zero and from its neighbours."""
    generator = rng(seed)
    allocation = torch.randint(1, rank + 1, (rank,), generator=generator)
    theta = 0.3 + torch.rand(rank, generator=generator, dtype=torch.float64)
    slab = allocation > torch.arange(1, rank + 1)
    sticks = 0.1 + 0.6 * torch.rand(rank, generator=generator, dtype=torch.float64)
    sticks[-1] = 1.0
    return State(
        left=tuple(normal(n, rank, generator=generator, dtype=dtype) for n in left),
        right=tuple(normal(n, rank, generator=generator, dtype=dtype) for n in right),
        weights=normal(rank, generator=generator, dtype=dtype),
        cusp=Cusp(torch.where(slab, theta, torch.full_like(theta, hyper.cusp.spike_var)), allocation, sticks),
        noise_precision=1.7,
    )


def tensors_of(*things):
    """All tensors held by dataclasses, tuples and plans, in order."""
    found = []
    for thing in things:
        if isinstance(thing, Tensor):
            found.append(thing)
        elif isinstance(thing, tuple | list):
            found += tensors_of(*thing)
        elif hasattr(thing, "__dataclass_fields__"):
            found += tensors_of(*(getattr(thing, field.name) for field in fields(thing)))
    return found


@dataclass(frozen=True)
class Model:
    """Everything the joint density speaks of; factors in the order of the modes, entries as (I1, ..., IN)."""

    factors: tuple[Tensor, ...]
    weights: Tensor
    shrinkage: Tensor
    allocation: Tensor
    sticks: Tensor
    noise_precision: Tensor
    values: Tensor
    observed: Tensor
    weight: Tensor
    pull: Tensor | None  # z
    rho: float
    hyper: Hyper


def model_of(state, observation, hyper, coupling=None):
    """The same numbers as a `Model`, in float64."""
    sizes = [len(f) for f in (*state.left, *state.right)]
    return Model(
        factors=tuple(f.double() for f in (*state.left, *state.right)),
        weights=state.weights.double(),
        shrinkage=state.cusp.shrinkage,
        allocation=state.cusp.allocation,
        sticks=state.cusp.sticks,
        noise_precision=torch.tensor(state.noise_precision, dtype=torch.float64),
        values=observation.values.double().reshape(sizes),
        observed=observation.observed.double().reshape(sizes),
        weight=observation.weight.double().reshape(sizes),
        pull=None if coupling is None else observation.shape.unfold(coupling.image).double().reshape(sizes),
        rho=math.inf if coupling is None else coupling.precision**-0.5,
        hyper=hyper,
    )


def log_joint(m):
    """The log of the joint density, up to a constant, line by line."""
    rank, h = len(m.weights), m.hyper.cusp
    x = torch.zeros_like(m.values)
    for r in range(rank):
        letters = "abcdefg"[: len(m.factors)]
        x = x + m.weights[r] * torch.einsum(f"{','.join(letters)}->{letters}", *[f[:, r] for f in m.factors])
    log_normal = 0.5 * m.noise_precision.log() - 0.5 * m.noise_precision * (m.values - x) ** 2
    total = (m.observed * m.weight * log_normal).sum()
    if m.pull is not None:
        total = total - (m.weight * (m.pull - x) ** 2).sum() / (2 * m.rho**2)
    for factor in m.factors:
        total = total - 0.5 * (factor**2).sum()
    left = torch.ones((), dtype=torch.float64)
    omega = []
    for nu in m.sticks:
        omega.append(nu * left)
        left = left * (1 - nu)
    for r in range(rank):
        theta = m.shrinkage[r]
        total = total - 0.5 * theta.log() - m.weights[r] ** 2 / (2 * theta)
        total = total + omega[int(m.allocation[r]) - 1].log()
        if int(m.allocation[r]) > r + 1:  # the slab: an inverse gamma; the spike is a constant
            total = total + h.slab_shape * math.log(h.slab_rate) - math.lgamma(h.slab_shape)
            total = total - (h.slab_shape + 1) * theta.log() - h.slab_rate / theta
        else:
            assert float(theta) == h.spike_var
    for nu in m.sticks[:-1]:
        total = total + (h.stick - 1) * (1 - nu).log()
    n = m.hyper.noise
    return total + (n.shape - 1) * m.noise_precision.log() - n.rate * m.noise_precision


def difference(model, other):
    """How much more likely the joint density makes one than the other, in logs."""
    return float(log_joint(model) - log_joint(other))
