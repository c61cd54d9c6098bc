"""The noise level by the prior: the maximum of the likelihood, and what a run reports."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from smooth import config, draw, photograph, smooth_prior

from diffbcp_cli.estimators.noise import LOWEST, most_likely_noise
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.priors.gaussian import GaussianPrior


def best_of_the_density(prior, values):
    """The sigma that maximises the exact density of values under a Gaussian prior plus noise."""
    levels = np.geomspace(0.005, 1, 4000)
    coordinates = (values.flatten() @ prior.basis).square()[None]
    var = prior.var.flatten()[None] + torch.from_numpy(levels)[:, None] ** 2
    return levels[int((-0.5 * (coordinates / var + var.log()).sum(1)).argmax())]


@pytest.mark.parametrize("true_noise", [0.02, 0.05, 0.1])
def test_it_is_the_maximum_of_the_likelihood(true_noise):
    rng = torch.Generator().manual_seed(3)
    prior = smooth_prior(24)
    truth = 0.2 * draw(prior, rng)  # far from black and white
    prior = GaussianPrior(prior.mean, 0.04 * prior.var, basis=prior.basis)
    values = truth + true_noise * torch.randn(truth.shape, generator=rng).double()
    everything = torch.ones_like(truth, dtype=torch.bool)
    found = most_likely_noise(prior, values[None], everything[None], values[None], 0.3, rng=rng)
    assert found is not None
    assert found.std == pytest.approx(best_of_the_density(prior, values), rel=0.05)
    assert found.lower < true_noise < found.upper
    assert found.upper < 1.5 * found.lower


def test_too_few_known_pixels_cannot_tell():
    prior, rng = smooth_prior(16), torch.Generator().manual_seed(0)
    black, white = torch.zeros(1, 16, 16).double(), torch.ones(1, 16, 16).double()
    known = black > 0
    known[0, 0, :10] = True
    assert most_likely_noise(prior, black[None], known[None], black[None], 0.1, rng=rng) is None
    assert most_likely_noise(prior, 40 * white[None], white[None] > 0, white[None], 0.1, rng=rng) is None


@pytest.mark.parametrize("noise", [0.01, 0.03, 0.08])
def test_a_photographs_noise_is_found_within_a_fifth(noise):
    from diffbcp_cli import load_prior

    truth, prior = photograph(), load_prior("natural")
    noisy = truth + noise * np.random.default_rng(0).standard_normal(truth.shape).astype(np.float32)
    eight = (np.rint(noisy.clip(0, 1) * 255) / 255).astype(np.float32)
    done = restore(eight, np.ones(truth.shape, bool), config(), prior=prior)
    assert done.noise["std"] == pytest.approx(noise, rel=0.2)
    assert done.noise["lower"] < done.noise["std"] < done.noise["upper"]
    assert done.numbers["finish_level"] == pytest.approx(done.noise["std"])
    assert done.numbers["tensor_noise"]["std"] > done.noise["std"]


def test_a_clean_photograph_has_hardly_any_noise():
    from diffbcp_cli import load_prior

    truth = photograph()
    found = restore(truth, np.ones(truth.shape, bool), config(), prior=load_prior("natural")).noise
    assert LOWEST / 2 < found["std"] < 0.01


def test_a_noise_level_that_is_given_is_not_inferred():
    truth = photograph()[:32, :32]
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.25))
    done = restore(truth, np.ones(truth.shape, bool), config(sigma=0.05), prior=prior)
    assert done.numbers["noise_source"] == "given"
    assert done.noise["std"] == pytest.approx(0.05)
    assert done.numbers["finish_level"] == pytest.approx(0.05)
