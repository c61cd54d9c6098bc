"""t-CTV: adjoints, thresholds, exact recovery of smooth low-rank pictures, and noise that the soft form removes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sampling import Listener, damaged

from diffbcp_cli import random
from diffbcp_cli.errors import UsageError
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.methods.tctv import Tctv, adjoint, cosines, difference, shrink
from diffbcp_cli.operators.mask import Mask
from diffbcp_cli.options import check, resolve
from diffbcp_cli.problem import Problem

SIDE = 48


def smooth():
    """(3, 48, 48): sines and cosines, a few of them in each colour."""
    t = 2 * math.pi * torch.linspace(0, 1, SIDE, dtype=torch.float64)
    wave, slope = torch.outer(t.sin(), t.cos()), torch.outer(t.cos(), torch.ones_like(t))
    return torch.stack([(0.2 + 0.1 * c) * wave + 0.1 * c * slope for c in range(3)])


def solved(x, share, *, noise=0.0, **settings):
    rng = random.generator(0)
    known = random.bernoulli(tuple(x.shape), share, rng=rng)
    y = x + noise * random.normal_like(x, rng=rng)
    method = Tctv(Problem(torch.where(known, y, 0.0), Mask(known)), 500, **settings)
    state = method.init(rng=rng)
    for _ in range(method.length):
        state, info = method.step(state, rng=rng)
    return state, info, known, y


def error(state, x):
    return float((state.x - x).norm() / x.norm())


def test_the_differences_and_their_adjoint():
    rng = random.generator(0)
    x = random.normal((3, 10, 7), rng=rng, dtype=torch.float64)
    z = random.normal((2, 3, 10, 7), rng=rng, dtype=torch.float64)
    assert float((difference(x) * z).sum()) == pytest.approx(float((x * adjoint(z)).sum()), rel=1e-12)
    back = Tctv(Problem(x, Mask(x > 9)), 1)._solve(x + adjoint(difference(x)))
    torch.testing.assert_close(back, x, rtol=1e-12, atol=1e-12)


def test_the_cosines_are_orthonormal():
    dct = cosines(3, torch.device("cpu"))
    torch.testing.assert_close(dct @ dct.T, torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("shape", [(2, 3, 12, 9), (2, 3, 9, 12)])
@pytest.mark.parametrize("threshold", [100.0, 1.0, 1e-6])
def test_singular_values_are_lowered(shape, threshold):
    slices = random.normal(shape, rng=random.generator(0), dtype=torch.float64)
    before, after = torch.linalg.svdvals(slices), torch.linalg.svdvals(shrink(slices, threshold))
    torch.testing.assert_close(after, (before - threshold).clamp_min(0), rtol=1e-9, atol=1e-7)


def test_a_smooth_low_rank_picture_is_recovered_from_a_third_of_its_entries():
    x = smooth()
    state, _, known, y = solved(x, 0.3, tolerance=1e-8)
    assert state.steps < 300
    assert error(state, x) < 1e-7
    torch.testing.assert_close(state.x[known], y[known], rtol=0, atol=1e-7)


def test_a_tenth_of_the_entries_gives_a_good_picture():
    assert error(solved(smooth(), 0.1)[0], smooth()) < 5e-3


def test_constant_channels_from_one_entry_in_a_hundred():
    x = torch.tensor([0.2, -0.4, 0.6], dtype=torch.float64)[:, None, None].expand(3, SIDE, SIDE).clone()
    assert error(solved(x, 0.01)[0], x) < 1e-3


def test_the_soft_form_removes_noise_that_the_hard_one_keeps():
    x, noise = smooth(), 0.1
    hard = solved(x, 0.5, noise=noise)[0]
    soft = solved(x, 0.5, noise=noise, kappa=1 / (noise * math.sqrt(SIDE)))[0]
    assert error(soft, x) < error(hard, x) / 2


def test_a_path_that_has_converged_stands_still():
    state, *_ = solved(smooth(), 0.3)
    assert state.change < 1e-5
    assert state.steps < 300


GIVEN = {"device": "cpu", "iterations": 60}


@pytest.mark.parametrize(
    "options", [{"method": "tctv"}, {"method": "tctv-soft", "sigma": 0.05, "prior": "none"}]
)
def test_a_run_resumes_to_the_same_bits(options):
    pixels, observed = damaged()
    given, saved = check({**GIVEN, **options}), []
    whole = restore(pixels, observed, given, prior=None)
    stop, keep = Listener(stop_after=20), Resume(save=saved.append)
    restore(pixels, observed, given, prior=None, watch=stop, resume=keep)
    again = restore(pixels, observed, given, prior=None, resume=Resume(saved[-1]))
    np.testing.assert_array_equal(again.mean, whole.mean)
    assert whole.std is None
    assert whole.options.iterations == 60


def test_the_soft_form_needs_the_noise_level():
    with pytest.raises(UsageError, match="needs the noise level"):
        resolve({"method": "tctv-soft", "prior": "none"})
    with pytest.raises(UsageError, match="has no use for a prior"):
        resolve({"method": "tctv", "prior": "natural"})
