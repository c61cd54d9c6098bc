"""The conditional of the noise against the joint density: differences of the log joint between two values."""

from __future__ import annotations

import dataclasses
import math

import pytest
import tiny
import torch
from scipy import stats

from diffbcp_cli import random
from diffbcp_cli.lowrank.cp import reconstruct
from diffbcp_cli.lowrank.likelihood import draw_noise_precision, observe, squared_error
from diffbcp_cli.lowrank.stream import observe_in_chunks, observe_some
from diffbcp_cli.lowrank.tensorize import tensorize

HYPER = tiny.PROPER
LAYOUT = ((2, 3), (5,))
RANK = 4


def test_the_squared_error_counts_observed_entries_with_their_weights():
    observation, state = tiny.random_observation(*LAYOUT), tiny.random_state(*LAYOUT, RANK)
    x, total = reconstruct(state), 0.0
    for u, v in observation.observed.nonzero().tolist():
        total += float(observation.weight[u, v]) * float(observation.values[u, v] - x[u, v]) ** 2
    assert squared_error(x, observation) == pytest.approx(total, rel=1e-12)


def test_the_noise_precision_is_drawn_from_the_joint(monkeypatch):
    """Gamma(shape, rate) read off the call: the draw at gamma = 1 is 1 / rate."""
    observation, state = tiny.random_observation(*LAYOUT), tiny.random_state(*LAYOUT, RANK)
    shapes = []

    def one(shape, *, rng):
        shapes.append(float(shape))
        return torch.ones(shape.shape, dtype=torch.float64)

    square = squared_error(reconstruct(state), observation)
    monkeypatch.setattr(random, "gamma", one)
    rate = 1 / draw_noise_precision(square, observation.count, HYPER.noise, rng=tiny.rng())
    (shape,) = shapes
    model = tiny.model_of(state, observation, HYPER)
    for tau, other in [(0.3, 2.0), (5.0, 1.1)]:
        one, two = (
            dataclasses.replace(model, noise_precision=torch.tensor(t, dtype=torch.float64))
            for t in (tau, other)
        )
        expected = (shape - 1) * math.log(tau / other) - rate * (tau - other)
        assert tiny.difference(one, two) == pytest.approx(expected, rel=1e-9)


@pytest.mark.statistical
def test_noise_precisions_follow_their_gamma():
    """KS at 1e-5, seed fixed."""
    generator = tiny.rng(3)
    draws = [draw_noise_precision(7.0, 9.0, HYPER.noise, rng=generator) for _ in range(4000)]
    exact = stats.gamma(HYPER.noise.shape + 4.5, scale=1 / (HYPER.noise.rate + 3.5))
    assert stats.kstest(draws, exact.cdf).pvalue > 1e-5


@pytest.mark.parametrize("once", [True, False])
def test_the_shares_of_a_pixel_in_its_coupling_add_up_to_one(once):
    """Else Z would be held to the picture by another rho than the one that it is drawn with."""
    size = (2, 30, 26)
    image, mask = tiny.photograph(size)
    shape = tensorize(size, "patch", patch=8, stride=4)
    whole = observe(image, mask, shape, once=once)
    torch.testing.assert_close(shape.fold(whole.pull), torch.ones(size))
    total = torch.zeros(size)
    for chunk in observe_in_chunks(image, mask, shape, once=once, budget=1).chunks:
        total[:, chunk.rows] += chunk.observation.shape.fold(chunk.observation.pull)
    torch.testing.assert_close(total, torch.ones(size))
    some = observe_some(image, mask, shape, shape.right[0], once=once, rng=tiny.rng())
    torch.testing.assert_close(some.shape.fold(some.pull), torch.ones(size))
