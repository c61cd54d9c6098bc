"""The best average of several restorations."""

from __future__ import annotations

import pytest
import torch

from diffbcp_cli.estimators.ensemble import stack
from diffbcp_cli.estimators.ensemble import stacking_weights as weigh_with


def weigh(restored, truth, held, ridge=1e-4):
    return weigh_with(restored, truth, held, ridge=ridge)


def restorations(*stds, size=40000, shared=0.0):
    rng = torch.Generator().manual_seed(0)
    truth, common = torch.zeros(1, 1, size), shared * torch.randn(1, 1, size, generator=rng)
    return truth, [truth + common + std * torch.randn(1, 1, size, generator=rng) for std in stds]


def test_independent_errors_are_weighted_by_their_precision():
    truth, restored = restorations(0.1, 0.2)
    weights = weigh(restored, truth, torch.ones_like(truth, dtype=torch.bool))
    assert sum(weights) == pytest.approx(1)
    assert weights[0] == pytest.approx(0.8, abs=0.01)  # 1 / 0.1^2 against 1 / 0.2^2
    together = stack(restored, weights).square().mean()
    assert together < min(r.square().mean() for r in restored)


def test_noise_of_the_measured_values_changes_nothing():
    truth, restored = restorations(0.1, 0.2)
    noisy = truth + 0.1 * torch.randn(truth.shape, generator=torch.Generator().manual_seed(1))
    everywhere = torch.ones_like(truth, dtype=torch.bool)
    assert weigh(restored, noisy, everywhere) == pytest.approx(weigh(restored, truth, everywhere), abs=0.02)


def test_what_only_adds_an_error_gets_no_weight():
    truth, (good,) = restorations(0.1)
    worse = good + 0.3 * torch.randn(good.shape, generator=torch.Generator().manual_seed(2))
    weights = weigh([worse, good, 3 * good], truth, torch.ones_like(truth, dtype=torch.bool))
    assert weights[2] == 0
    assert weights[1] > 0.8
    assert min(weights) >= 0
    assert sum(weights) == pytest.approx(1)


def test_only_held_out_pixels_count_and_few_of_them_cannot_tell():
    truth, (good, bad) = restorations(0.01, 0.5)
    held = torch.zeros_like(truth, dtype=torch.bool)
    assert weigh([good, bad], truth, held) == [0.5, 0.5]
    held[..., :2000] = True
    swapped = [torch.where(held, good, bad), torch.where(held, bad, good)]
    assert weigh(swapped, truth, held)[0] > 0.9


def test_the_ridge_pulls_towards_equal_parts():
    truth, restored = restorations(0.1, 0.2)
    weights = weigh(restored, truth, torch.ones_like(truth, dtype=torch.bool), ridge=0.2)
    assert 0.7 < weights[0] < 0.78  # 1 / (0.1^2 + r) against 1 / (0.2^2 + r), r = 0.2 * 0.025


def test_a_restoration_that_is_not_finite_is_left_out():
    truth, (good, bad) = restorations(0.1, 0.2)
    restored = [good, bad * torch.nan]
    weights = weigh(restored, truth, torch.ones_like(truth, dtype=torch.bool))
    assert weights == [1, 0]
    assert torch.equal(stack(restored, weights), good)
