"""A straightforward sweep, as the paper writes it: every row of every factor by itself, every weight by itself.

Written to be compared with, not to be used: no Gram is shared between rows, modes or components.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from diffbcp_cli.lowrank import cusp
from diffbcp_cli.lowrank.cp import Hyper, State
from diffbcp_cli.lowrank.likelihood import Observation, draw_noise_precision


def paper_sweep(state: State, observation: Observation, hyper: Hyper, *, rng: Generator) -> State:
    """One sweep over the observed entries: rows, then weights, then noise and rank prior."""
    shape = (*observation.shape.left, *observation.shape.right)
    full = observation.observed.reshape(shape)
    index = full.nonzero()  # (n, N) the observed entries
    y = observation.values.reshape(shape)[tuple(index.T)]
    w = observation.weight.reshape(shape)[tuple(index.T)]
    factors = [f.clone() for f in (*state.left, *state.right)]
    weights, tau = state.weights.clone(), state.noise_precision
    for mode, factor in enumerate(factors):
        for i in range(len(factor)):
            rows = index[:, mode] == i
            factor[i] = _draw_row(factors, mode, index[rows], y[rows], w[rows], weights, tau, rng)
    weights = _draw_weights(factors, index, y, w, weights, state.cusp.shrinkage, tau, rng)
    products = _products(factors, index)
    residual = y - products @ weights
    square = float((w * residual.square()).sum(dtype=torch.float64))
    count = len(state.left)
    tau = draw_noise_precision(square, float(w.sum()), hyper.noise, rng=rng)
    return State(
        left=tuple(factors[:count]),
        right=tuple(factors[count:]),
        weights=weights,
        cusp=cusp.draw(weights, state.cusp, hyper.cusp, rng=rng),
        noise_precision=tau,
    )


def _products(factors: list[Tensor], index: Tensor, skip: int | None = None) -> Tensor:
    """The product of the factors' rows at each entry, (n, R)."""
    product = torch.ones(len(index), factors[0].shape[1])
    for mode, factor in enumerate(factors):
        if mode != skip:
            product = product * factor[index[:, mode]]
    return product


def _draw_row(
    factors: list[Tensor],
    mode: int,
    index: Tensor,
    y: Tensor,
    w: Tensor,
    weights: Tensor,
    tau: float,
    rng: Generator,
) -> Tensor:
    k = _products(factors, index, skip=mode) * weights
    precision = torch.eye(len(weights)) + tau * (k * w[:, None]).T @ k
    covariance = torch.linalg.inv(precision)
    mean = covariance @ (tau * (w * y) @ k)
    half = torch.linalg.cholesky((covariance + covariance.T) / 2 + 1e-6 * torch.eye(len(weights)))
    return mean + half @ torch.randn(len(weights), generator=rng)


def _draw_weights(
    factors: list[Tensor],
    index: Tensor,
    y: Tensor,
    w: Tensor,
    weights: Tensor,
    shrinkage: Tensor,
    tau: float,
    rng: Generator,
) -> Tensor:
    products = _products(factors, index)
    weights = weights.clone()
    for r in range(len(weights)):
        without = y - products @ weights + products[:, r] * weights[r]
        precision = 1 / shrinkage[r] + tau * (w * products[:, r].square()).sum()
        mean = tau * (w * without * products[:, r]).sum() / precision
        weights[r] = mean + torch.randn((), generator=rng) / precision.sqrt()
    return weights
