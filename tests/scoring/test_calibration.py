"""Coverage, CRPS, NLL and the ranking of errors, against answers known in closed form."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from diffbcp_cli.scoring import calibration


@pytest.fixture(scope="module")
def calibrated():
    """mean, std (varying), and a truth drawn from exactly that: (80, 100, 3)."""
    rng = np.random.default_rng(7)
    shape = (80, 100, 3)
    mean = rng.uniform(0.2, 0.8, shape)
    std = rng.uniform(0.01, 0.2, shape)
    return mean, std, mean + std * rng.standard_normal(shape)


def test_coverage_of_a_calibrated_gaussian_is_its_level(calibrated):
    mean, std, truth = calibrated
    levels = calibration.RELIABILITY_LEVELS
    assert calibration.coverage(mean, std, truth, levels) == pytest.approx(levels, abs=0.015)
    assert calibration.coverage(mean, 0.5 * std, truth, [0.9])[0] == pytest.approx(0.589, abs=0.015)


def test_coverage_counts_only_where_asked_and_zero_std_only_when_exact():
    mean, truth = np.zeros((2, 3)), np.zeros((2, 3))
    truth[0] = 1.0
    where = np.zeros((2, 3), dtype=bool)
    where[1] = True
    assert calibration.coverage(mean, np.zeros((2, 3)), truth)[0] == 0.5
    assert calibration.coverage(mean, np.zeros((2, 3)), truth, where=where)[0] == 1.0


def test_a_rounded_truth_does_not_make_stairs_of_the_coverage_of_a_small_std():
    rng = np.random.default_rng(3)
    shape, step = (100, 100, 3), 1.0 / 255.0
    mean = np.round(rng.uniform(0.2, 0.8, shape) / step) * step
    std = np.full(shape, 1.5 * step)
    truth = np.round((mean + std * rng.standard_normal(shape)) / step) * step
    levels = calibration.RELIABILITY_LEVELS
    literal = calibration.coverage(mean, std, truth, levels)
    assert np.abs(literal - levels).max() > 0.08
    assert calibration.coverage(mean, std, truth, levels, step=step) == pytest.approx(levels, abs=0.025)
    still = calibration.coverage(mean, np.zeros(shape), mean, [0.5], step=step)
    assert still == pytest.approx([1.0])


@pytest.mark.parametrize("draws", [5, 20, 21])
def test_coverage_from_few_exchangeable_samples_is_unbiased_at_every_level(draws):
    rng = np.random.default_rng(draws)
    everything = rng.gamma(2.0, size=(draws + 1, 90, 100, 2)).astype(np.float32)
    levels = (0.1, *calibration.LEVELS, 0.99)
    got = calibration.coverage_from_samples(everything[1:], everything[0], levels)
    assert got == pytest.approx(levels, abs=0.015)


def test_coverage_from_samples_sees_overconfidence_and_exact_entries():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((50, 60, 1))
    narrow = 0.5 * rng.standard_normal((20, 50, 60, 1))
    assert calibration.coverage_from_samples(narrow, truth, [0.9])[0] < 0.7
    exact = np.broadcast_to(truth, (20, *truth.shape))
    assert calibration.coverage_from_samples(exact, truth, [0.5, 0.9]) == pytest.approx([1.0, 1.0])


def test_gaussian_crps_equals_the_integral():
    grid = np.linspace(-8.0, 8.0, 200_001)
    for mean, std, truth in [(0.1, 0.3, 0.4), (0.0, 1.0, -2.0), (0.5, 0.05, 0.5)]:
        gap = stats.norm.cdf(grid, mean, std) - (grid >= truth)
        integral = float((gap**2).sum() * (grid[1] - grid[0]))
        got = calibration.crps_gaussian(*(np.full((1, 1), v) for v in (mean, std, truth)))
        assert got == pytest.approx(integral, abs=1e-4)
    assert calibration.crps_gaussian(np.zeros((1, 1)), np.zeros((1, 1)), np.full((1, 1), -0.25)) == 0.25


def test_sample_crps_is_unbiased_for_few_draws_and_chunks_do_not_matter(calibrated):
    mean, std, truth = calibrated
    rng = np.random.default_rng(1)
    samples = mean + std * rng.standard_normal((6, *mean.shape))
    assert calibration.crps_from_samples(samples, truth) == pytest.approx(
        calibration.crps_gaussian(mean, std, truth), rel=0.02
    )
    by_hand = np.abs(samples[:, 3, 4] - truth[3, 4]).mean(0)
    for i in range(6):
        by_hand -= np.abs(samples[i, 3, 4] - samples[:, 3, 4]).sum(0) / (2 * 6 * 5)
    one = np.zeros(mean.shape[:2], dtype=bool)
    one[3, 4] = True
    assert calibration.crps_from_samples(samples, truth, one) == pytest.approx(by_hand.mean())


def test_nll_is_the_density_and_its_floor_holds(calibrated):
    mean, std, truth = calibrated
    expected = -stats.norm.logpdf(truth, mean, std).mean()
    assert calibration.gaussian_nll(mean, std, truth) == pytest.approx(expected)
    at_floor = -stats.norm.logpdf(0.0, 0.0, calibration.STD_FLOOR)
    assert calibration.gaussian_nll(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1))) == pytest.approx(
        at_floor
    )


def test_correlations_equal_scipys(calibrated):
    mean, std, truth = calibrated
    std = np.round(std, 2)  # ties
    size = np.abs(truth - mean).ravel()
    assert calibration.error_correlation(mean, std, truth) == pytest.approx(
        stats.pearsonr(std.ravel(), size)[0]
    )
    rank = stats.spearmanr(std.ravel(), size)[0]
    assert calibration.error_rank_correlation(mean, std, truth) == pytest.approx(rank)
    assert math.isnan(calibration.error_correlation(mean, np.ones_like(std), truth))


def test_sparsification_is_zero_for_the_oracle_and_worse_when_std_knows_nothing(calibrated):
    mean, std, truth = calibrated
    size = np.abs(truth - mean)
    assert calibration.sparsification(mean, size, truth).area == pytest.approx(0.0, abs=1e-12)
    informed = calibration.sparsification(mean, std, truth)
    blind = calibration.sparsification(mean, np.ones_like(std), truth)
    assert 0.0 < informed.area < blind.area
    assert blind.by_std == pytest.approx(np.ones(20))  # equal std: no order of the pixels is better
    assert (informed.by_std[0], informed.by_error[0]) == pytest.approx((1.0, 1.0))
    assert np.all(np.diff(informed.by_error) < 0.0)


def test_sparsification_of_four_entries_by_hand():
    error = np.array([[1.0, 2.0, 3.0, 4.0]])
    std = np.array([[4.0, 3.0, 2.0, 1.0]])
    curve = calibration.sparsification(np.zeros((1, 4)), std, error, steps=4)
    assert curve.by_std * 2.5 == pytest.approx([2.5, 3.0, 3.5, 4.0])
    assert curve.by_error * 2.5 == pytest.approx([2.5, 2.0, 1.5, 1.0])
    assert curve.area * 2.5 == pytest.approx((0.5 * 1 + 0.5 * (1 + 2) + 0.5 * (2 + 3) + 0.5 * 3) / 4)
