"""Quantised tensor trains: entries one by one, prolongation of ramps, rounding."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from diffbcp_cli import random
from diffbcp_cli.lowrank import quantised

EXACT = {"rtol": 1e-9, "atol": 1e-9}
ENOUGH = 10**6


def double(cores):
    return tuple(core.double() for core in cores)


def cores_of(bits=4, most=100, seed=0, channels=3):
    rng = random.generator(seed)
    return double(quantised.normal_cores(channels, bits, most, rng=rng))


def entry(cores, channel, row, column):
    """G_1[s_1] .. G_L[s_L] at one entry."""
    value = torch.eye(len(cores[0]), dtype=torch.float64)[channel]
    for k, core in enumerate(cores):
        bit = len(cores) - 1 - k
        value = value @ core[:, 2 * (row >> bit & 1) + (column >> bit & 1)]
    return float(value)


def train_of(image):
    """A train of full ranks whose picture is the image (C, n, n): SVD from the left."""
    bits = image.shape[1].bit_length() - 1
    split = image.reshape(-1, *[2] * (2 * bits))
    order = [axis for k in range(bits) for axis in (1 + k, 1 + bits + k)]
    rest, cores = split.permute(0, *order).reshape(len(image), -1), []
    for _ in range(bits - 1):
        u, s, vh = torch.linalg.svd(rest.reshape(len(rest) * 4, -1), full_matrices=False)
        cores.append(u.reshape(len(rest), 4, -1))
        rest = s[:, None] * vh
    return (*cores, rest.reshape(len(rest), 4, 1))


@pytest.mark.parametrize("bits", [1, 3, 4])
def test_the_picture_has_the_products_of_the_cores(bits):
    cores, rng = cores_of(bits), random.generator(1)
    image = quantised.picture(cores)
    assert image.shape == (3, 2**bits, 2**bits)
    for _ in range(20):
        at = [random.integer(below, rng=rng) for below in image.shape]
        assert float(image[tuple(at)]) == pytest.approx(entry(cores, *at), rel=1e-9, abs=1e-12)


def test_new_rows_and_columns_lie_halfway_and_the_last_ones_are_copied():
    cores = cores_of()
    x = quantised.picture(cores)
    fine = quantised.picture(quantised.prolong(cores, ENOUGH))
    torch.testing.assert_close(fine[:, ::2, ::2], x, **EXACT)
    torch.testing.assert_close(fine[:, 1:-1:2, ::2], (x[:, :-1] + x[:, 1:]) / 2, **EXACT)
    torch.testing.assert_close(fine[:, ::2, 1:-1:2], (x[..., :-1] + x[..., 1:]) / 2, **EXACT)
    torch.testing.assert_close(fine[:, -1, ::2], x[:, -1], **EXACT)
    torch.testing.assert_close(fine[:, ::2, -1], x[..., -1], **EXACT)


def test_a_ramp_becomes_a_ramp():
    t = torch.arange(16, dtype=torch.float64)
    ramp = (t[:, None] + 2 * t)[None]
    fine = quantised.picture(quantised.prolong(train_of(ramp), ENOUGH))
    t = torch.arange(31, dtype=torch.float64) / 2
    torch.testing.assert_close(fine[0, :31, :31], t[:, None] + 2 * t, **EXACT)


def test_rounding_to_ranks_that_are_high_enough_changes_nothing():
    image = random.normal((3, 16, 16), rng=random.generator(0), dtype=torch.float64)
    cores = train_of(image)
    torch.testing.assert_close(quantised.picture(cores), image, **EXACT)
    fat = [functional.pad(core, (0, 5, 0, 0, 0, 5)) for core in cores]
    fat[0], fat[-1] = fat[0][:3], fat[-1][..., :1]
    once = quantised.rounded(tuple(fat), ENOUGH)
    torch.testing.assert_close(quantised.picture(once), image, **EXACT)
    assert [core.shape[2] for core in once] == [12, 16, 4, 1]


def test_rounding_to_one_bond_is_the_best_matrix_of_that_rank():
    """Two bits have one bond, so the truncated SVD is what is to be found."""
    image = random.normal((3, 4, 4), rng=random.generator(0), dtype=torch.float64)
    found = quantised.picture(quantised.rounded(train_of(image), 2))
    s = torch.linalg.svdvals(train_of(image)[0].flatten(0, 1) @ train_of(image)[1].flatten(1))
    assert float((found - image).norm()) == pytest.approx(float(s[2:].norm()), rel=1e-9)
    worse = quantised.rounded(quantised.prolong(train_of(image), ENOUGH), 2)
    assert max(core.shape[2] for core in worse) == 2


def test_every_entry_of_the_start_has_variance_1():
    images = [quantised.picture(cores_of(seed=seed, most=20)) for seed in range(40)]
    assert float(torch.stack(images).var()) == pytest.approx(1, rel=0.3)
