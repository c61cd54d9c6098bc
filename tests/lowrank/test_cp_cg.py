"""CP draws by conjugate gradients against their exact mean and covariance."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tiny
import torch
from scipy import stats

from diffbcp_cli.jobs.session import restore
from diffbcp_cli.lowrank import cp_cg as cg
from diffbcp_cli.lowrank.algebra import contract, khatri_rao
from diffbcp_cli.lowrank.cp import reconstruct
from diffbcp_cli.lowrank.cp_sweep import sweep
from diffbcp_cli.lowrank.likelihood import Coupling
from diffbcp_cli.options import check

LEFT, RIGHT, SIZE = (4, 3), (5, 2, 3), 4
DRAWS = 2000
FALSE_ALARM = 1e-4


@pytest.fixture
def block():
    """Factors, weights, E and m of one block, with a mask and a pull on every entry."""
    state = tiny.random_state(LEFT, RIGHT, SIZE, seed=3)
    generator = tiny.rng(4)
    shape = (math.prod(LEFT), math.prod(RIGHT))
    mask = (torch.rand(shape, generator=generator) < 0.4).double()
    precision = 3.0 * mask + 0.2
    return state, torch.randn(shape, generator=generator, dtype=torch.float64), precision


def exact_rows(factors, mode, weights, error, q, precision):
    """Mean and covariance of every row of a mode, from the Gram written out."""
    k = khatri_rao(factors)
    others = khatri_rao([torch.ones_like(f) if n == mode else f for n, f in enumerate(factors)])
    assert k.shape == others.shape
    linear = contract(error @ q, factors, mode) * weights
    index = torch.arange(len(k)).reshape([len(f) for f in factors]).movedim(mode, 0).flatten(1)
    means, covariances = [], []
    for row, members in enumerate(index):
        gram = torch.eye(SIZE, dtype=torch.float64)
        for u in members.tolist():
            rows = others[u] * q * weights  # (V, S) k_j L
            gram += (precision[u, :, None] * rows).T @ rows
        covariance = torch.linalg.inv(gram)
        covariances.append(covariance)
        means.append(covariance @ linear[row])
    return torch.stack(means), torch.stack(covariances)


def worst(draws, mean, covariance):
    """The largest |z| of the means and of the products of two coordinates, and the |z| that is rarely passed.

    draws (n, I, S): whitened with the exact mean and covariance, they must be standard normal.
    """
    half = torch.linalg.cholesky(covariance)
    white = torch.linalg.solve_triangular(half, (draws - mean).unsqueeze(-1), upper=False).squeeze(-1)
    z_mean = white.mean(0) * math.sqrt(len(draws))
    product = white[..., :, None] * white[..., None, :]
    eye = torch.eye(white.shape[-1], dtype=torch.float64)
    z_square = (product.mean(0) - eye) / ((1 + eye).sqrt() / math.sqrt(len(draws)))
    count = z_mean.numel() + z_square.numel()
    return max(z_mean.abs().max(), z_square.abs().max()), stats.norm.isf(FALSE_ALARM / (2 * count))


@pytest.mark.statistical
@pytest.mark.parametrize("side", ["left", "right"])
def test_rows_by_conjugate_gradients_have_the_exact_mean_and_covariance(block, side):
    state, error, precision = block
    factors, q = list(state.left), khatri_rao(state.right)
    if side == "right":
        factors, q, error, precision = list(state.right), khatri_rao(state.left), error.T, precision.T
    generator = tiny.rng(1)
    arguments = (state.weights, error, q, precision)
    drawn = [cg.draw_modes(factors, *arguments, side, generator) for _ in range(DRAWS)]
    mean, covariance = exact_rows(
        factors, 0, *arguments
    )  # the first mode is drawn given the factors as they are
    z, limit = worst(torch.stack([d[0] for d in drawn]), mean, covariance)
    assert z < limit


@pytest.mark.statistical
def test_weights_by_conjugate_gradients_have_the_exact_mean_and_covariance(block):
    state, error, precision = block
    k, q = khatri_rao(state.left), khatri_rao(state.right)
    c = (k[:, None, :] * q[None, :, :]).flatten(0, 1)  # (U V, S)
    gram = torch.diag(1 / state.cusp.shrinkage) + (precision.flatten()[:, None] * c).T @ c
    covariance = torch.linalg.inv(gram)
    mean = covariance @ (error.flatten() @ c)
    generator = tiny.rng(2)
    drawn = [
        cg.draw_weights(list(state.left), error, q, precision, state.cusp.shrinkage, generator)
        for _ in range(DRAWS)
    ]
    z, limit = worst(torch.stack(drawn)[:, None], mean[None], covariance[None])
    assert z < limit


def test_a_reshape_of_which_a_band_of_rows_is_missing_is_drawn():
    """A row of which nothing is known has Q = I, the others a large Q: each needs a scale of its own."""
    down, across = np.mgrid[:128, :128] / 128
    channels = [np.sin(9 * across + 3 * down), np.cos(35 * down * across), np.sign(across - down)]
    pixels = (0.5 + 0.4 * np.stack(channels, -1)).astype(np.float32)
    observed = np.ones(pixels.shape, bool)
    observed[32:44] = False
    options = {"tensorize": "reshape", "iterations": 3, "burn_in": 1, "rank": 150, "block": 150}
    outcome = restore(pixels, observed, check({**options, "prior": "none"}), prior=None)
    assert np.isfinite(outcome.mean).all()


def test_large_blocks_of_a_reshape_use_it_and_small_ones_do_not(monkeypatch):
    used = []
    real = cg.draw_modes

    def watched(factors, weights, *rest):
        used.append(len(weights))
        return real(factors, weights, *rest)

    monkeypatch.setattr(cg, "draw_modes", watched)
    state = tiny.random_state((4, 5), (5, 4, 3), 200, dtype=torch.float32)
    observation = tiny.random_observation((4, 5), (5, 4, 3), dtype=torch.float32)
    z = torch.zeros_like(observation.values)[None]
    for block in (25, 200):
        new, _ = sweep(
            state, observation, tiny.PROPER, coupling=Coupling(0.5, z), block=block, rng=tiny.rng()
        )
        assert torch.isfinite(reconstruct(new)).all()
        assert new.weights.dtype == state.weights.dtype
    assert used == [200, 200]


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_the_tolerance_leaves_is_small_beside_the_spread_of_a_draw(side):
    """The same perturbed systems, solved to the tolerance and exactly, differ by little of a posterior std."""
    state = tiny.random_state((6, 5), (8, 6), 40, seed=5)
    generator = tiny.rng(6)
    precision = 400.0 * (torch.rand(30, 48, generator=generator) < 0.15).double() + 8.0
    error = 20 * torch.randn(30, 48, generator=generator, dtype=torch.float64)
    factors, q = list(state.left), khatri_rao(state.right)
    if side == "right":
        factors, q, error, precision = list(state.right), khatri_rao(state.left), error.T, precision.T
    drawn = cg.draw_modes(factors, state.weights, error, q, precision, side, tiny.rng(7))[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cg, "conjugate_gradients", _exactly)
        exact = cg.draw_modes(factors, state.weights, error, q, precision, side, tiny.rng(7))[0]
    product = cg._product(factors, 0, state.weights, q, precision)
    std = _inverse(product, drawn).diagonal(dim1=-2, dim2=-1).sqrt()
    off = ((drawn - exact) / std).abs()
    assert 0 < off.max() < 0.01


def _inverse(product, like):
    """Q^-1 of every row (n, S, S), from products with unit vectors."""
    rows, size = like.shape
    units = torch.eye(size, dtype=like.dtype)
    columns = [product(unit.expand(rows, -1)) for unit in units]
    return torch.linalg.inv(torch.stack(columns, -1))


def _exactly(product, linear, inverse, start, *, what, tolerance=0.0):
    return (_inverse(product, linear) @ linear.unsqueeze(-1)).squeeze(-1)
