"""DDRM: the law of each kind of entry between two levels, and the Gaussian posterior mean."""

from __future__ import annotations

from itertools import pairwise

import paths
import pytest
import tiny
import torch

from diffbcp_cli.errors import UsageError
from diffbcp_cli.methods.ddrm import DDRM


def step(sigma, lower, *, known, eta=0.85, eta_b=0.7, side=256):
    """One step on a constant x: the mean and the std of what it draws, x0 and the data."""
    problem, prior = paths.problem(side, known=1.0 if known else 0.0), paths.Counting()
    method = DDRM(torch.full_like(problem.y, paths.VALUE), problem.known, prior, paths.NOISE, eta, eta_b)
    x = torch.full_like(problem.y, 0.9)
    drawn, clean = method.down(x, sigma, lower, rng=tiny.rng(0))
    return float(drawn.mean()), float(drawn.std()), float(clean[0, 0, 0])


def test_a_missing_entry_keeps_some_of_its_noise():
    mean, std, clean = step(1.0, 0.5, known=False)
    assert mean == pytest.approx(clean + (1 - 0.85**2) ** 0.5 * 0.5 * (0.9 - clean), abs=0.01)
    assert std == pytest.approx(0.85 * 0.5, rel=0.02)


def test_a_known_entry_is_drawn_about_the_data_while_the_level_is_above_their_noise():
    mean, std, clean = step(1.0, 0.5, known=True)
    assert mean == pytest.approx(0.3 * clean + 0.7 * paths.VALUE, abs=0.01)
    assert std == pytest.approx((0.5**2 - (0.7 * paths.NOISE) ** 2) ** 0.5, rel=0.02)


def test_below_it_the_data_give_the_direction_of_the_noise():
    lower = paths.NOISE / 2
    mean, std, clean = step(0.3, lower, known=True)
    assert mean == pytest.approx(clean + (1 - 0.85**2) ** 0.5 * (paths.VALUE - clean) / 2, abs=0.005)
    assert std == pytest.approx(0.85 * lower, rel=0.02)


def test_it_starts_about_the_data_and_about_zero():
    problem = paths.problem(256, value=3.0, noise=2.0, known=0.5)
    x = paths.build("ddrm", problem).init(rng=tiny.rng(0)).x
    assert float(x[problem.known].mean()) == pytest.approx(3.0, abs=0.1)
    assert float(x[problem.known].var()) == pytest.approx(4.0**2 - 2.0**2, rel=0.05)
    assert float(x[~problem.known].mean()) == pytest.approx(0.0, abs=0.1)
    assert float(x[~problem.known].var()) == pytest.approx(4.0**2, rel=0.05)


def test_the_last_step_returns_what_the_prior_makes_of_the_picture():
    problem, prior = paths.problem(known=0.5), paths.Counting()
    method, rng = paths.build("ddrm", problem, prior, iterations=3), tiny.rng(0)
    state = method.init(rng=rng)
    for _ in range(3):
        before = state
        state, info = method.step(before, rng=rng)
    assert torch.equal(info.image, prior.denoise(before.x[None], method.levels[2])[0])
    assert len(prior.levels) == 4


def mean_of_path(levels, std, noise, eta=0.85):
    """The mean of a known entry under N(0, std^2) and eta_b = 1: every step is linear."""
    x = paths.VALUE
    for sigma, lower in pairwise(levels):
        clean = x * std**2 / (std**2 + sigma**2)
        below = clean + (1 - eta**2) ** 0.5 * lower * (paths.VALUE - clean) / noise
        x = paths.VALUE if lower >= noise else below
    return x


@pytest.mark.parametrize(("std", "noise"), [(0.5, 0.2), (0.3, 0.3), (1.0, 0.1)])
@pytest.mark.parametrize("iterations", [20, 400])
def test_with_everything_known_the_mean_is_exact(std, noise, iterations):
    problem = paths.problem(128, noise=noise)
    method = paths.build("ddrm", problem, paths.Counting(std), iterations=iterations)
    image = paths.run(method)[-1]
    assert float(image.mean()) == pytest.approx(mean_of_path(method.levels, std, noise), abs=0.01)


@pytest.mark.parametrize(("std", "noise"), [(0.5, 0.2), (0.5, 0.1), (1.0, 0.1)])
def test_that_mean_is_near_that_of_the_posterior(std, noise):
    """p^2 y / (p^2 + s^2), if the noise is weaker than the picture; otherwise many steps drift to the data."""
    levels = paths.build("ddrm", paths.problem(), iterations=400).levels
    expected = std**2 * paths.VALUE / (std**2 + noise**2)
    assert mean_of_path(levels, std, noise) == pytest.approx(expected, rel=0.1)


def test_an_operator_that_mixes_pixels_is_refused():
    class Blur:
        mask = None
        complete = True

    problem = paths.problem()
    mixed = type(problem)(problem.y, Blur(), problem.noise_std)
    with pytest.raises(UsageError, match="single known and missing pixels"):
        paths.build("ddrm", mixed)
