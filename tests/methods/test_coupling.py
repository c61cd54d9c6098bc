"""The coupling distance from the noise."""

from __future__ import annotations

import pytest

from diffbcp_cli.methods.split_gibbs import Adaptive

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
