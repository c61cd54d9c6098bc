"""GLON-style: low tensor-train rank, a learned and a non-local denoiser, in one objective (after Zhao et al. 2022).

Assumes: a mask, Gaussian noise of known level, a prior.

Minimise over x, factors U_k W_k and pictures p, q: sum_k (a_k / 2) |X_k - U_k W_k|^2 + Phi(p) + Psi(q) + (1/2) |x -
p|^2 + (1/2) |x - q|^2 + (w / 2) |y - x|^2 over the known entries. X_1 (H, WC) and X_2 (HW, C) are the unfoldings of
the picture that a tensor train factorises; a_k is in proportion to their smaller side. Phi and Psi are known by
their denoisers alone: the prior, and non-local means or BM3D. Each block in turn is set to its best value given the
others and held by a proximal weight rho (proximal alternating minimisation). The level s_i of both denoisers falls
from 50/255 to 5/255. A denoiser of level s stands for a term of weight 1 / s^2, so beside weights of 1 the data
have w = s_i^2 / noise_std^2, and sum_k a_k = s_i^2 / s_1^2. Gaps are filled by Telea's method at the start.

Cost: one network call and one call of the non-local denoiser an iteration, 60 by default. BM3D takes some seconds a
call.

Reference: Zhao, Huang, Jiang and others, Tensor Completion via Complementary Global, Local, and Nonlocal Priors,
IEEE Transactions on Image Processing 31, 2022.

Ours differs: there is no public code, and we had no full text, so this is a reconstruction after the abstract, and
not to be compared with published figures. The published one takes data without noise and starts from zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from .. import random
from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..units import Floats, level_to_signed, level_to_unit, to_signed, to_unit
from ..watch import Watch
from . import classical
from .base import Info, Kind
from .path import known_entries, needed

FIRST_LEVEL, LAST_LEVEL = 50 / 255, 5 / 255  # of the denoisers, on [0, 1]
PROXIMAL = 1e-3  # rho
TOLERANCE = 1e-4  # relative change of x below which the path stands still
TELEA_RADIUS = 3.0

Denoiser = Callable[[Tensor, float], Tensor]
"""Removes noise of a level on [-1, 1] from a picture (C, H, W)."""


@dataclass(frozen=True)
class GlonState:
    """x, and what each denoiser made of it last, (C, H, W); left, right: U_k, W_k of both unfoldings."""

    x: Tensor
    denoised: tuple[Tensor, ...]
    left: tuple[Tensor, ...]
    right: tuple[Tensor, ...]
    step: int = 0
    change: float = math.inf


STATE_CLASSES = (GlonState,)


def unfold(x: Tensor) -> tuple[Tensor, Tensor]:
    """The picture (C, H, W) as matrices (H, WC) and (HW, C)."""
    pixels = x.permute(1, 2, 0)
    return pixels.flatten(1), pixels.flatten(0, 1)


def fold(matrix: Tensor, shape: torch.Size) -> Tensor:
    """The picture of one of its matrices."""
    channels, height, width = shape
    return matrix.reshape(height, width, channels).permute(2, 0, 1)


@dataclass(frozen=True)
class Glon:
    """Proximal alternating minimisation, one round a step. denoisers: as many as are wanted, none included.

    start: (C, H, W). levels: of the denoisers on [-1, 1], one a step. rank: of X_1 at most.
    """

    problem: Problem
    start: Tensor
    denoisers: tuple[Denoiser, ...]
    levels: tuple[float, ...]
    rank: int
    noise_std: float
    tolerance: float = TOLERANCE
    kind: Kind = "path"

    @property
    def length(self) -> int:
        """How many rounds there are at most."""
        return len(self.levels)

    def init(self, *, rng: Generator) -> GlonState:
        """Gaps are filled; the factors are normal."""
        left, right = [], []
        for matrix in unfold(self.start):
            height, width = matrix.shape
            rank = min(self.rank, height, width)
            left.append(random.normal((height, rank), rng=rng).to(matrix.device))
            right.append(random.normal((rank, width), rng=rng).to(matrix.device))
        return GlonState(self.start, (self.start,) * len(self.denoisers), tuple(left), tuple(right))

    @torch.no_grad()
    def step(self, state: GlonState, *, rng: Generator) -> tuple[GlonState, Info]:
        """One round; a path that has converged stands still."""
        if state.change >= self.tolerance and state.step < self.length:
            state = self._round(state, self.levels[state.step])
        return state, Info(state.x, self.noise_std, numbers={"change": state.change})

    def _round(self, state: GlonState, level: float) -> GlonState:
        """Update the factors, the denoised pictures, then x."""
        weights = self.weights(level)
        factors = [
            _factorise(matrix, u, w, weight)
            for matrix, u, w, weight in zip(unfold(state.x), state.left, state.right, weights, strict=True)
        ]
        denoised = tuple(
            denoise((state.x + PROXIMAL * before) / (1 + PROXIMAL), level)
            for denoise, before in zip(self.denoisers, state.denoised, strict=True)
        )
        # x: the mean of all that pulls at it
        pulled = sum(denoised, PROXIMAL * state.x)
        for (u, w), weight in zip(factors, weights, strict=True):
            pulled = pulled + weight * fold(u @ w, state.x.shape)
        total = PROXIMAL + sum(weights) + len(denoised)
        data = (level / self.noise_std) ** 2 * self.problem.known
        x = (pulled + data * self.problem.y) / (total + data)
        moved, size = (torch.linalg.vector_norm(one) for one in (x - state.x, state.x))
        change = float(moved / size.clamp_min(torch.finfo(x.dtype).tiny))
        left, right = zip(*factors, strict=True)
        return GlonState(x, denoised, left, right, state.step + 1, change)

    def weights(self, level: float) -> tuple[float, ...]:
        """a_k of both unfoldings."""
        sizes = [min(matrix.shape) for matrix in unfold(self.start)]
        total = (level / self.levels[0]) ** 2
        return tuple(total * size / sum(sizes) for size in sizes)

    def planned(self, *, burn_in: int) -> Glon:
        """The same method: only its last round counts."""
        return self

    def without_warm_up(self) -> Glon:
        """The same method: every round costs the same."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def _factorise(matrix: Tensor, u: Tensor, w: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    """The best U given W, and then W given U, of (a/2) |X - U W|^2, each held by rho."""
    held = PROXIMAL * torch.eye(u.shape[1], dtype=u.dtype, device=u.device)
    u = torch.linalg.solve(weight * w @ w.mT + held, weight * matrix @ w.mT + PROXIMAL * u, left=False)
    w = torch.linalg.solve(weight * u.mT @ u + held, weight * u.mT @ matrix + PROXIMAL * w)
    return u.contiguous(), w.contiguous()


def _non_local(denoise: Callable[[float, Floats], Floats], x: Tensor, level: float) -> Tensor:
    """A denoiser of pixels on [0, 1] as one of pictures on [-1, 1]."""
    return to_signed(denoise(level_to_unit(level), to_unit(x)), x.device)


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Glon:
    """The method for a problem whose noise level is known."""
    found, noise_std = needed(problem, prior, "GLON")
    known = known_entries(problem, "glon").permute(1, 2, 0).cpu().numpy()
    start = to_signed(classical.fill_telea(TELEA_RADIUS, to_unit(problem.y), known), problem.device)
    denoisers: list[Denoiser] = [lambda x, level: found.denoise(x[None], level)[0]]
    if options.glon_nonlocal != "none":
        one = classical.bm3d if options.glon_nonlocal == "bm3d" else classical.non_local_means
        denoisers.append(partial(_non_local, one))
    grid = torch.logspace(math.log10(FIRST_LEVEL), math.log10(LAST_LEVEL), options.iterations)
    levels = tuple(level_to_signed(float(level)) for level in grid)
    return Glon(problem, start, tuple(denoisers), levels, options.glon_rank, noise_std)
