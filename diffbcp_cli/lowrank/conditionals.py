"""One function per conditional of the model, each with its equation.

Symbols: w entry weights, o observed, k_j the product of the other factors' rows at entry j, c_j the product of
all rows, L = diag(lambda), m_j = w_j (tau o_j + coupling) with coupling = rho^-2, and e_j the weighted target
w_j (tau o_j y_j + coupling z_j) less what components outside the block explain.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor

from .. import random
from .algebra import draw_from_precision
from .state import Hyper


def draw_rows(
    gram: Tensor, linear: Tensor, noise: Tensor, which: Tensor | None = None, *, what: str
) -> Tensor:
    """Draw rows of one factor: a_i ~ N(Q^-1 b, Q^-1), Q = I + L (sum_j m_j k_j k_j^T) L, b = L sum_j e_j k_j.

    gram (n', S, S) is L (...) L, linear (n, S) is b, noise (n, S) standard normals, which (n,) as in
    `draw_from_precision` -> (n, S).
    """
    precision = gram + torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    return draw_from_precision(precision, linear, noise, which, what=what)


def draw_weights(gram: Tensor, linear: Tensor, shrinkage: Tensor, *, rng: Generator) -> Tensor:
    """Draw lambda at once: N(Q^-1 b, Q^-1), Q = diag(1/theta) + sum_j m_j c_j c_j^T, b = sum_j e_j c_j.

    gram (S, S), linear (S,), shrinkage (S,) theta -> (S,) float64 on the CPU.
    """
    precision = gram.cpu().double() + torch.diag(1.0 / shrinkage)
    noise = random.normal(tuple(linear.shape), rng=rng).cpu().double()
    drawn = draw_from_precision(precision[None], linear.cpu().double()[None], noise[None], what="the weights")
    return drawn[0]


def draw_scale(
    factor: Tensor, weights: Tensor, shrinkage: Tensor, *, rng: Generator
) -> tuple[Tensor, Tensor]:
    """Move along a_r / c, c lambda_r, which leaves X alone: the slow direction of the plain Gibbs sweep.

    On that orbit the norm |a_r|^2 has density chi2 with I - 1 degrees of freedom times N(c lambda_r; 0, theta_r)
    (Haar measure dc / c, Jacobian c^(1 - I)). Propose the norm from chi2, accept with the ratio of the normals.

    factor (I, S) with I > 1, weights and shrinkage (S,) float64 on the CPU -> both, moved.
    """
    norm = factor.double().square().sum(0).cpu()
    new_norm = 2 * random.gamma(torch.full_like(norm, (len(factor) - 1) / 2), rng=rng)
    square = weights.square()
    new_square = square * norm / new_norm
    accept = random.uniform(tuple(norm.shape), rng=rng).log() < 0.5 * (square - new_square) / shrinkage
    stretch = torch.where(accept & (norm > 0), (new_norm / norm).sqrt(), 1.0)
    return factor * stretch.to(factor), weights / stretch


def draw_noise_precision(square: float, count: float, hyper: Hyper, *, rng: Generator) -> float:
    """Draw tau ~ Gamma(a0 + sum(w)/2, rate = k0 + sum(w r^2)/2) over the observed entries."""
    shape = torch.tensor(hyper.tau_shape + 0.5 * count, dtype=torch.float64)
    return float(random.gamma(shape, rng=rng)) / (hyper.tau_rate + 0.5 * square)


def draw_allocation(weights: Tensor, sticks: Tensor, hyper: Hyper, *, rng: Generator) -> Tensor:
    """Draw zeta_r = h with weight omega_h N(lambda_r; 0, spike) for h <= r, omega_h t(lambda_r) for h > r.

    t has 2 alpha degrees of freedom and squared scale beta/alpha: the slab's lambda with theta integrated out.
    """
    rank = len(weights)
    log_omega = _log_stick_weights(sticks)
    spike = -0.5 * (weights.square() / hyper.spike_var + math.log(2 * math.pi * hyper.spike_var))
    slab = _log_student(weights, 2 * hyper.slab_shape, hyper.slab_rate / hyper.slab_shape)
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


def draw_sticks(allocation: Tensor, hyper: Hyper, *, rng: Generator) -> Tensor:
    """Draw nu_l ~ Beta(1 + #{zeta = l}, stick + #{zeta > l}); the last is 1."""
    rank = len(allocation)
    count = torch.bincount(allocation - 1, minlength=rank)[:rank].double()
    above = (rank - count.cumsum(0)).clamp_min(0)
    sticks = random.beta(1 + count, hyper.stick + above, rng=rng).clamp(1e-12, 1 - 1e-12)
    sticks[-1] = 1.0
    return sticks


def draw_shrinkage(weights: Tensor, in_slab: Tensor, hyper: Hyper, *, rng: Generator) -> Tensor:
    """Draw theta_r ~ InvGamma(alpha + 1/2, beta + lambda_r^2/2) in the slab, else the constant of the spike."""
    shape = torch.full_like(weights, hyper.slab_shape + 0.5)
    slab = random.inverse_gamma(shape, hyper.slab_rate + 0.5 * weights.square(), rng=rng)
    return torch.where(in_slab, slab, torch.full_like(slab, hyper.spike_var))
