"""HLRTF: exact fits of its own tensors, no pull where nothing is known, missing rows filled from their neighbours."""

from __future__ import annotations

import pytest
import torch
from sampling import damaged

from diffbcp_cli import random
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.methods import adam
from diffbcp_cli.methods.hlrtf import Hlrtf, picture, roughness
from diffbcp_cli.options import check

SIDE, SLICES, RANK = 16, 6, 3


def method_of(target, known, **more):
    given = {"slices": SLICES, "rank": RANK, "gamma": 0.0, "length": 3000, **more}
    return Hlrtf(target, known, **given)


def everything(like):
    return torch.ones_like(like, dtype=torch.bool)


def run(method, state, count):
    rng = random.generator(0)
    for _ in range(count):
        state, info = method.step(state, rng=rng)
    return state, info


def test_without_bends_it_fits_a_tensor_of_its_own_kind():
    """phi = identity, H1 = I, H2 a sum of slices: x_c = sum of two products, of rank 6."""
    rng = random.generator(1)
    a, b = random.normal((SLICES, SIDE, RANK), rng=rng), random.normal((SLICES, RANK, SIDE), rng=rng)
    h2 = torch.eye(3).repeat(1, 2)
    target = picture((a, b, torch.eye(SLICES), h2), slope=1.0)
    method = method_of(target, everything(target), slope=1.0)
    start = method.init(rng=random.generator(2)).parameters
    fit = adam.begin([*start[:2], torch.eye(SLICES), h2])
    assert run(method, fit, method.length)[1].numbers["loss"] < 1e-6


def test_where_nothing_is_known_nothing_pulls():
    target = torch.rand(3, SIDE, SIDE, generator=random.generator(0))
    method = method_of(target, ~everything(target))
    _, _, gradients = adam.descend(method.loss, method.init(rng=random.generator(0)).parameters)
    assert all(not gradient.any() for gradient in gradients)


def test_roughness_is_what_neighbours_differ_by():
    a = torch.tensor([[[1.0, 2.0], [0.0, 5.0]]])  # (1, H, r)
    b = torch.tensor([[[1.0, 4.0, 2.0]]])
    h2 = torch.tensor([[1.0], [3.0], [2.0]])
    assert float(roughness((a, b, torch.eye(1), h2))) == (1 + 3) + (3 + 2) + (2 + 1)


@pytest.mark.parametrize(("gamma", "filled"), [(1e-5, True), (0.0, False)])
def test_missing_rows_are_filled_by_the_differences_alone(gamma, filled):
    target = torch.full((3, SIDE, SIDE), 0.7)
    known = everything(target)
    known[:, 6:9] = False
    method = method_of(target * known, known, gamma=gamma)
    _, info = run(method, method.init(rng=random.generator(0)), 1500)
    gap = float((info.image[:, 6:9] - 0.4).abs().mean())  # 0.7 is 0.4 on [-1, 1]
    assert (gap < 0.3) == filled  # black is 1.4 away


def test_a_run_has_no_std_and_depends_on_its_seed_alone():
    pixels, observed = damaged(16, 20)
    given = {"method": "hlrtf", "device": "cpu", "iterations": 20}
    torch.manual_seed(1)
    one = restore(pixels, observed, check(given), prior=None)
    torch.manual_seed(2)
    same = restore(pixels, observed, check(given), prior=None)
    other = restore(pixels, observed, check({**given, "seed": 1}), prior=None)
    assert one.std is None
    assert (one.mean == same.mean).all()
    assert (one.mean != other.mean).any()
