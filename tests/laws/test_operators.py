"""Laws of every operator: its adjoint, its solver, and exact draws through it.

An operator joins by an entry in EXAMPLES. The statistical law fails a right operator with probability FALSE_ALARM;
the seeds are fixed.
"""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil

import numpy as np
import pytest
import tiny
import torch
from scipy import stats

import diffbcp_cli.operators
from diffbcp_cli.operators.draw import draw_image
from diffbcp_cli.operators.mask import Mask

SHAPE = (2, 3, 4)
FALSE_ALARM = 1e-4
DRAWS = 10_000


def scattered():
    return torch.rand(SHAPE, generator=tiny.rng(5)) < 0.5


EXAMPLES = {
    "Mask: entries": lambda: Mask(scattered()),
    "Mask: pixels": lambda: Mask(scattered()[:1].expand(SHAPE).clone()),
    "Mask: everything": lambda: Mask(torch.ones(SHAPE, dtype=torch.bool)),
    "Mask: nothing": lambda: Mask(torch.zeros(SHAPE, dtype=torch.bool)),
}
"""Operators on images of SHAPE; a name begins with that of the class."""
every_operator = pytest.mark.parametrize("name", EXAMPLES)


def operator_classes():
    """Every class of the package diffbcp_cli.operators that has `forward`."""
    for module in pkgutil.iter_modules(diffbcp_cli.operators.__path__, "diffbcp_cli.operators."):
        found = importlib.import_module(module.name)
        for name, one in inspect.getmembers(found, inspect.isclass):
            if one.__module__ == module.name and hasattr(one, "forward"):
                yield name


def dense(operator):
    """The matrix of A, one column for each entry of the image."""
    entries = torch.eye(math.prod(SHAPE), dtype=torch.float64)
    return torch.stack([operator.forward(entry.reshape(SHAPE)).flatten() for entry in entries], 1)


def image(seed):
    return tiny.normal(*SHAPE, generator=tiny.rng(seed))


def test_every_operator_has_an_example():
    assert {name.split(":")[0] for name in EXAMPLES} == set(operator_classes())


@every_operator
def test_the_adjoint_moves_to_the_other_side(name):
    operator = EXAMPLES[name]()
    x, y = image(0), image(1)
    y = y.reshape(-1)[: operator.forward(x).numel()].reshape(operator.forward(x).shape)
    assert float((operator.forward(x) * y).sum()) == pytest.approx(float((x * operator.adjoint(y)).sum()))


@every_operator
@pytest.mark.parametrize(("data", "pull"), [(1.0, 1.0), (400.0, 0.01), (0.3, 25.0)])
def test_solve_agrees_with_the_dense_matrix(name, data, pull):
    operator, b = EXAMPLES[name](), image(2)
    a = dense(operator)
    matrix = data * a.T @ a + pull * torch.eye(a.shape[1], dtype=a.dtype)
    expected = torch.linalg.solve(matrix, b.flatten()).reshape(SHAPE)
    torch.testing.assert_close(operator.solve(b, data=data, pull=pull), expected, rtol=1e-6, atol=1e-9)


@every_operator
def test_the_mask_says_what_forward_does(name):
    operator, x = EXAMPLES[name](), image(3)
    if operator.mask is not None:
        assert torch.equal(operator.forward(x), torch.where(operator.mask, x, 0))
        assert operator.complete == bool(operator.mask.all())


@every_operator
def test_an_operator_leaves_its_arguments_alone(name):
    operator, x = EXAMPLES[name](), image(4)
    before = x.clone()
    operator.adjoint(operator.forward(x))
    operator.solve(x, data=2.0, pull=3.0)
    assert x._version == 0
    assert torch.equal(x, before)


@pytest.mark.statistical
@every_operator
def test_draws_have_the_exact_mean_and_covariance(name):
    """x | y, centre ~ N(S (data A'y + pull centre), S) with S = (data A'A + pull I)^-1."""
    operator, data, pull = EXAMPLES[name](), 4.0, 1.5
    a, centre = dense(operator), image(6)
    y = operator.forward(image(7)) + 0.3 * operator.forward(image(8))
    covariance = torch.linalg.inv(data * a.T @ a + pull * torch.eye(a.shape[1], dtype=a.dtype))
    mean = covariance @ (data * a.T @ y.flatten() + pull * centre.flatten())
    rng = tiny.rng(9)
    draws = torch.stack(
        [draw_image(operator, y, centre, data=data, pull=pull, rng=rng).flatten() for _ in range(DRAWS)]
    )
    variances = covariance.diagonal()
    off = draws - mean
    by_mean = off.mean(0) / (variances / DRAWS).sqrt()
    spread = (variances[:, None] * variances + covariance.square()) / DRAWS  # of a sample covariance
    by_covariance = (off.T @ off / DRAWS - covariance) / spread.sqrt()
    scores = np.abs(torch.cat([by_mean, by_covariance.flatten()]).numpy())
    assert scores.max() < stats.norm.isf(FALSE_ALARM / len(scores) / 2)
