"""t-CTV: pictures whose gradients are low-rank tensors (Wang et al. 2023), with data held exactly or up to noise.

Assumes: a mask; `tctv` data without noise, `tctv-soft` Gaussian noise of known level. The borders are periodic.

Minimise (1/2) sum_a |D_a x|_TNN over the two directions a, where D_a is the circular forward difference and the
tensor nuclear norm sums the singular values of the slices after an orthonormal DCT over the colours, over sqrt(C).

`tctv` holds known entries at their values, noise and all, as published. `tctv-soft` adds (kappa / 2) |y - x|^2 over
the known entries instead, kappa = 1 / (STRENGTH noise_std sqrt(min(H, W))). Both are solved by ADMM in float64. The
objective has no scale of its own, so it is the same on [-1, 1] as on [0, 1].

Cost: up to 500 iterations with two singular value decompositions for each colour. No network.

Reference: Wang, Peng, Qin, Wang, Meng, Guaranteed Tensor Recovery Fused Low-rankness and Smoothness, IEEE
Transactions on Pattern Analysis and Machine Intelligence, 2023.

Ours differs: it stops where nothing changes by more than 1e-5, not 1e-8; `tctv-soft`, for noisy data with a mask, is
ours.

Chosen: STRENGTH, on the middle 128 x 128 of two photographs (guitar, nyc), noise 0.025, 70 % missing and strokes:
0.5 gives 26.93 dB, 1 gives 27.09, 2 gives 26.79, 3 gives 26.32. On two others (house, dog): 28.30, 28.47, 28.10,
27.54.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from .. import random
from ..operators.mask import where_float64
from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from .base import Info, Kind

STRENGTH = 1.0  # of the smoothing of noise
FIRST_MU, GROWTH, MOST_MU = 1e-4, 1.1, 1e10  # the weight of the constraints
TOLERANCE = 1e-5  # on [-1, 1]: where nothing changes by more, the path stands still
WARM_UP = 50  # iterations before that is asked
GRAM_ABOVE = (
    1e-4  # threshold over the largest singular value from which squared singular values are exact enough
)


@dataclass(frozen=True)
class TctvState:
    """Where the ADMM stands, float64, (C, H, W) unless said: X and its copy W, which fits the data.

    gradient, gradient_dual: (2, C, H, W) copies of D X, and their multipliers. dual: the multiplier of W = X. change:
    the largest change of the last iteration, None before it.
    """

    x: Tensor
    w: Tensor
    gradient: Tensor
    dual: Tensor
    gradient_dual: Tensor
    mu: float = FIRST_MU
    steps: int = 0
    change: float | None = None


STATE_CLASSES = (TctvState,)


def difference(x: Tensor) -> Tensor:
    """D x: circular forward differences down and across, (C, H, W) -> (2, C, H, W)."""
    return torch.stack([x.roll(-1, 1) - x, x.roll(-1, 2) - x])


def adjoint(z: Tensor) -> Tensor:
    """D' z, (2, C, H, W) -> (C, H, W)."""
    return z[0].roll(1, 1) - z[0] + z[1].roll(1, 2) - z[1]


def cosines(count: int, device: torch.device) -> Tensor:
    """The orthonormal DCT, (count, count)."""
    k = torch.arange(count, dtype=torch.float64, device=device)
    matrix = (math.pi / count * k[:, None] * (k + 0.5)).cos() * math.sqrt(2 / count)
    matrix[0] /= math.sqrt(2)
    return matrix


def shrink(slices: Tensor, threshold: float) -> Tensor:
    """Lower the singular values of every slice (..., H, W) by the threshold, to no less than zero."""
    if slices.shape[-2] < slices.shape[-1]:
        return shrink(slices.mT, threshold).mT
    squares, v = torch.linalg.eigh(slices.mT @ slices)
    values = squares.clamp_min(0).sqrt()
    if threshold >= GRAM_ABOVE * float(values.max()):
        kept = (1 - threshold / values.clamp_min(threshold)).clamp_min(0)
        lowered: Tensor = slices @ ((v * kept.unsqueeze(-2)) @ v.mT)
        return lowered
    u, values, vh = torch.linalg.svd(slices, full_matrices=False)
    shrunk: Tensor = (u * (values - threshold).clamp_min(0).unsqueeze(-2)) @ vh
    return shrunk


