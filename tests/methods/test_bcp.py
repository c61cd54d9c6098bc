"""Variational Bayesian CP: rank and noise found, a bound that rises, exact moments."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from sampling import Listener, damaged

from diffbcp_cli import random
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.methods.bcp import Bcp, standardise
from diffbcp_cli.operators.mask import Mask
from diffbcp_cli.options import check, resolve
from diffbcp_cli.problem import Problem

SIDE, SWEEPS = 30, 60


def waves():
    """A tensor of rank 3 whose factors are sines, cosines and square waves."""
    t = torch.linspace(0, 2 * math.pi, SIDE, dtype=torch.float64)
    f = torch.stack([t.sin(), t.cos(), (3 * t).sin().sign()], 1)
    return torch.einsum("ar,br,cr->abc", f, f[:, [1, 2, 0]], f[:, [2, 0, 1]])


def seen(x, *, share=0.2, decibel=10.0):
    rng = random.generator(0)
    noise = float(x.std()) * 10 ** (-decibel / 20)
    y = x + noise * random.normal_like(x, rng=rng)
    known = random.bernoulli(tuple(x.shape), share, rng=rng)
    return Problem(torch.where(known, y, 0.0).float(), Mask(known))


def path(method, count):
    rng = random.generator(0)
    state, found = method.init(rng=rng), []
    for _ in range(count):
        state, info = method.step(state, rng=rng)
        found.append((state, info))
    return found


@pytest.fixture(scope="module")
def found():
    method = Bcp(standardise(seen(waves())), 30, SWEEPS, dtype=torch.float64, first_tau=1.0)
    return method, path(method, SWEEPS)


def test_rank_noise_and_tensor_are_found_in_a_fifth_of_the_entries(found):
    x, (state, info) = waves(), found[1][-1]
    assert state.rank == 3
    assert float((info.image - x).norm() / x.norm()) == pytest.approx(0.071, abs=0.005)
    assert 20 * math.log10(float(x.std()) / info.noise_std) == pytest.approx(10, abs=0.3)


def test_the_bound_rises_in_every_sweep_of_constant_rank(found):
    states = [state for state, _ in found[1]]
    same = [(one, two) for one, two in pairwise(states) if one.rank == two.rank]
    assert len(same) > SWEEPS / 2
    for one, two in same:
        assert two.bounds[-1] >= one.bounds[-1] - 1e-9 * abs(one.bounds[-1])


def test_the_stated_std_is_that_of_the_errors(found):
    _, info = found[1][-1]
    z = (info.image - waves()) / info.std
    assert 0.9 < float(z.square().mean().sqrt()) < 1.1


def test_the_std_is_that_of_draws_from_the_approximation(found):
    method, steps = found
    state, rng = steps[-1][0], random.generator(1)
    factors = [
        mean
        + (torch.linalg.cholesky(cov) @ random.normal((2000, *mean.shape, 1), rng=rng).double()).squeeze(-1)
        for mean, cov in zip(state.means, state.covariances, strict=True)
    ]
    corner = [factor[:, :4] for factor in factors]
    draws = method.data.scale * torch.einsum("nar,nbr,ncr->nabc", *corner)
    ratio = draws.std(0) / state.std[:4, :4, :4]
    assert float(ratio.mean()) == pytest.approx(1, abs=0.02)
    assert float((ratio - 1).abs().max()) < 0.1


def test_a_row_without_known_entries_has_the_mean_of_the_known_ones():
    problem = seen(waves(), share=0.5)
    known = problem.known.clone()
    known[:, 7] = False
    problem = replace(problem, y=torch.where(known, problem.y, 0.0), operator=Mask(known))
    method = Bcp(standardise(problem), 10, 10)
    state, info = path(method, 10)[-1]
    assert (state.means[1][7] == 0).all()
    assert (info.image[:, 7] == np.float32(method.data.centre)).all()
    assert float(info.std[:, 7].mean()) > 3 * float(info.std[:, 8].mean())


def test_float32_sums_change_nothing_that_matters(found):
    method, steps = found
    single = path(replace(method, dtype=torch.float32), 10)[-1][1].image
    torch.testing.assert_close(single, steps[9][1].image, rtol=1e-3, atol=1e-3)


def test_a_path_that_has_converged_stands_still(found):
    method, steps = found
    state = steps[-1][0]
    still = replace(state, bounds=(*state.bounds, state.bounds[-1]))
    after, info = method.step(still, rng=random.generator(0))
    assert after is still
    assert info.image is state.image


GIVEN = {"method": "bcp", "device": "cpu", "rank": 12, "iterations": 15}


def test_a_run_states_std_noise_and_rank():
    pixels, observed = damaged()
    watch = Listener()
    found = restore(pixels, observed, check(GIVEN), prior=None, watch=watch)
    assert found.std is not None
    assert found.std.min() > 0
    assert found.noise["std"] > 0
    assert found.numbers["rank"]["last"] <= 12
    assert not any("no std" in note for note in watch.notes)
    two = restore(pixels, observed, check({**GIVEN, "chains": 2}), prior=None)
    assert two.numbers["draws"] == 2
    assert two.std.min() > 0


def test_a_run_resumes_to_the_same_bits():
    pixels, observed = damaged()
    saved = []
    whole = restore(pixels, observed, check(GIVEN), prior=None)
    stop, keep = Listener(stop_after=4), Resume(save=saved.append)
    restore(pixels, observed, check(GIVEN), prior=None, watch=stop, resume=keep)
    again = restore(pixels, observed, check(GIVEN), prior=None, resume=Resume(saved[-1]))
    np.testing.assert_array_equal(again.mean, whole.mean)
    np.testing.assert_array_equal(again.std, whole.std)


def test_defaults_are_its_own():
    options = resolve({"method": "bcp", "preset": "fast"})
    assert (options.rank, options.iterations, options.prior) == (100, 100, "none")
