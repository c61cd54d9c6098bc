"""Tensorizations: exact inverses, weights that count every pixel once, layouts, and bounded padding."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from diffbcp_cli.lowrank.algebra import khatri_rao
from diffbcp_cli.lowrank.tensorize import (
    Patches,
    Reshape,
    balanced_factors,
    entry_weight,
    fold_average,
    tensorize,
)

CPU = torch.device("cpu")
GRIDS = [(16, 8), (16, 16), (8, 8), (8, 3), (12, 5), (5, 4), (2, 1), (24, 7)]

sizes = st.tuples(st.sampled_from([1, 3]), st.integers(16, 70), st.integers(16, 70))
shapes = st.one_of(st.just(None), st.sampled_from(GRIDS))  # None: reshape
EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True)


def make(size, grid):
    if grid is None:
        return tensorize(size, "reshape")
    return tensorize(size, "patch", patch=grid[0], stride=grid[1])


def image_like(size, seed=0):
    return torch.randn(size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@EXAMPLES
@given(size=sizes, grid=shapes, once=st.booleans())
@example(size=(3, 17, 31), grid=(16, 8), once=True)
@example(size=(3, 17, 31), grid=None, once=True)
@example(size=(1, 16, 16), grid=(24, 7), once=False)
def test_the_weighted_fold_undoes_the_unfolding(size, grid, once):
    shape, image = make(size, grid), image_like(size)
    entries = shape.unfold(image)
    assert entries.shape == (math.prod(shape.left), math.prod(shape.right))
    weight = entry_weight(shape, size, once=once, device=CPU)
    torch.testing.assert_close(fold_average(shape, entries, weight.double()), image, rtol=1e-6, atol=1e-6)


@EXAMPLES
@given(size=sizes, grid=shapes)
@example(size=(3, 17, 31), grid=(16, 8))
def test_weights_count_each_pixel_once_and_padding_never(size, grid):
    shape = make(size, grid)
    inside = shape.unfold(torch.ones(size))
    once = entry_weight(shape, size, once=True, device=CPU)
    replicated = entry_weight(shape, size, once=False, device=CPU)
    torch.testing.assert_close(shape.fold(once), torch.ones(size))
    assert torch.equal(once > 0, inside > 0)
    assert torch.equal(replicated, inside)
    assert float(once.sum()) == pytest.approx(math.prod(size), rel=1e-5)


@EXAMPLES
@given(size=sizes, grid=shapes)
def test_entries_of_one_pixel_share_their_weight(size, grid):
    shape = make(size, grid)
    weight = entry_weight(shape, size, once=True, device=CPU)
    copies = shape.unfold(shape.fold(torch.ones_like(weight)))
    inside = weight > 0
    torch.testing.assert_close(weight[inside], 1 / copies[inside])


@EXAMPLES
@given(size=sizes, grid=shapes)
def test_folding_is_the_adjoint_of_unfolding(size, grid):
    shape, image = make(size, grid), image_like(size)
    entries = image_like((math.prod(shape.left), math.prod(shape.right)), seed=1)
    one, other = (shape.unfold(image) * entries).sum(), (image * shape.fold(entries)).sum()
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-9)


def test_the_fold_average_is_weighted():
    shape = Patches(1, 16, 24)
    weight = entry_weight(shape, (1, 16, 24), once=True, device=CPU)
    entries = torch.zeros_like(weight)
    entries[:, 0] = 1.0  # the first patch says one, the second zero
    image = fold_average(shape, entries, weight)
    assert image[0, 0, [0, 8, 16]].tolist() == [1.0, 0.5, 0.0]
    lopsided = weight.clone()
    lopsided[:, 0] *= 3
    torch.testing.assert_close(fold_average(shape, entries, lopsided)[0, 0, 8], torch.tensor(0.75))


def test_patches_are_laid_out_channel_row_column_by_patch():
    size = (3, 21, 30)
    image, shape = image_like(size), Patches(*size, patch=6, stride=4)
    tensor = shape.unfold(image).reshape(*shape.left, *shape.grid)
    for row, column in [(0, 0), (1, 3), (3, 5)]:
        patch = image[:, 4 * row : 4 * row + 6, 4 * column : 4 * column + 6]
        assert torch.equal(tensor[:, : patch.shape[1], : patch.shape[2], row, column], patch)


def test_a_reshape_splits_rows_and_columns_with_the_last_mode_fastest():
    image, shape = image_like((3, 24, 35)), Reshape(3, 24, 35)
    (h1, h2), (w1, w2, c) = shape.left, shape.right
    assert (h1 * h2, w1 * w2, c) == (24, 35, 3)
    tensor = shape.unfold(image).reshape(h1, h2, w1, w2, c)
    assert tensor[1, 2, 3, 1, 2] == image[2, h2 + 2, 3 * w2 + 1]


@pytest.mark.parametrize("grid", [(6, 4), None])
def test_a_product_of_mode_profiles_is_one_component(grid):
    """Rows of the Khatri-Rao product stand in the order in which the unfolding lays the entries."""
    shape = make((3, 18, 22), grid)
    left = [image_like((n, 1), seed=i) for i, n in enumerate(shape.left)]
    right = [image_like((n, 1), seed=9 + i) for i, n in enumerate(shape.right)]
    matrix = khatri_rao(left) @ khatri_rao(right).T
    modes = [f[:, 0] for f in (*left, *right)]
    letters = "abcdefg"[: len(modes)]
    tensor = torch.einsum(f"{','.join(letters)}->{letters}", *modes)
    torch.testing.assert_close(matrix, tensor.reshape(matrix.shape))


def test_sizes_of_the_paper():
    shape = tensorize((3, 256, 256), "patch")
    assert (shape.left, shape.right) == ((3, 16, 16), (961,))
    high = tensorize((3, 2048, 2048), "reshape")
    assert (high.left, high.right) == ((64, 32), (64, 32, 3))


@pytest.mark.parametrize(("patch", "stride"), GRIDS)
def test_patches_pad_less_than_a_stride(patch, stride):
    for length in range(16, 300):
        shape = Patches(1, length, length, patch, stride)
        assert length <= shape.padded[0] < max(length, patch) + stride
        assert shape.padded == shape.padded[::-1]


def test_a_reshape_pads_little_and_stays_balanced():
    for length in range(16, 5000):
        large, small = balanced_factors(length)
        assert length <= large * small <= length + 1 + math.isqrt(length) // 2, length
        assert small <= large <= 2.75 * small, length