@dataclass(frozen=True)
class Tctv:
    """Iterates until nothing changes. kappa: the weight of the data, None if they are held exactly."""

    problem: Problem
    length: int
    kappa: float | None = None
    tolerance: float = TOLERANCE
    kind: Kind = "path"

    def init(self, *, rng: Generator) -> TctvState:
        """Noise where nothing is known."""
        y = self.problem.y.double()
        x = torch.where(self.problem.known, y, random.normal_like(y, rng=rng))
        gradient = difference(x)
        return TctvState(x, x, gradient, torch.zeros_like(x), torch.zeros_like(gradient))

    def step(self, state: TctvState, *, rng: Generator) -> tuple[TctvState, Info]:
        """One iteration; a path that has converged stands still."""
        if state.change is None or state.steps < WARM_UP or state.change >= self.tolerance:
            state = self._iterate(state)
        image = state.x.float()
        noise = None if self.kappa is None else self.problem.noise_std
        return state, Info(image, noise, numbers={"mu": state.mu, "change": state.change})

    def _iterate(self, state: TctvState) -> TctvState:
        """Update X, the copies of its gradients, W, and the multipliers."""
        mu, dual, gradient_dual = state.mu, state.dual, state.gradient_dual
        # X: (1 + D'D) X = W - dual / mu + D' (G - gradient_dual / mu), diagonal in Fourier space
        x = self._solve(state.w - dual / mu + adjoint(state.gradient - gradient_dual / mu))
        slope = difference(x)
        gradient = self._shrink(slope + gradient_dual / mu, 1 / (2 * mu))
        w = self._fit(x + dual / mu, mu)
        changes = (x - state.x, w - state.w, x - w)
        return TctvState(
            x,
            w,
            gradient,
            dual + mu * (x - w),
            gradient_dual + mu * (slope - gradient),
            min(GROWTH * mu, MOST_MU),
            state.steps + 1,
            max(float(change.abs().max()) for change in changes),
        )

    def _solve(self, b: Tensor) -> Tensor:
        """(1 + D'D)^-1 b."""
        height, width = b.shape[1:]
        rows, columns = (
            2 - 2 * (2 * math.pi * torch.arange(n, dtype=b.dtype, device=b.device) / n).cos()
            for n in (height, width)
        )
        eigenvalues = 1 + rows[:, None] + columns[: width // 2 + 1]
        solution: Tensor = torch.fft.irfft2(torch.fft.rfft2(b) / eigenvalues, s=(height, width))
        return solution

    def _shrink(self, gradient: Tensor, threshold: float) -> Tensor:
        """The proximal map of threshold |.|_TNN, for both directions at once."""
        dct = cosines(gradient.shape[1], gradient.device)
        slices = torch.einsum("kc,achw->akhw", dct, gradient)
        return torch.einsum("kc,akhw->achw", dct, shrink(slices, threshold / math.sqrt(len(dct))))

    def _fit(self, x: Tensor, mu: float) -> Tensor:
        """W: x where nothing is known; at the data, or between data and x, where something is."""
        y, known = self.problem.y.to(x.dtype), self.problem.known
        if self.kappa is None:
            return torch.where(known, y, x)
        return torch.where(known, (self.kappa * y + mu * x) / (self.kappa + mu), x)

    def planned(self, *, burn_in: int) -> Tctv:
        """The same method: only its last iteration counts."""
        return self

    def without_warm_up(self) -> Tctv:
        """The same method: every iteration costs about the same."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Tctv:
    """The published form, or the one for noisy data; on the host if the device has no float64."""
    problem = where_float64(problem)
    method = Tctv(problem, options.iterations)
    if options.method == "tctv":
        return method
    if problem.noise_std is None:
        raise ValueError("tctv-soft needs the noise level of the data")
    size = math.sqrt(min(problem.y.shape[1:]))
    return replace(method, kappa=1 / (STRENGTH * problem.noise_std * size))
