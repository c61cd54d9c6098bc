"""The coupling distance from the noise."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
import tiny
import torch
from sampling import sampler, steps

from diffbcp_cli.lowrank.likelihood import observe
from diffbcp_cli.lowrank.tensorize import tensorize
from diffbcp_cli.methods.low_rank import Settings
from diffbcp_cli.methods.split_gibbs import Adaptive
from diffbcp_cli.priors.gaussian import GaussianPrior

RULE = Adaptive(strength=100.0, smallest=0.3, largest=10.0)


@pytest.mark.parametrize(
    ("noise_precision", "rho"),
    [(25.0, 2.0), (100.0, 1.0), (400.0, 0.5), (1e9, 0.3), (1e-9, 10.0), (100 / 0.09, 0.3), (1.0, 10.0)],
)
def test_rho_is_the_square_root_of_strength_over_tau_within_its_bounds(noise_precision, rho):
    assert RULE.rho(noise_precision) == pytest.approx(rho)


def test_equal_bounds_fix_rho():
    rule = Adaptive(strength=3.0, smallest=0.7, largest=0.7)
    assert {rule.rho(tau) for tau in (1e-6, 1.0, 4.0, 1e6)} == {0.7}


def test_less_noise_and_less_strength_pull_harder():
    assert RULE.rho(50.0) > RULE.rho(60.0)
    assert Adaptive(50.0).rho(100.0) < Adaptive(100.0).rho(100.0)


def test_rho_follows_the_noise_in_burn_in_and_stays_afterwards():
    """A rho that follows the noise has no joint density with it, so the draws that count have a fixed one."""
    image, mask = tiny.photograph((3, 16, 16))
    seen = observe(image, mask, tensorize((3, 16, 16), "patch", patch=8, stride=4))
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.25))
    rule = Adaptive(strength=1.0, smallest=1e-3, largest=1e3)
    method = replace(sampler(seen, prior, Settings(rank=3, warm_up=1), rule=rule), settled=6)
    rhos = [draw.numbers["rho"] for _, draw in islice(steps(method, rng=tiny.rng()), 12)]
    assert len(set(rhos[1:6])) == 5
    assert len(set(rhos[5:])) == 1
    assert method.planned(burn_in=9).settled == 9
    assert sampler(seen, prior).planned(burn_in=9).settled is None
