"""Tensor rings with a weight on every bond: the state, its reconstruction, its scale moves and rank adaptation.

    x_j = Tr( G1[j1] L1 G2[j2] L2 ... GN[jN] LN ),   Gn[i] (R_{n-1}, R_n),   Ln = diag(lambda_n)

A tensor train (`tt`) is a ring whose last bond has size 1 and no weight; in a true ring (`tr`) it joins core N and
core 1. Entries of the cores are standard normal, and each bond has a cumulative-shrinkage prior of its own on its
weights, as CP has one. The modes are split in two groups, as everywhere: the bond between them is the split, the last
one closes the ring. A group's cores, with the weights inside it, make rows (n, s, e): s and e are the bonds at its
start and its end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import fetch
from . import cusp
from .cp import EFFECTIVE
from .cusp import Cusp, CuspPrior
from .likelihood import NoisePrior, Observation

SPIKE = 1e-2  # variance of the spike, as a share of that of the slab


@dataclass(frozen=True)
class RingHyper:
    """Constants of the prior. scale: the mean square of a weight in the slab. shrinks: as in `CuspPrior`."""

    scale: float = 1.0
    shrinks: bool = True
    noise: NoisePrior = field(default_factory=NoisePrior)

    @property
    def cusp(self) -> CuspPrior:
        """The prior of the weights of a bond."""
        return CuspPrior(slab_rate=2.0 * self.scale, spike_var=SPIKE * self.scale, shrinks=self.shrinks)


@dataclass(frozen=True)
class RingState:
    """One draw of everything but the image.

    cores: (R_{n-1}, I_n, R_n) each. weights: lambda_n (R_n,) of every bond that has some: N - 1 of a train, N of a
    ring. cusps: labels, sticks and variances of those. noise_precision: tau.
    """

    cores: tuple[Tensor, ...]
    weights: tuple[Tensor, ...]
    cusps: tuple[Cusp, ...]
    noise_precision: float

    def __post_init__(self) -> None:
        """Refuse parts that do not fit: a checkpoint may hold anything."""
        ends = [core.shape[2] for core in self.cores]
        starts = [core.shape[0] for core in (*self.cores[1:], self.cores[0])]
        if ends != starts or [len(w) for w in self.weights] != ends[: len(self.weights)]:
            raise ValueError("cores and weights do not fit")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The sizes of the bonds that have weights."""
        return tuple(len(w) for w in self.weights)

    @property
    def closing(self) -> Tensor:
        """The weights of the bond that closes the ring; a single one for a train."""
        whole = len(self.weights) == len(self.cores)
        return self.weights[-1] if whole else self.cores[0].new_ones(1)

    def side(self, first: int, last: int) -> Side:
        """The cores first .. last - 1, with the weights between them."""
        return Side(self.cores[first:last], self.weights[first : last - 1])

    def sides(self, left: int) -> tuple[Side, Side]:
        """The two groups, the left one of `left` modes."""
        return self.side(0, left), self.side(left, len(self.cores))


@dataclass(frozen=True)
class Side:
    """Some neighbouring cores and the weights of the bonds between them."""

    cores: Sequence[Tensor]
    weights: Sequence[Tensor]

    def rows(self) -> Tensor:
        """The product of the cores for every combination of their modes, last mode fastest: (n, s, e)."""
        found = self.cores[0].movedim(1, 0)
        for weight, core in zip(self.weights, self.cores[1:], strict=True):
            found = torch.einsum("jsp,piq->jisq", found * weight, core).flatten(0, 1)
        return found

    def before(self, n: int) -> Tensor:
        """The rows of the cores before core n, with the weights of the bond that leads to it: (j, s, p)."""
        if n == 0:
            return _eye(self.cores[0].shape[0], self.cores[0])
        return Side(self.cores[:n], self.weights[: n - 1]).rows() * self.weights[n - 1]

    def after(self, n: int) -> Tensor:
        """The rows of the cores after core n, with the weights of the bond from it: (k, q, e)."""
        if n == len(self.cores) - 1:
            return _eye(self.cores[-1].shape[2], self.cores[-1])
        return Side(self.cores[n + 1 :], self.weights[n + 1 :]).rows() * self.weights[n][:, None]


def _eye(size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=like.dtype, device=like.device)[None]


def outer(state: RingState, left: int) -> tuple[Tensor, Tensor]:
    """What each group sees of the other: rows with the weights of the split and the closing bond.

    (V, s, e) for the left group, whose start is the closing bond, and (U, s, e) for the right one, whose start is
    the split.
    """
    one, other = state.sides(left)
    split, closing = state.weights[left - 1], state.closing
    return (other.rows() * split[:, None] * closing).mT, (one.rows() * closing[:, None] * split).mT


def reconstruct_ring(state: RingState, left: int) -> Tensor:
    """X as a matrix (U, V), with `left` modes in the left group."""
    rows, (q, _) = state.sides(left)[0].rows(), outer(state, left)
    return rows.flatten(1) @ q.flatten(1).T


# --- where a chain starts --------------------------------------------------------------------------------


def suited(observation: Observation, ranks: Sequence[int], *, shrinks: bool = True) -> RingHyper:
    """The constants with which X has the variance of the data, if the weighted bonds have these sizes.

    CP's constants presume weights of about 1; where they are smaller, slab and spike would be one and the same.
    """
    known = observation.observed > 0
    variance = float(observation.values[known].square().mean()) if bool(known.any()) else 1.0
    return RingHyper((max(variance, 1e-6) / math.prod(ranks)) ** (1 / len(ranks)), shrinks)


