"""DAPS: its exact draw given the data, its ODE, and the law of the whole path under a Gaussian prior."""

from __future__ import annotations

import math
from itertools import pairwise

import paths
import pytest
import tiny
import torch

from diffbcp_cli.methods.daps import LAST_LEVEL, LAST_ODE_LEVEL

SIDE = 256


def flow_gain(sigma, calls, std=paths.STD):
    """What the Euler steps of the ODE multiply a picture by, if D(x, s) = x p^2 / (p^2 + s^2)."""
    if calls > 1:
        ends = (sigma ** (1 / 7), LAST_ODE_LEVEL ** (1 / 7))
        levels = [(ends[0] + k / (calls - 1) * (ends[1] - ends[0])) ** 7 for k in range(calls)]
    else:
        levels = [sigma]
    gain = 1.0
    for s, s_next in zip(levels, [*levels[1:], 0.0], strict=True):
        d = std**2 / (std**2 + s**2)
        gain *= d + s_next / s * (1 - d)
    return gain


def law(levels, calls, spread, noise, value):
    """Mean and variance of the result for an entry with the data `value`, None if it is missing: all is linear."""
    mean, var = 0.0, levels[0] ** 2
    for sigma, lower in pairwise(levels):
        gain = flow_gain(sigma, calls)
        mean, var = gain * mean, gain**2 * var
        pull, data = (spread * sigma) ** -2, 0.0 if value is None else noise**-2
        share = pull / (pull + data)
        mean, var = share * mean + (1 - share) * (value or 0.0), share**2 * var
        if lower:
            var += 1 / (pull + data) + lower**2
    return mean, var


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_the_flow_is_the_probability_flow_ode_in_euler_steps(calls):
    method = paths.build("daps", paths.problem(), ode_steps=calls).descent
    x = tiny.normal(1, 16, 16, generator=tiny.rng(0), dtype=torch.float32)
    torch.testing.assert_close(method.flow(x, 2.0), flow_gain(2.0, calls) * x, rtol=1e-4, atol=1e-6)


def test_many_steps_of_the_flow_keep_the_quantile():
    """The exact ODE of N(0, p^2) multiplies by p / sqrt(p^2 + sigma^2)."""
    method = paths.build("daps", paths.problem(), ode_steps=400).descent
    exact = paths.STD / math.hypot(paths.STD, 2.0)
    assert float(method.flow(torch.ones(1, 1, 1), 2.0)) == pytest.approx(exact, rel=0.02)


def test_the_draw_given_the_data_is_exact():
    """Precision 1/(r s)^2 + O/n^2, mean by these weights; then noise of the next level."""
    problem, sigma, lower = paths.problem(SIDE, known=0.5), 0.6, 0.3
    method = paths.build("daps", problem, daps_spread=0.5).descent
    x = torch.full((1, SIDE, SIDE), 0.8)
    clean = 0.8 * flow_gain(sigma, 5)
    drawn, shown = method.down(x, sigma, lower, rng=tiny.rng(0))
    assert float(shown[0, 0, 0]) == pytest.approx(clean, rel=1e-4)
    pull, data = (0.5 * sigma) ** -2, paths.NOISE**-2
    for entries, mean, precision in [
        (drawn[problem.known], (pull * clean + data * paths.VALUE) / (pull + data), pull + data),
        (drawn[~problem.known], clean, pull),
    ]:
        std = math.sqrt(1 / precision + lower**2)
        assert float(entries.mean()) == pytest.approx(mean, abs=5 * std / math.sqrt(len(entries)))
        assert float(entries.std()) == pytest.approx(std, rel=0.02)


@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_the_whole_path_has_its_exact_law_under_a_gaussian_prior(spread):
    problem = paths.problem(SIDE, known=0.5)
    method = paths.build("daps", problem, iterations=12, ode_steps=2, daps_spread=spread)
    image = paths.run(method)[-1]
    for entries, value in [(image[problem.known], paths.VALUE), (image[~problem.known], None)]:
        mean, var = law(method.levels, 2, spread, paths.NOISE, value)
        assert float(entries.mean()) == pytest.approx(mean, abs=5 * math.sqrt(var / len(entries)))
        assert float(entries.std()) == pytest.approx(math.sqrt(var), rel=0.02)


def test_by_default_that_law_is_near_the_posterior():
    """Known entries have nearly its mean while the noise is weak. Missing ones have nearly its spread.

    With the spread of the paper's equation, r = 1, an exact draw makes missing entries a quarter too wide or more.
    """
    method = paths.build("daps", paths.problem())
    assert (method.length, method.descent.calls, method.descent.spread) == (200, 5, 0.5)
    for noise, off in ((0.02, 0.005), (0.05, 0.02), (0.1, 0.06)):
        mean, _ = law(method.levels, 5, 0.5, noise, paths.VALUE)
        exact = paths.STD**2 * paths.VALUE / (paths.STD**2 + noise**2)
        assert mean == pytest.approx(exact, rel=off)
    assert math.sqrt(law(method.levels, 5, 0.5, 0.1, None)[1]) == pytest.approx(paths.STD, rel=0.05)
    assert math.sqrt(law(method.levels, 5, 1.0, 0.1, None)[1]) > 1.25 * paths.STD


def test_the_levels_and_the_calls():
    prior = paths.Counting()
    method = paths.build("daps", paths.problem(), prior, iterations=6, ode_steps=3)
    paths.run(method)
    assert len(prior.levels) == 18
    assert prior.levels[::3] == pytest.approx(method.levels[:-1])
    assert method.levels[0] == pytest.approx(4.0)
    assert method.levels[-2:] == (pytest.approx(LAST_LEVEL), 0.0)
