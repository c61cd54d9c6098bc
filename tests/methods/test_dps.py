"""DPS: its gradient against differences and the closed form, and its step with and without data."""

from __future__ import annotations

import math

import paths
import pytest
import tiny
import torch

from diffbcp_cli.methods.dps import DPS
from diffbcp_cli.operators.mask import Mask
from diffbcp_cli.priors.reverse import ancestral
from diffbcp_cli.problem import Problem


class Linear:
    """A toy network: D(x, sigma) = x M / (1 + sigma), M mixing the pixels of a row."""

    traits = paths.Counting.traits

    def __init__(self, width):
        self.matrix = tiny.normal(width, width, generator=tiny.rng(5)) / width

    def denoise(self, x, sigma):
        return x @ self.matrix.to(x.dtype) / (1 + sigma)


def test_the_gradient_is_that_of_finite_differences():
    known = torch.rand(1, 4, 5, generator=tiny.rng(1)) < 0.6
    y = torch.where(known, 0.3 * tiny.normal(1, 4, 5, generator=tiny.rng(2)), 0.0)
    method, x = DPS(Problem(y, Mask(known)), Linear(5), 0.5), tiny.normal(1, 4, 5, generator=tiny.rng(3))

    def norm(x):
        clean = method.prior.denoise(x[None], 0.7)[0].clamp(-1, 1)
        return float((y - clean)[known].square().sum().sqrt())

    clean, gradient = method.gradient(x, 0.7)
    torch.testing.assert_close(clean, method.prior.denoise(x[None], 0.7)[0])
    step = 1e-6
    for place in [(0, 0, 0), (0, 1, 3), (0, 3, 4)]:
        moved = torch.zeros_like(x)
        moved[place] = step
        slope = (norm(x + moved) - norm(x - moved)) / (2 * step)
        assert float(gradient[place]) == pytest.approx(slope, rel=1e-5, abs=1e-9)


def test_the_gradient_under_a_gaussian_prior_is_known():
    """x0 = g x with g = p^2 / (p^2 + sigma^2): the gradient is g O (x0 - y) / |O (x0 - y)|."""
    problem, sigma = paths.problem(known=0.5), 0.8
    x = 0.5 * tiny.normal(1, 16, 16, generator=tiny.rng(4), dtype=torch.float32)
    _, gradient = DPS(problem, paths.Counting(), 0.5).gradient(x, sigma)
    g = paths.STD**2 / (paths.STD**2 + sigma**2)
    off = torch.where(problem.known, g * x - problem.y, 0)
    torch.testing.assert_close(gradient, g * off / off.norm())


def test_in_the_variance_preserving_picture_the_step_is_zeta_times_the_gradient():
    """The published step, written out in its own coordinates x / sqrt(1 + sigma^2)."""
    problem, zeta = paths.problem(known=0.5), 0.7
    method = paths.build("dps", problem, dps_zeta=zeta, iterations=5)
    free = paths.build("dps", problem, dps_zeta=0.0, iterations=5)
    state = method.init(rng=tiny.rng(0))
    with_data, without = (one.step(state, rng=tiny.rng(1))[0].x for one in (method, free))
    sigma, lower = method.levels[:2]
    kept, kept_after = 1 / (1 + sigma**2), 1 / (1 + lower**2)  # alpha bar of both levels
    vp = (math.sqrt(kept) * state.x).requires_grad_()
    clean = vp * math.sqrt(kept) * paths.STD**2 / (kept * paths.STD**2 + 1 - kept)
    norm = (problem.y - clean)[problem.known].square().sum().sqrt()
    (gradient,) = torch.autograd.grad(norm, vp)
    moved = math.sqrt(kept_after) * (with_data - without)
    torch.testing.assert_close(moved, -zeta * gradient, rtol=1e-3, atol=1e-6)


def test_without_a_step_it_draws_from_the_prior():
    """The ancestral sampler, bit for bit, and for a Gaussian prior its std."""
    problem = paths.problem(64)
    method = paths.build("dps", problem, paths.Counting(0.2), dps_zeta=0.0, iterations=400)
    image, rng = paths.run(method, seed=3)[-1], tiny.rng(3)
    x = method.init(rng=rng).x
    levels = torch.tensor(method.levels, dtype=torch.float64)
    torch.testing.assert_close(image, ancestral(paths.Counting(0.2), x[None], levels, rng=rng).sample[0])
    assert float(image.std()) == pytest.approx(0.2, rel=0.1)
    assert float(image.mean()) == pytest.approx(0.0, abs=0.02)


def test_missing_entries_do_not_count():
    problem = paths.problem(known=0.5)
    filled = Problem(torch.where(problem.known, problem.y, 0.0), problem.operator)
    noise = paths.build("dps", filled, iterations=8)
    assert torch.equal(paths.run(noise)[-1], paths.run(paths.build("dps", problem, iterations=8))[-1])
    x = tiny.normal(1, 16, 16, generator=tiny.rng(6), dtype=torch.float32)
    _, gradient = noise.descent.gradient(x, 0.5)
    assert not gradient[~problem.known].any()


def test_nothing_known_is_no_trouble():
    image = paths.run(paths.build("dps", paths.problem(known=0.0), iterations=8))[-1]
    assert bool(image.isfinite().all())


def test_the_distance_to_the_data_falls():
    problem = paths.problem(32, known=0.5)
    images = paths.run(paths.build("dps", problem, iterations=200, dps_zeta=1.0))
    count = float(problem.known.sum())
    off = [float((image - problem.y)[problem.known].square().sum().div(count).sqrt()) for image in images]
    assert off[-1] < 0.5 * paths.NOISE < 0.5 * max(off)


def test_a_step_keeps_no_graph():
    method, rng = paths.build("dps", paths.problem(), iterations=3), tiny.rng(0)
    state, info = method.step(method.init(rng=rng), rng=rng)
    assert not any(image.requires_grad for image in (state.x, state.clean, info.image))
