"""Draws of the finished picture: exact where the answer is known, and of use on a photograph."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
import torch
from smooth import config, photograph

from diffbcp_cli.estimators.uncertainty import FEW, USUAL, draw_pictures, smooth_std
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.priors.gaussian import GaussianPrior


@pytest.mark.statistical
def test_where_all_is_known_the_draws_have_the_posteriors_mean_and_spread():
    """Independent pixels x ~ N(0, 0.25), noise 0.3: x given y is exact, and the solver's three calls come near."""
    prior, rng = GaussianPrior(torch.zeros(()), torch.tensor(0.25)), torch.Generator().manual_seed(0)
    values = 0.5 * torch.randn(1, 40, 40, generator=rng)
    everything = torch.ones_like(values, dtype=torch.bool)
    draws = torch.stack(list(islice(draw_pictures(prior, values, everything, values, 0.3, rng=rng), 60)))
    exact = prior.denoise(values[None], 0.3)[0]
    assert (draws.mean(0) - exact).square().mean().sqrt() < 0.06
    assert float(draws.var(0).mean()) == pytest.approx(float(prior.posterior_var(0.3)), rel=0.35)


def test_filled_pixels_differ_more_than_known_ones():
    prior, rng = GaussianPrior(torch.zeros(()), torch.tensor(0.25)), torch.Generator().manual_seed(0)
    values = torch.zeros(1, 32, 32)
    known = torch.rand(values.shape, generator=rng) < 0.5
    draws = torch.stack(list(islice(draw_pictures(prior, values, known, values, 0.05, rng=rng), 20)))
    assert draws.std(0)[~known].mean() > 1.5 * draws.std(0)[known].mean()


def test_smoothing_averages_variances_of_the_same_kind():
    known = torch.arange(8).expand(3, 8, 8) % 2 == 0
    flat = torch.where(known, 0.2, 0.7)
    torch.testing.assert_close(smooth_std(flat, known), flat)
    spike = torch.zeros(1, 9, 9)
    spike[0, 4, 4] = 3.0
    everything = torch.ones(1, 9, 9, dtype=torch.bool)
    assert smooth_std(spike, everything)[0, 3:6, 3:6].unique().tolist() == pytest.approx([1.0])
    twice = smooth_std(spike, everything, rounds=2)
    torch.testing.assert_close(twice, smooth_std(smooth_std(spike, everything), everything))
    assert float(twice.square().sum()) == pytest.approx(9.0)


@pytest.mark.parametrize("effort", [USUAL, FEW])
def test_draws_take_the_calls_that_are_announced(effort):
    levels = []

    class Counting(GaussianPrior):
        def denoise(self, x, sigma):
            levels.append(float(sigma))
            return super().denoise(x, sigma)

    prior, rng = Counting(torch.zeros(()), torch.tensor(0.25)), torch.Generator().manual_seed(0)
    values, known = torch.zeros(1, 8, 8), torch.zeros(1, 8, 8, dtype=torch.bool)
    draws = draw_pictures(prior, values, known, values, 0.05, levels=effort.levels, rng=rng)
    assert len(list(islice(draws, effort.draws))) == effort.draws
    assert len(levels) == effort.calls
    assert levels[0] == pytest.approx(0.4)


def test_the_uncertainty_of_a_photograph_shows_where_the_errors_are():
    from diffbcp_cli import load_prior

    truth, rng = photograph(), np.random.default_rng(0)
    observed = np.broadcast_to(rng.random((*truth.shape[:2], 1)) < 0.4, truth.shape)
    noisy = (truth + 0.02 * rng.standard_normal(truth.shape)).astype(np.float32)
    prior = load_prior("natural")
    both = {
        calls: restore(noisy, observed, config(rank=30, iterations=12, finish=calls), prior=prior)
        for calls in (0, 8)
    }

    def agreement(calls):
        error = np.abs(both[calls].mean - truth)[~observed]
        return np.corrcoef(both[calls].std[~observed], error)[0, 1]

    assert agreement(8) > agreement(0) + 0.15
    assert agreement(8) > 0.3


def test_samples_lie_around_the_finished_picture_as_far_as_the_std_says():
    truth = photograph()[:48, :48]
    observed = np.random.default_rng(0).random(truth.shape) < 0.5
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.1))
    done = restore(
        truth, observed, config(iterations=40, burn_in=8, thin=1, finish=4, save=("samples",)), prior=prior
    )
    assert done.samples is not None
    assert len(done.samples) == 32
    away = np.abs(done.samples.mean(0) - done.mean)
    assert np.median(away) < 0.1 * np.median(done.std)
    for part in (observed, ~observed):
        ratio = done.samples.var(0)[part].mean() / np.square(done.std[part]).mean()
        assert ratio == pytest.approx(1, abs=0.1)
