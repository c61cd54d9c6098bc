"""CP algebra and draws from a precision matrix."""

from __future__ import annotations

import pytest
import torch

from diffbcp_cli.errors import NumericalError
from diffbcp_cli.lowrank.algebra import contract, khatri_rao
from diffbcp_cli.lowrank.solve import draw_from_precision


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64)


def test_khatri_rao_multiplies_rows_with_the_last_mode_fastest():
    a, b, c = normal(2, 4), normal(3, 4, seed=1), normal(5, 4, seed=2)
    rows = khatri_rao([a, b, c])
    assert rows.shape == (30, 4)
    torch.testing.assert_close(rows[1 * 15 + 2 * 5 + 3], a[1] * b[2] * c[3])


@pytest.mark.parametrize(("keep", "out"), [(None, ""), (0, "a"), (1, "b"), (2, "c")])
def test_contract_sums_every_mode_but_one(keep, out):
    rows = [normal(2, 6), normal(3, 6, seed=1), normal(4, 6, seed=2)]
    values = normal(24, 6, seed=3)
    others = [r if i != keep else torch.ones_like(r) for i, r in enumerate(rows)]
    expected = torch.einsum(f"abct,at,bt,ct->{out}t", values.reshape(2, 3, 4, 6), *others).reshape(-1, 6)
    torch.testing.assert_close(contract(values, rows, keep), expected)


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
