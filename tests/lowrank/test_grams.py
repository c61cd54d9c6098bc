"""Masked Grams against the naive sum, for every way of forming them."""

from __future__ import annotations

from typing import get_args

import pytest
import torch

from diffbcp_cli.lowrank import grams
from diffbcp_cli.lowrank.grams import Grams, Strategy, plan

STRATEGIES = get_args(Strategy)
LARGE, TINY = 2**30, 1


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def problem(share, *, weights="varying", rows=23, columns=31, size=4, seed=0):
    """(w, o, q): a mask with the same share of every row, entry weights, and rows q."""
    generator = rng(seed)
    observed = torch.zeros(rows, columns, dtype=torch.float64)
    for row in observed:
        row[torch.randperm(columns, generator=generator)[: round(share * columns)]] = 1.0
    weight = torch.ones_like(observed)
    if weights == "varying":
        choices = torch.tensor([0.25, 0.5, 1.0], dtype=torch.float64)
        weight = choices[torch.randint(3, weight.shape, generator=generator)]
        weight[:, :2] = 0.0  # padding
    elif weights == "patterns":  # two kinds of rows
        weight[::2, ::3] = 0.5
    return weight, observed, torch.randn(columns, size, generator=generator, dtype=torch.float64)


def naive(weight, observed, q, tau, coupling, pull=None):
    pull = weight if pull is None else pull
    total = torch.zeros(len(weight), q.shape[1], q.shape[1], dtype=torch.float64)
    for g in range(len(weight)):
        for k in range(len(q)):
            total[g] += (tau * weight[g, k] * observed[g, k] + coupling * pull[g, k]) * torch.outer(
                q[k], q[k]
            )
    return total


def unbatched(result, count, size):
    """Put batches together; every row must come exactly once."""
    total, seen = torch.full((count, size, size), torch.nan, dtype=torch.float64), torch.zeros(count)
    for rows, gram, which in result:
        assert gram.ndim == 3
        total[rows] = gram if which is None else gram[which]
        seen[rows] += 1
    assert (seen == 1).all()
    return total


@pytest.mark.parametrize("share", [0.1, 0.9, 1.0])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_coupling_has_weights_of_its_own(strategy, share):
    weight, observed, q = problem(share, weights="patterns")
    pull = weight / (1 + torch.arange(weight.shape[1]) % 3)
    pull[1::2] *= 2
    for budget in (LARGE, TINY):
        found = Grams(plan(weight, observed, strategy, pull=pull), 1.3, 0.7, budget)
        expected = naive(weight, observed, q, 1.3, 0.7, pull)
        torch.testing.assert_close(grams.unpack(found.packed(q), 4), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("weights", ["one", "patterns", "varying"])
@pytest.mark.parametrize("coupling", [0.0, 0.7])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_gives_the_naive_sum(strategy, share, coupling, weights):
    weight, observed, q = problem(share, weights=weights)
    expected = naive(weight, observed, q, 1.3, coupling)
    for budget in (LARGE, TINY):
        found = Grams(plan(weight, observed, strategy), 1.3, coupling, budget)
        torch.testing.assert_close(grams.unpack(found.packed(q), 4), expected, rtol=1e-12, atol=1e-12)
        batches = unbatched(found.batches(q), len(weight), 4)
        torch.testing.assert_close(batches, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_rows_with_different_numbers_of_entries(strategy):
    weight, observed, q = problem(0.5)
    observed[0], observed[1], observed[2, 5:] = 0.0, 1.0, 0.0
    found = Grams(plan(weight, observed, strategy), 2.0, 0.0, LARGE)
    expected = naive(weight, observed, q, 2.0, 0.0)
    torch.testing.assert_close(grams.unpack(found.packed(q), 4), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rows_at_a_time", [1, 2, 5])
def test_a_small_budget_is_kept_and_changes_nothing(strategy, rows_at_a_time):
    weight, observed, q = problem(0.3, weights="patterns", rows=24)
    prepared = plan(weight, observed, strategy)
    gathered = 0 if prepared.index is None else prepared.index.shape[1]
    budget = rows_at_a_time * 8 * 4 * (2 * 4 + gathered)
    small, large = Grams(prepared, 1.0, 0.5, budget), Grams(prepared, 1.0, 0.5, LARGE)
    assert all(len(gram) <= rows_at_a_time for _, gram, _ in small.batches(q))
    assert len(list(large.batches(q))) == 1
    torch.testing.assert_close(small.packed(q), large.packed(q), rtol=1e-12, atol=1e-12)


def test_a_shared_gram_is_formed_once_for_equal_rows():
    weight, observed, q = problem(1.0, weights="patterns", rows=24)
    ((rows, gram, which),) = Grams(plan(weight, observed), 1.0, 0.0, LARGE).batches(q)
    assert len(gram) == 2
    assert sorted(rows.tolist()) == list(range(24))
    assert which.shape == (24,)


def test_an_unobserved_entry_without_coupling_counts_nothing():
    weight, observed, q = problem(0.4)
    for strategy in STRATEGIES:
        found = Grams(plan(weight, torch.zeros_like(observed), strategy), 3.0, 0.0, LARGE).packed(q)
        torch.testing.assert_close(found, torch.zeros_like(found), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("share", "expected"),
    [(0.0, "shared"), (0.1, "gather"), (0.5, "dense"), (0.9, "complement"), (1.0, "shared")],
)
def test_the_cheapest_strategy_is_chosen(share, expected):
    weight, observed, _ = problem(share, weights="one", rows=60, columns=200)
    assert plan(weight, observed).strategy == expected


def test_padding_is_not_taken_for_missing_entries():
    """Entries of weight zero are neither observed nor missing: a full image with padding has few patterns."""
    weight = torch.ones(60, 200)
    weight[:, 150:] = 0.0
    weight[::2, 140:] = 0.0
    assert plan(weight, (weight > 0).float()).strategy == "shared"


def test_float32_is_close_to_float64():
    weight, observed, q = problem(0.5, rows=40, columns=300, size=8)
    exact = naive(weight, observed, q, 50.0, 0.7)
    for strategy in STRATEGIES:
        prepared = plan(weight.float(), observed.float(), strategy)
        found = grams.unpack(Grams(prepared, 50.0, 0.7, LARGE).packed(q.float()), 8)
        assert found.dtype == torch.float32
        assert (found - exact).abs().max() < 1e-5 * exact.abs().max()


def test_packing_and_unpacking_are_inverse():
    gram = torch.randn(5, 6, 6, generator=rng())
    gram = gram + gram.mT
    packed = grams.pack(gram)
    assert packed.shape == (5, 21)
    assert torch.equal(grams.unpack(packed, 6), gram)


def test_packed_squares_are_packed_outer_products():
    rows = torch.randn(5, 4, generator=rng())
    assert torch.equal(grams.packed_squares(rows), grams.pack(rows[:, :, None] * rows[:, None, :]))


def test_a_plan_leaves_the_mask_alone():
    weight, observed, _ = problem(0.5)
    before = weight.clone(), observed.clone()
    for strategy in STRATEGIES:
        plan(weight, observed, strategy)
    assert torch.equal(weight, before[0])
    assert torch.equal(observed, before[1])