def start(
    observation: Observation, ends: Sequence[int], hyper: RingHyper, *, weighted: int, rng: Generator
) -> RingState:
    """A state with the bonds `ends`, one after each core; the first `weighted` of them have weights."""
    sizes, like = (*observation.shape.left, *observation.shape.right), observation.values
    cores = [
        random.normal((before, size, after), rng=rng).to(like)
        for before, size, after in zip([ends[-1], *ends[:-1]], sizes, ends, strict=True)
    ]
    cusps = [cusp.initial(rank, hyper.cusp) for rank in ends[:weighted]]
    return RingState(
        cores=tuple(cores),
        weights=tuple(like.new_full((rank,), hyper.scale**0.5) for rank in ends[:weighted]),
        cusps=tuple(replace(one, shrinkage=one.shrinkage * hyper.scale) for one in cusps),
        noise_precision=100.0,
    )


# --- rank adaptation -------------------------------------------------------------------------------------


def bond_energy(state: RingState, bond: int, observation: Observation) -> Tensor:
    """How much each component of a bond adds to |X|^2, counted as by `cp.energy`, (R,) float64, on the device."""
    left, split = len(observation.shape.left), state.weights[len(observation.shape.left) - 1]
    one, other = state.sides(left)
    if bond == left - 1 or bond == len(state.cores) - 1:
        rows = one.rows(), other.rows().mT  # (U, s, e) and (V, s, e): s closes the ring, e is the split
        rest = state.closing if bond == left - 1 else split
        if bond != left - 1:
            rows = rows[0].mT, rows[1].mT
        first, second = (torch.einsum("nsr,ntr->rst", row.double(), row.double()) for row in rows)
        total = torch.einsum("rst,s,t->r", first * second, rest.double(), rest.double())
    else:
        inner = bond if bond < left else bond - left
        side, q = (one, outer(state, left)[0]) if bond < left else (other, outer(state, left)[1])
        before = Side(side.cores[: inner + 1], side.weights[:inner]).rows().double()
        after = Side(side.cores[inner + 1 :], side.weights[inner + 1 :]).rows().double()
        seen = torch.einsum("vse,vtf->setf", q.double(), q.double())
        first = torch.einsum("jsr,jtr->rst", before, before)
        second = torch.einsum("kre,krf->ref", after, after)
        total = torch.einsum("rst,setf,ref->r", first, seen, second)
    return total * state.weights[bond].double().square() * observation.mean_weight


def noise_energy(state: RingState, bond: int, observation: Observation) -> float:
    """The energy of a component of a bond that only fits noise, as `cp.noise_energy`."""
    before, after = state.cores[bond], state.cores[(bond + 1) % len(state.cores)]
    freedom = before[..., 0].numel() + after[0].numel()
    known = observation.count / (observation.mean_weight * observation.values.numel())
    return 2 * freedom / (state.noise_precision * known)


def effective_ranks(state: RingState, observation: Observation) -> dict[str, float | None]:
    """Sizes of all bonds together, as `cp.effective_ranks` counts them."""
    bonds = range(len(state.weights))
    more = [bond_energy(state, n, observation) >= noise_energy(state, n, observation) for n in bonds]
    counts = [torch.stack([one.sum() for one in more]).sum()]
    counts += [(torch.cat(state.weights).abs() >= EFFECTIVE).sum()]
    contributing, effective = fetch(*counts)
    return {
        "rank": sum(state.ranks),
        "active_rank": sum(int(one.in_slab.sum()) for one in state.cusps),
        "effective_rank": int(effective),
        "contributing_rank": int(contributing),
    }


def square_norms(state: RingState) -> list[Tensor]:
    """|G_n[p, :, q]|^2 of every core, (R_{n-1}, R_n) each, float64."""
    return [core.double().square().sum(1) for core in state.cores]


def select_bond(state: RingState, bond: int, keep: Tensor) -> RingState:
    """Keep some components (n,) of a bond, by index."""
    after = (bond + 1) % len(state.cores)
    cores = list(state.cores)
    index = keep.to(cores[0].device)
    cores[bond] = cores[bond][..., index]
    cores[after] = cores[after][index]
    return replace(
        state,
        cores=tuple(cores),
        weights=_put(state.weights, bond, state.weights[bond][index]),
        cusps=_put(state.cusps, bond, state.cusps[bond].select(keep)),
    )


def widen_bond(
    state: RingState, bond: int, slices: tuple[Tensor, Tensor], weight: Tensor, cusp: Cusp
) -> RingState:
    """Add a component to a bond: its slices (R_{n-1}, I_n, 1) and (1, I_{n+1}, R_{n+1}), its weight, its prior."""
    after = (bond + 1) % len(state.cores)
    cores = list(state.cores)
    cores[bond] = torch.cat([cores[bond], slices[0]], 2)
    cores[after] = torch.cat([cores[after], slices[1]], 0)
    weights = torch.cat([state.weights[bond], weight])
    return replace(
        state,
        cores=tuple(cores),
        weights=_put(state.weights, bond, weights),
        cusps=_put(state.cusps, bond, cusp),
    )


def _put(values: tuple, place: int, value: object) -> tuple:  # type: ignore[type-arg]
    return (*values[:place], value, *values[place + 1 :])


def most(state: RingState, bond: int) -> int:
    """The size beyond which a bond gains nothing: no more components than its neighbours have numbers for."""
    before, after = state.cores[bond], state.cores[(bond + 1) % len(state.cores)]
    return min(math.prod(before.shape[:2]), math.prod(after.shape[1:]))
