"""The CP model: its state, its reconstruction, the conditionals of factors and weights, and its rank adaptation.

Symbols: w entry weights, o observed, k_j the product of the other factors' rows at entry j, c_j the product of
all rows, L = diag(lambda), m_j = w_j (tau o_j + rho^-2), and e_j the weighted target
w_j (tau o_j y_j + rho^-2 z_j) less what components outside the block explain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import fetch, has_float64, send
from . import cusp
from .algebra import khatri_rao
from .cusp import Cusp, CuspPrior
from .likelihood import NoisePrior, Observed
from .solve import draw_from_precision

EFFECTIVE = 1e-4  # |lambda_r| of a component that counts, in the paper


@dataclass(frozen=True)
class Hyper:
    """Constants of the prior. Factor entries are standard normal."""

    noise: NoisePrior = field(default_factory=NoisePrior)
    cusp: CuspPrior = field(default_factory=CuspPrior)


@dataclass(frozen=True)
class State:
    """One draw of everything but the image.

    left, right:      factors of the two groups of modes, (I_n, R) each.
    weights:          (R,) lambda.
    cusp:             labels, sticks and variances of the weights.
    noise_precision:  tau.
    """

    left: tuple[Tensor, ...]
    right: tuple[Tensor, ...]
    weights: Tensor
    cusp: Cusp
    noise_precision: float

    def __post_init__(self) -> None:
        """Refuse parts of different ranks: a checkpoint may hold anything."""
        if any(factor.shape[1:] != self.weights.shape for factor in (*self.left, *self.right)):
            raise ValueError("factors and weights do not fit")

    @property
    def rank(self) -> int:
        """How many components the state carries."""
        return len(self.weights)

    @property
    def in_slab(self) -> Tensor:
        """(R,) which components the prior calls active."""
        return self.cusp.in_slab

    def select(self, keep: Tensor) -> State:
        """Keep some components, in order; keep is a mask (R,) or an index (n,), on the host."""
        kept = keep.nonzero().flatten() if keep.dtype == torch.bool else keep
        index = send(kept, self.weights.device)
        return replace(
            self,
            left=tuple(f[:, index] for f in self.left),
            right=tuple(f[:, index] for f in self.right),
            weights=self.weights[index],
            cusp=self.cusp.select(kept),
        )


class Components(Protocol):
    """All components of a state, or some of them."""

    @property
    def left(self) -> Sequence[Tensor]:
        """Factors of the left group, (I_n, R) each."""

    @property
    def right(self) -> Sequence[Tensor]:
        """Factors of the right group."""

    @property
    def weights(self) -> Tensor:
        """(R,) lambda."""


def reconstruct(model: Components) -> Tensor:
    """Eq. (1): X = sum_r lambda_r a1_r o ... o aN_r, as a matrix (U, V)."""
    return (khatri_rao(model.left) * model.weights) @ khatri_rao(model.right).T


# --- where a chain starts --------------------------------------------------------------------------------


def initial(observation: Observed, rank: int, hyper: Hyper, *, rng: Generator) -> State:
    """Start the chain at X = 0: cosine factors on the left, lowest frequencies first, and hardly any weight.

    Only the constant component starts with a weight; the others grow as the data ask for them. With full weights
    from the start they alias: where whole rows are missing, fine waves fit the known rows as well as coarse waves do,
    and the chain needs long to forget it. A little noise makes chains with different seeds differ.
    """
    shape, device = observation.shape, observation.device
    tables = [cosines(size).to(device) for size in shape.left]
    picks = _lowest_frequencies(shape.left, rank)
    constant = torch.stack([pick == 0 for pick in picks]).all(0)
    left = [table[:, pick.to(device)] for table, pick in zip(tables, picks, strict=True)]
    return State(
        left=tuple(f + 0.1 * random.normal((len(f), rank), rng=rng) for f in left),
        right=tuple(
            random.normal((size, rank), rng=rng) * (1.0 if mode else 0.0)
            for mode, size in enumerate(shape.right)
        ),
        weights=torch.where(constant, 0.5, 3e-4).to(device),
        cusp=cusp.initial(rank, hyper.cusp),
        noise_precision=100.0,
    )


def cosines(size: int) -> Tensor:
    """The discrete cosine basis, one column each, mean square 1, (size, size)."""
    place = (torch.arange(size, dtype=torch.float64) + 0.5) * (torch.pi / size)
    table = torch.cos(place[:, None] * torch.arange(size)) * 2**0.5
    table[:, 0] = 1.0
    return table.float()


def _lowest_frequencies(sizes: tuple[int, ...], rank: int) -> list[Tensor]:
    """Choose `rank` products of cosines, the lowest first: their frequency in each mode, (R,) each.

    A step in frequency counts more in a short mode: colours vary less than places do.
    """
    grids = torch.meshgrid(*[torch.arange(size) for size in sizes], indexing="ij")
    cost = torch.zeros(sizes)
    for grid, size in zip(grids, sizes, strict=True):
        cost += grid * (max(sizes) / size) ** 0.5
    order = cost.flatten().argsort(stable=True)
    order = order.repeat(-(-rank // len(order)))[:rank]
    return [grid.flatten()[order] for grid in grids]


# --- the conditionals ------------------------------------------------------------------------------------


def draw_rows(
    gram: Tensor, linear: Tensor, noise: Tensor, which: Tensor | None = None, *, what: str
) -> Tensor:
    """Eq. (7): draw rows of one factor, a_i ~ N(Q^-1 b, Q^-1).

    Q = I + L (sum_j m_j k_j k_j^T) L, b = L sum_j e_j k_j.

    gram (n', S, S) is L (...) L, linear (n, S) is b, noise (n, S) standard normals, which (n,) as in
    `draw_from_precision` -> (n, S).
    """
    precision = gram + torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    return draw_from_precision(precision, linear, noise, which, what=what)


def draw_weights(gram: Tensor, linear: Tensor, shrinkage: Tensor, *, rng: Generator) -> Tensor:
    """Eq. (6): draw lambda, all of it at once, from N(Q^-1 b, Q^-1).

    Q = diag(1/theta) + sum_j m_j c_j c_j^T, b = sum_j e_j c_j. The paper draws one weight after the other, and
    writes theta where its own density needs 1/theta.

    gram (S, S), linear (S,), shrinkage (S,) theta -> (S,) float64, on the device if it has float64.
    """
    noise = random.normal(tuple(linear.shape), rng=rng)
    if not has_float64(gram.device):
        gram, linear, noise = fetch(gram, linear, noise)
    precision = gram.double() + torch.diag(1.0 / send(shrinkage, gram.device))
    batch = (part.double()[None] for part in (precision, linear, noise))
    return draw_from_precision(*batch, what="the weights")[0]


def square_norms(state: State) -> list[Tensor]:
    """|a_r|^2 of every factor, (R,) each: float64 if the device has it."""
    wide = torch.float64 if has_float64(state.weights.device) else torch.float32
    return [f.to(wide).square().sum(0) for f in (*state.left, *state.right)]


def draw_scales(
    state: State, weights: Tensor, norms: Sequence[Tensor], *, rng: Generator
) -> tuple[State, Tensor]:
    """Trade scale between each factor and the weights, X unchanged.

    weights (R,) and norms, as `square_norms`: those of the state, float64 on the host. Also return the new weights,
    as the state has them, but on the host.
    """
    factors, moves = [*state.left, *state.right], []
    for factor, norm in zip(factors, norms, strict=True):
        stretch = torch.ones_like(weights)
        if len(factor) > 1:
            stretch, weights = draw_scale(norm, len(factor), weights, state.cusp.shrinkage, rng=rng)
        moves.append(stretch)
    rounded = torch.stack([*moves, weights]).to(state.weights.dtype)
    there = send(rounded, state.weights.device)
    factors = [factor * move for factor, move in zip(factors, there[:-1], strict=True)]
    count = len(state.left)
    moved = replace(state, left=tuple(factors[:count]), right=tuple(factors[count:]), weights=there[-1])
    return moved, rounded[-1]


def draw_scale(
    norm: Tensor, length: int, weights: Tensor, shrinkage: Tensor, *, rng: Generator
) -> tuple[Tensor, Tensor]:
    """Move along a_r / c, c lambda_r, which leaves X alone: the slow direction of the plain Gibbs sweep.

    On that orbit the norm |a_r|^2 has density chi2 with I - 1 degrees of freedom times N(c lambda_r; 0, theta_r)
    (Haar measure dc / c, Jacobian c^(1 - I)). Propose the norm from chi2, accept with the ratio of the normals.

    norm: |a_r|^2 (S,) of a factor with length > 1 rows. weights, shrinkage: (S,). All float64 on the host -> by how
    much a_r is to be stretched, and the new weights.
    """
    new_norm = 2 * random.gamma(torch.full_like(norm, (length - 1) / 2), rng=rng)
    square = weights.square()
    new_square = square * norm / new_norm
    accept = random.uniform(tuple(norm.shape), rng=rng).log() < 0.5 * (square - new_square) / shrinkage
    stretch = torch.where(accept & (norm > 0), (new_norm / norm).sqrt(), 1.0)
    return stretch, weights / stretch


# --- rank adaptation -------------------------------------------------------------------------------------


def adapt(
    state: State, observation: Observed, hyper: Hyper, *, floor: float, shrink: bool = True, rng: Generator
) -> State:
    """Drop or add components as `cusp.rank_change` decides; only add them unless `shrink`.

    Beyond the rank that a matrix (U, V) can have, none is added.
    Adapt during burn-in only, so that the draws that are kept come from one fixed Markov kernel.
    """
    least = floor * noise_energy(state, observation)
    change = cusp.rank_change(state.cusp, energy(state, observation), least)
    room = min(math.prod(observation.shape.left), math.prod(observation.shape.right)) - state.rank
    for _ in range(min(change.grow, room)):
        state = grow(state, hyper, rng=rng)
    return state.select(~change.drop) if shrink and change.drop.any() else state


def noise_energy(state: State, observation: Observed) -> float:
    """The energy of a component that only fits noise: 2/tau for each of its numbers, over the share that is known.

    Half of it is the noise that it fits, half the spread of the draw. What fits the noise of the known entries has
    the same mean square at the missing ones.
    """
    shape = observation.shape
    freedom = sum(len(f) for f in (*state.left, *state.right))
    known = observation.count / (observation.mean_weight * math.prod(shape.left) * math.prod(shape.right))
    return 2 * freedom / (state.noise_precision * known)


def effective_ranks(state: State, observation: Observed) -> dict[str, float | None]:
    """How many components there are: all, in the slab, with |lambda_r| >= 1e-4, of more energy than noise has."""
    weights, *norms = fetch(state.weights, *square_norms(state))
    more = _energy(weights, norms, observation) >= noise_energy(state, observation)
    return {
        "rank": state.rank,
        "active_rank": int(state.in_slab.sum()),
        "effective_rank": int((weights.to(state.weights.dtype).abs() >= EFFECTIVE).sum()),
        "contributing_rank": int(more.sum()),
    }


def energy(state: State, observation: Observed) -> Tensor:
    """How much each component adds to |X|^2: its mean square over the entries times the pixel count, (R,) float64."""
    weights, *norms = fetch(state.weights, *square_norms(state))
    return _energy(weights, norms, observation)


def _energy(weights: Tensor, norms: Sequence[Tensor], observation: Observed) -> Tensor:
    total = weights.square()
    for norm in norms:
        total = total * norm
    return total * observation.mean_weight


def grow(state: State, hyper: Hyper, *, rng: Generator) -> State:
    """Add one component drawn from the prior, in the spike."""

    def widen(factor: Tensor) -> Tensor:
        return torch.cat([factor, random.normal((len(factor), 1), rng=rng)], 1)

    weight = random.normal((1,), rng=rng) * math.sqrt(hyper.cusp.spike_var)
    return replace(
        state,
        cusp=state.cusp.grow(hyper.cusp, rng=rng),
        left=tuple(widen(f) for f in state.left),
        right=tuple(widen(f) for f in state.right),
        weights=torch.cat([state.weights, weight]),
    )
