"""The sweep in chunks: the same draws as over everything at once. And some patches, chosen at random."""

from __future__ import annotations

import pytest
import tiny
import torch

from diffbcp_cli.lowrank.cp import Hyper, reconstruct
from diffbcp_cli.lowrank.cp_sweep import sweep
from diffbcp_cli.lowrank.likelihood import Coupling, image_of, observe
from diffbcp_cli.lowrank.stream import fold, observe_in_chunks, observe_some
from diffbcp_cli.lowrank.tensorize import Patches, SomePatches

SIZE = (3, 45, 38)
SHAPE = Patches(*SIZE, patch=8, stride=4)
HYPER = Hyper()
RANK = 7
MANY, FEW = 1, 2**40  # budgets: a chunk per row of patches, one chunk for all


def close(one, two, tolerance):
    for a, b in zip(tiny.tensors_of(one), tiny.tensors_of(two), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
@pytest.mark.parametrize("once", [True, False])
@pytest.mark.parametrize("coupled", [True, False])
def test_chunks_give_the_draws_of_the_whole(once, coupled, share):
    image, mask = tiny.photograph(SIZE, share=share)
    whole = observe(image, mask, SHAPE, once=once)
    state = tiny.random_state(SHAPE.left, SHAPE.right, RANK, dtype=torch.float32, hyper=HYPER)
    z = torch.randn(SIZE, generator=tiny.rng(5))
    pull = Coupling(3.0, z) if coupled else None
    expected, expected_image = sweep(state, whole, HYPER, coupling=pull, block=3, rng=tiny.rng(1))
    for budget in (MANY, FEW):
        chunks = observe_in_chunks(image, mask, SHAPE, once=once, budget=budget)
        assert len(chunks.chunks) == (SHAPE.grid[0] if budget == MANY else 1)
        assert chunks.count == pytest.approx(whole.count, rel=1e-5)
        assert chunks.mean_weight == pytest.approx(whole.mean_weight, rel=1e-5)
        found, image_found = sweep(state, chunks, HYPER, coupling=pull, block=3, budget=1000, rng=tiny.rng(1))
        close(found, expected, 5e-3)
        torch.testing.assert_close(image_found, expected_image, rtol=2e-3, atol=2e-3)


def test_inputs_are_left_alone():
    image, mask = tiny.photograph(SIZE)
    chunks = observe_in_chunks(image, mask, SHAPE, budget=MANY)
    state = tiny.random_state(SHAPE.left, SHAPE.right, RANK, dtype=torch.float32)
    held = tiny.tensors_of(state, chunks, image, mask)
    before = [t.clone() for t in held]
    sweep(state, chunks, HYPER, coupling=Coupling(2.0, image), block=3, rng=tiny.rng())
    assert all(torch.equal(a, b) for a, b in zip(held, before, strict=True))


def test_the_folded_image_is_the_average_over_patches():
    image, mask = tiny.photograph(SIZE)
    for once in (True, False):
        whole = observe(image, mask, SHAPE, once=once)
        state = tiny.random_state(SHAPE.left, SHAPE.right, RANK, dtype=torch.float32)
        folded, squares = fold(state, observe_in_chunks(image, mask, SHAPE, once=once, budget=MANY))
        entries = reconstruct(state)
        torch.testing.assert_close(folded, image_of(entries, whole), rtol=1e-4, atol=1e-4)
        residual = (whole.values - entries) * whole.observed
        assert float(squares.sum()) == pytest.approx(
            float((whole.weight * residual.square()).sum()), rel=1e-4
        )


@pytest.mark.parametrize(("patch", "stride"), [(8, 4), (8, 3), (5, 5), (16, 8)])
def test_copies_count_the_patches_of_each_pixel(patch, stride):
    shape = Patches(*SIZE, patch=patch, stride=stride)
    counted = shape.fold(shape.unfold(torch.ones(SIZE)))
    assert torch.equal(shape.copies().expand(SIZE), counted)


@pytest.mark.parametrize(("patch", "stride"), [(8, 4), (6, 5)])
def test_some_patches_are_columns_of_all_patches(patch, stride):
    shape = Patches(*SIZE, patch=patch, stride=stride)
    image, _ = tiny.photograph(SIZE)
    index = torch.tensor([0, 5, shape.right[0] - 1, 17])
    some = SomePatches(shape, index)
    assert some.right == (4,)
    assert torch.equal(some.unfold(image), shape.unfold(image)[:, index])
    entries = torch.randn(some.unfold(image).shape, generator=tiny.rng())
    scattered = torch.zeros(shape.unfold(image).shape)
    scattered[:, index] = entries
    torch.testing.assert_close(some.fold(entries), shape.fold(scattered))


def test_some_patches_are_chosen_at_random_and_keep_their_weights():
    image, mask = tiny.photograph(SIZE)
    for once in (True, False):
        some = observe_some(image, mask, SHAPE, 9, once=once, rng=tiny.rng(3))
        index = some.shape.index
        whole = observe(image, mask, SHAPE, once=once)
        assert len(set(index.tolist())) == 9
        for part in ("values", "observed", "weight"):
            assert torch.equal(getattr(some, part), getattr(whole, part)[:, index])
    assert not torch.equal(index, observe_some(image, mask, SHAPE, 9, rng=tiny.rng(4)).shape.index)
