"""The reverse process against the Gaussian prior, whose posterior is known."""

from __future__ import annotations

import pytest
import torch

from diffbcp_cli.errors import UsageError
from diffbcp_cli.priors import grids, reverse
from diffbcp_cli.priors.gaussian import GaussianPrior

RHO = 0.5
VARIANCES = torch.tensor([0.01, 0.1, 0.25, 1.0, 4.0], dtype=torch.float64)
DRAWS = 20_000


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def draws_of(solver, levels):
    """DRAWS independent draws for each prior variance, all from x = 0.7, under a prior of mean 0.2."""
    prior = GaussianPrior(torch.tensor(0.2, dtype=torch.float64), VARIANCES.reshape(5, 1, 1))
    x = torch.full((DRAWS, 5, 1, 1), 0.7, dtype=torch.float64)
    draw = solver(prior, x, levels, rng=rng())
    mean = prior.denoise(x[:1], RHO).flatten()
    return draw.sample[:, :, 0, 0], mean, prior.posterior_var(RHO).flatten(), draw


def check(found, mean, var, *, slack):
    """Mean and variance within 5 standard errors, plus `slack` times the posterior variance.

    10 numbers are compared; a right sampler fails about once in 200,000 runs, and the seed is fixed.
    """
    error = (found.mean(0) - mean).abs()
    assert (error < 5 * (var / DRAWS).sqrt() + slack * 0.1).all(), error
    ratio = found.var(0) / var
    assert ((ratio - 1).abs() < 5 * (2 / DRAWS) ** 0.5 + slack).all(), ratio


@pytest.mark.statistical
def test_many_ancestral_steps_draw_the_posterior():
    found, mean, var, _ = draws_of(reverse.ancestral, grids.power_grid(RHO, 300, last=0.01))
    check(found, mean, var, slack=0.02)


@pytest.mark.statistical
def test_twenty_second_order_steps_draw_the_posterior():
    found, mean, var, _ = draws_of(reverse.second_order, grids.power_grid(RHO, 20, last=0.05))
    check(found, mean, var, slack=0.02)


@pytest.mark.statistical
def test_many_steps_of_the_paper_draw_the_posterior():
    found, mean, var, _ = draws_of(reverse.euler_vp, grids.vp_times(RHO, steps=2000))
    check(found, mean, var, slack=0.05)


@pytest.mark.statistical
def test_four_second_order_calls_keep_the_variance_that_ancestral_ones_lose():
    levels = grids.power_grid(RHO, 4)
    first, _, var, _ = draws_of(reverse.ancestral, levels)
    second, mean, var, _ = draws_of(reverse.second_order, levels)
    assert (second.mean(0) - mean).abs().max() < 0.02
    assert ((second.var(0) - var).abs() < 0.08 * RHO**2).all()
    assert (first.var(0) < 0.75 * var).all()


@pytest.mark.parametrize("solver", reverse.SOLVERS)
def test_a_seed_fixes_the_draw(solver):
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.3))
    x = torch.randn(2, 3, 8, 8, generator=rng(1))
    one, two, other = (reverse.sample(prior, x, RHO, solver=solver, rng=rng(s)).sample for s in (5, 5, 6))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("solver", reverse.SOLVERS)
def test_the_reported_mean_is_the_conditional_mean(solver):
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.3))
    x = torch.randn(1, 1, 8, 8, generator=rng(1))
    before = x.clone()
    draw = reverse.sample(prior, x, RHO, solver=solver, rng=rng())
    torch.testing.assert_close(draw.mean, prior.denoise(x, RHO), rtol=1e-5, atol=1e-6)
    assert torch.equal(x, before)


@pytest.mark.parametrize("solver", ["ancestral", "second-order"])
@pytest.mark.parametrize("calls", [1, 2, 5])
def test_it_makes_the_calls_it_is_given(solver, calls):
    class Counting(GaussianPrior):
        count = 0

        def denoise(self, x, sigma):
            self.count += 1
            return super().denoise(x, sigma)

    prior = Counting(torch.zeros(()), torch.tensor(0.3))
    draw = reverse.sample(prior, torch.zeros(1, 1, 4, 4), RHO, solver=solver, calls=calls, rng=rng())
    assert prior.count == draw.calls == calls


def test_one_call_gives_the_conditional_mean():
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.3))
    x = torch.randn(1, 3, 4, 4, generator=rng(1))
    draw = reverse.sample(prior, x, RHO, calls=1, rng=rng())
    assert torch.equal(draw.sample, draw.mean)


def test_an_unknown_solver_is_a_usage_error():
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.3))
    with pytest.raises(UsageError, match="unknown solver"):
        reverse.sample(prior, torch.zeros(1, 1, 4, 4), RHO, solver="heun", rng=rng())
