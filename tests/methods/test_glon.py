"""GLON-style: exact completion of low-rank pictures, an objective that falls, data without noise kept."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sampling import Listener, damaged

from diffbcp_cli import random
from diffbcp_cli.errors import UsageError
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.methods.glon import PROXIMAL, Glon, fold, unfold
from diffbcp_cli.operators.mask import Mask
from diffbcp_cli.options import check, resolve
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.problem import Problem

RANK = 2


def low_rank(height=20, width=24):
    """(3, H, W), a tensor train of ranks 2 and 2."""
    rng = random.generator(0)
    rows, columns, colours = (
        random.normal(shape, rng=rng) for shape in ((height, RANK), (RANK, width, RANK), (RANK, 3))
    )
    return torch.einsum("hp,pwq,qc->chw", rows, columns, colours) / 3


def method_of(x, share, rounds, *, level=1.0, noise_std=1e-3, rank=RANK, tolerance=0.0):
    known = random.bernoulli(tuple(x.shape), share, rng=random.generator(5))
    start = torch.where(known, x, 0.0)
    return Glon(Problem(start, Mask(known)), start, (), (level,) * rounds, rank, noise_std, tolerance)


def run(method):
    rng = random.generator(0)
    state = method.init(rng=rng)
    states = []
    for _ in range(method.length):
        state, _ = method.step(state, rng=rng)
        states.append(state)
    return states


def test_unfoldings_and_back():
    x = low_rank()
    one, two = unfold(x)
    assert (one.shape, two.shape) == ((20, 72), (480, 3))
    for matrix in (one, two):
        torch.testing.assert_close(fold(matrix, x.shape), x, rtol=0, atol=0)
    assert [int(torch.linalg.matrix_rank(matrix)) for matrix in (one, two)] == [RANK, RANK]


def test_without_denoisers_low_rank_pictures_are_recovered():
    x = low_rank()
    found = run(method_of(x, 0.6, 150))[-1].x
    assert float((found - x).norm() / x.norm()) < 1e-5


def objective(method, state, level):
    """The objective without denoisers."""
    fits = sum(
        weight / 2 * float((matrix - u @ w).square().sum())
        for matrix, u, w, weight in zip(
            unfold(state.x), state.left, state.right, method.weights(level), strict=True
        )
    )
    misfit = (method.problem.y - state.x)[method.problem.known]
    return fits + (level / method.noise_std) ** 2 / 2 * float(misfit.square().sum())


@pytest.mark.parametrize("level", [0.02, 1.0])
def test_without_denoisers_the_objective_falls_by_what_holds_a_block(level):
    method = method_of(low_rank(), 0.5, 40, level=level, noise_std=0.1)
    states = run(method)
    values = [objective(method, state, level) for state in states]
    for before, after, high, low in zip(states, states[1:], values, values[1:], strict=False):
        moved = PROXIMAL / 2 * float((after.x - before.x).square().sum())
        assert low + moved <= high + 1e-5 * values[0]
    assert values[-1] < values[0]


def test_a_whole_picture_without_noise_comes_back():
    x = low_rank()
    found = run(method_of(x, 1.1, 5, noise_std=1e-5))[-1].x
    torch.testing.assert_close(found, x, rtol=0, atol=1e-5)


def test_denoisers_are_asked_at_falling_levels():
    pixels, observed = damaged(16, 16)
    heard = []

    class Prior(GaussianPrior):
        def denoise(self, x, sigma):
            heard.append(float(sigma))
            return super().denoise(x, sigma)

    given = check(
        {"method": "glon", "device": "cpu", "iterations": 4, "sigma": 0.025, "glon_nonlocal": "none"}
    )
    found = restore(pixels, observed, given, prior=Prior(torch.zeros(()), torch.tensor(0.25)))
    assert heard == sorted(heard, reverse=True)
    assert heard[0] == pytest.approx(100 / 255)
    assert heard[-1] == pytest.approx(10 / 255)
    assert found.std is None


def test_a_run_resumes_to_the_same_bits():
    pixels, observed = damaged(16, 20)
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.25))
    given = check({"method": "glon", "device": "cpu", "iterations": 8, "sigma": 0.025})
    saved = []
    whole = restore(pixels, observed, given, prior=prior)
    stop, keep = Listener(stop_after=4), Resume(save=saved.append)
    restore(pixels, observed, given, prior=prior, watch=stop, resume=keep)
    again = restore(pixels, observed, given, prior=prior, resume=Resume(saved[-1]))
    np.testing.assert_array_equal(again.mean, whole.mean)


def test_it_needs_a_prior():
    with pytest.raises(UsageError, match="cannot do without"):
        resolve({"method": "glon", "prior": "none", "sigma": 0.02})
