"""CP factors and weights drawn by perturb-and-solve, without forming Gram matrices.

To draw from N(Q^-1 b, Q^-1) with Q = I + L (sum_j m_j k_j k_j^T) L, add to b noise of covariance Q, which is
L sum_j sqrt(m_j) e_j k_j + e with standard normal e_j and e, and solve. A product with Q for ALL rows of a mode is
two matrix products around the mask, U V S each. Forming the Grams takes U V S^2 / 2, once for a group. So
conjugate gradients pay for large blocks (`is_cheaper`). The preconditioner replaces the mask by its mean in each
row: I + mean(m_i) L (K^T K) L, diagonal in one basis for all rows. The search starts from the present rows: a new
draw is about one posterior standard deviation away, which saves a fifth to a third of the iterations.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import double
from .algebra import contract, khatri_rao
from .solve import cholesky, conjugate_gradients

_EXPECTED = 10  # iterations on photographs, for the estimate of the cost


def is_cheaper(size: int, modes: int) -> bool:
    """Whether conjugate gradients take fewer operations than the dense Grams of a block of `size` components."""
    return modes * 2 * (_EXPECTED + 2) < (size + 1) / 2


def draw_modes(
    factors: list[Tensor],
    weights: Tensor,
    error: Tensor,
    q: Tensor,
    precision: Tensor,
    side: str,
    rng: Generator,
) -> list[Tensor]:
    """Draw the factors of a group one after the other, as `cp.draw_rows` does, given the other group's rows q (V, S).

    error: E (U, V), the weighted target less what other blocks explain. precision: m (U, V).
    """
    factors = list(factors)
    root = precision.sqrt()
    pulled = error @ q
    for mode, factor in enumerate(factors):
        noise = random.normal(tuple(precision.shape), rng=rng).to(q).mul_(root)
        linear = contract(pulled + noise @ q, factors, mode) * weights
        linear = linear + random.normal(tuple(linear.shape), rng=rng).to(q)
        inverse = _preconditioner(factors, mode, weights, q, precision)
        product = _product(factors, mode, weights, q, precision)
        what = f"mode {mode} of the {side} group"
        factors[mode] = conjugate_gradients(product, linear, inverse, factor, what=what)
    return factors


def draw_weights(
    factors: list[Tensor], error: Tensor, q: Tensor, precision: Tensor, shrinkage: Tensor, rng: Generator
) -> Tensor:
    """Draw lambda at once, as `cp.draw_weights` does, -> (S,)."""
    k, ridge = khatri_rao(factors), (1 / shrinkage).to(q)
    noise = random.normal(tuple(precision.shape), rng=rng).to(q).mul_(precision.sqrt())
    linear = (((error + noise) @ q) * k).sum(0) + ridge.sqrt() * random.normal((len(ridge),), rng=rng).to(q)
    rough = precision.mean() * (k.T @ k) * (q.T @ q) + torch.diag(ridge)
    half = cholesky(rough, "the weights")

    def product(x: Tensor) -> Tensor:
        entries = ((k * x) @ q.T).mul_(precision)
        return ((entries @ q) * k).sum(0, keepdim=True) + ridge * x

    def inverse(r: Tensor) -> Tensor:
        return torch.cholesky_solve(r.T, half).T

    start = inverse(linear[None])
    return conjugate_gradients(product, linear[None], inverse, start, what="the weights")[0]


def _product(
    factors: list[Tensor], mode: int, weights: Tensor, q: Tensor, precision: Tensor
) -> Callable[[Tensor], Tensor]:
    """The map x -> Q x for all rows x (I, S) of one mode: out to the entries, through the mask, and back."""

    def product(x: Tensor) -> Tensor:
        rows = khatri_rao([x * weights if n == mode else f for n, f in enumerate(factors)])
        entries = (rows @ q.T).mul_(precision)
        return contract(entries @ q, factors, mode) * weights + x

    return product


def _preconditioner(
    factors: list[Tensor], mode: int, weights: Tensor, q: Tensor, precision: Tensor
) -> Callable[[Tensor], Tensor]:
    """The map r -> P^-1 r with P_i = I + mean(m_i) G, G = L (Hadamard product of the other factors' Grams) L.

    The mean is over row i's own entries: a row of which nothing is known must not be scaled like the others.
    All rows share the eigenvectors V of G, so P_i^-1 = V (1 + mean(m_i) eigenvalues)^-1 V^T.
    """
    gram = q.T @ q
    for n, factor in enumerate(factors):
        if n != mode:
            gram = gram * (factor.T @ factor)
    values, vectors = torch.linalg.eigh(double(weights[:, None] * gram * weights))
    means = precision.mean(1).reshape([len(f) for f in factors]).movedim(mode, 0).flatten(1).mean(1)  # (I,)
    scale = 1 / (1 + double(means)[:, None] * values.clamp_min(0))  # (I, S)
    vectors, scale = vectors.to(q), scale.to(q)
    return lambda r: ((r @ vectors) * scale) @ vectors.T
