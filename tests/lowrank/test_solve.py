"""Draws from a precision matrix, and the conjugate gradients by themselves."""

from __future__ import annotations

import pytest
import tiny
import torch

from diffbcp_cli.errors import NumericalError
from diffbcp_cli.lowrank.solve import conjugate_gradients, draw_from_precision


def normal(*shape, seed=0):
    return tiny.normal(*shape, generator=tiny.rng(seed))


def precisions(count, size=4):
    half = normal(count, size, size)
    return half @ half.mT + torch.eye(size, dtype=torch.float64)


@pytest.mark.parametrize("which", [None, torch.tensor([1, 0, 1, 2, 2])])
def test_zero_noise_gives_the_mean_and_unit_noise_a_square_root_of_the_covariance(which):
    precision = precisions(5 if which is None else 3)
    each = precision if which is None else precision[which]
    linear = normal(5, 4, seed=1)
    mean = draw_from_precision(precision, linear, torch.zeros(5, 4), which, what="it")
    torch.testing.assert_close(mean, torch.linalg.solve(each, linear))
    columns = []
    for k in range(4):
        unit = torch.zeros(5, 4, dtype=torch.float64)
        unit[:, k] = 1.0
        columns.append(draw_from_precision(precision, linear, unit, which, what="it") - mean)
    root = torch.stack(columns, -1)
    torch.testing.assert_close(root @ root.mT, torch.linalg.inv(each))


def breaks_in_float32():
    """A float32 matrix that is positive definite, whose float32 Cholesky factor breaks down all the same."""
    for seed in range(2000):
        thin = normal(6, 2, seed=seed)
        matrix = (thin @ thin.T + 3e-7 * torch.eye(6)).float()
        breaks = [bool(torch.linalg.cholesky_ex(m)[1]) for m in (matrix, matrix.double())]
        if breaks == [True, False]:
            return matrix
    raise AssertionError("no such matrix among the seeds")


def test_a_factor_that_float32_cannot_take_is_taken_in_float64():
    matrix = breaks_in_float32()
    linear = matrix.double() @ torch.ones(6, dtype=torch.float64)
    drawn = draw_from_precision(matrix[None], linear.float()[None], torch.zeros(1, 6), what="it")
    assert drawn.dtype == torch.float32
    exact = torch.linalg.solve(matrix.double(), linear.float().double())
    torch.testing.assert_close(drawn[0], exact.float(), rtol=1e-4, atol=1e-4)


def test_a_precision_that_is_not_positive_definite_is_an_error_that_says_where():
    with pytest.raises(NumericalError, match="mode 2 of the left group"):
        draw_from_precision(-precisions(2), normal(2, 4), normal(2, 4), what="mode 2 of the left group")


def test_the_solver_reaches_its_tolerance_for_every_row():
    """Eigenvalues over four decades, so that the residual falls slowly and an early stop shows."""
    turn = torch.linalg.qr(normal(6, 40, 40)).Q
    matrix = turn @ torch.diag(torch.logspace(0, 4, 40, dtype=torch.float64)) @ turn.mT
    linear = normal(6, 40, seed=1)

    def product(x):
        return (matrix @ x.unsqueeze(-1)).squeeze(-1)

    for tolerance in (1e-2, 1e-4, 1e-6):
        start = torch.zeros_like(linear)
        found = conjugate_gradients(product, linear, lambda r: r, start, tolerance=tolerance, what="rows")
        error = (product(found) - linear).norm(dim=1) / linear.norm(dim=1)
        assert (error <= 1.001 * tolerance).all()


def test_a_solver_that_gets_nowhere_says_so():
    with pytest.raises(NumericalError, match="mode 1"):
        conjugate_gradients(lambda x: -x, torch.ones(1, 2), lambda r: r, torch.zeros(1, 2), what="mode 1")
