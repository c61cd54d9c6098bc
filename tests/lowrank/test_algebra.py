"""CP algebra against einsum."""

from __future__ import annotations

import pytest
import torch

from diffbcp_cli.lowrank.algebra import contract, khatri_rao


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
