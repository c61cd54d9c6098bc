"""PnP-DM: its coupling rule, what it draws, and the noise level that it must be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from conftest import picture

from diffbcp_cli.errors import InputError
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.methods.pnp_dm import Annealed, build
from diffbcp_cli.operators.mask import masked_problem
from diffbcp_cli.options import Options, resolve
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.random import Seeds
from diffbcp_cli.units import to_signed
from diffbcp_cli.watch import Watch

OPTIONS = Options(method="pnp-dm", iterations=30, burn_in=15, device="cpu")


def wide_prior():
    return GaussianPrior(torch.zeros(()), torch.tensor(0.25))


def test_rho_falls_by_a_tenth_and_reaches_its_smallest_value_within_burn_in():
    rule = Annealed(10.0, 0.3, burn_in=40)
    assert [rule.rho(1.0, k) for k in range(3)] == pytest.approx([10.0, 9.0, 8.1])
    short = replace(rule, burn_in=5)
    assert short.rho(1.0, 0) == 10.0
    assert all(one.rho(1.0, one.burn_in + k) == 0.3 for one in (rule, short) for k in range(3))
    falling = [short.rho(1.0, k) for k in range(6)]
    assert falling == sorted(falling, reverse=True)
    assert rule.planned(burn_in=0).rho(1.0, 0) == 0.3


def test_another_burn_in_changes_the_rule_of_both_steps():
    problem = masked_problem(picture(16, 16).astype(np.float32), np.ones((16, 16, 3), bool), noise_std=0.1)
    method = build(problem, wide_prior(), OPTIONS, Seeds(0, ""), Watch()).planned(burn_in=7)
    assert method.rule.burn_in == method.image_step.rule.burn_in == 7


def test_the_draw_that_counts_is_the_priors_image():
    problem = masked_problem(picture(16, 16).astype(np.float32), np.ones((16, 16, 3), bool), noise_std=0.1)
    method, rng = build(problem, wide_prior(), OPTIONS, Seeds(0, ""), Watch()), tiny.rng()
    state, info = method.step(method.init(rng=rng), rng=rng)
    assert info.image is state.prior_image is info.prior_image
    assert info.numbers["rho"] == 10.0
    assert info.change is None
    after, later = method.step(state, rng=rng)
    change = (after.prior_image - state.prior_image).square().mean().sqrt()
    assert float(later.change) == pytest.approx(float(change))


@pytest.mark.parametrize("noise", [0.02, 0.1])
@pytest.mark.parametrize("known", [0.5, 1.0])
def test_a_noise_level_that_is_not_given_is_estimated_by_the_prior(noise, known):
    """White pictures of a Gaussian prior with a small variance: what is left is noise."""
    rng = np.random.default_rng(0)
    truth = 0.5 + 0.02 * rng.standard_normal((64, 64, 3))
    pixels = (truth + noise * rng.standard_normal(truth.shape)).astype(np.float32)
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.04**2))
    found = restore(pixels, rng.random(truth.shape) < known, OPTIONS, prior=prior)
    assert found.numbers["noise_source"] == "prior"
    assert found.noise["std"] == pytest.approx(noise, rel=0.15)
    assert found.trace.noise_std == pytest.approx([found.noise["std"]] * 30)
    assert "rank" not in found.numbers
    assert "tensor_noise" not in found.numbers


def test_a_noise_level_that_is_given_is_used():
    pixels, observed = picture(16, 16).astype(np.float32), np.ones((16, 16, 3), bool)
    found = restore(pixels, observed, replace(OPTIONS, sigma=0.05), prior=wide_prior())
    assert found.numbers["noise_source"] == "given"
    assert found.trace.noise_std == pytest.approx([0.05] * 30)


def test_too_few_known_pixels_for_an_estimate_are_refused_with_the_way_out():
    pixels, observed = picture(16, 16).astype(np.float32), np.zeros((16, 16, 3), bool)
    observed[:2, :4] = True
    with pytest.raises(InputError, match="too few pixels") as refused:
        restore(pixels, observed, OPTIONS, prior=wide_prior())
    assert "--sigma" in refused.value.hint
    restore(pixels, observed, replace(OPTIONS, sigma=0.05), prior=wide_prior())


def test_a_prior_that_knows_the_picture_fills_it():
    pixels = picture(24, 24).astype(np.float32)
    observed = np.random.default_rng(0).random(pixels.shape) < 0.3
    prior = GaussianPrior(to_signed(pixels), torch.tensor(1e-4))
    found = restore(pixels, observed, replace(OPTIONS, sigma=0.02), prior=prior)
    assert np.abs(found.mean - pixels).max() < 0.02


def test_values_for_large_pictures_are_those_of_the_low_rank_model_only():
    large = resolve({"method": "pnp-dm"}, height=2000, width=2000)
    assert large == resolve({"method": "pnp-dm"})
