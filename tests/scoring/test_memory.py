"""Large pictures are scored a few rows at a time: the same numbers, in bounded memory."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from diffbcp_cli.scoring import arrays, calibration, metrics


def pictures(shape: tuple[int, int, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A truth, a result and its standard deviations, float32; some entries are exact and have none."""
    rng = np.random.default_rng(seed)
    truth = rng.random(shape, np.float32)
    std = 0.1 * rng.random(shape, np.float32)
    std[rng.random(shape) < 0.1] = 0
    return truth + std * rng.standard_normal(shape, np.float32), truth, std


def numbers(where: np.ndarray | None) -> dict[str, float]:
    mean, truth, std = pictures((173, 170, 3))
    draws = np.stack([mean, truth, mean + std, truth - std])
    half = 0.5 / 255
    return {
        "psnr": metrics.psnr(mean, truth, where),
        "mae": metrics.mae(mean, truth, where),
        "ssim": metrics.ssim(mean, truth, where),
        "ms_ssim": metrics.ms_ssim(mean, truth),
        "coverage": calibration.coverage(mean, std, truth, (0.5, 0.9), where, step=half).sum(),
        "of draws": calibration.coverage_from_samples(draws, truth, (0.5, 0.9), where).sum(),
        "crps": calibration.crps_gaussian(mean, std, truth, where),
        "crps of draws": calibration.crps_from_samples(draws, truth, where),
        "nll": calibration.gaussian_nll(mean, std, truth, where),
        "correlation": calibration.error_correlation(mean, std, truth, where),
        "ranks": calibration.error_rank_correlation(mean, std, truth, where),
        "ause": calibration.sparsification(mean, std, truth, where).area,
    }


@pytest.mark.parametrize("region", [False, True])
def test_a_few_rows_at_a_time_give_the_numbers_of_the_whole(monkeypatch, region):
    where = np.zeros((173, 170, 3), bool)
    where[20:90, 11:60] = np.random.default_rng(1).random((70, 49, 3)) < 0.4
    whole = numbers(where if region else None)
    monkeypatch.setattr(arrays, "AT_ONCE", 7 * 170 * 3)
    assert numbers(where if region else None) == pytest.approx(whole, rel=1e-12)


def test_of_very_many_entries_some_are_ranked(monkeypatch):
    """8,000 of 88,230 entries: the standard error of a rank correlation is 0.011; five of them pass at 6e-7."""
    mean, truth, std = pictures((173, 170, 3))
    exact = calibration.error_rank_correlation(mean, std, truth)
    area = calibration.sparsification(mean, std, truth).area
    monkeypatch.setattr(calibration, "MOST_RANKED", 8000)
    assert calibration.error_rank_correlation(mean, std, truth) == pytest.approx(exact, abs=0.056)
    assert calibration.sparsification(mean, std, truth).area == pytest.approx(area, abs=0.03)
    assert calibration.error_rank_correlation(mean, std, truth) != exact


def test_memory_stays_within_bounds(monkeypatch):
    """Whole arrays of float64 would take sixteen times the bytes of a picture, the smaller scales take one."""
    mean, truth, std = pictures((1200, 1000, 3))
    monkeypatch.setattr(arrays, "AT_ONCE", 2**16)
    monkeypatch.setattr(calibration, "MOST_RANKED", 2**16)
    tracemalloc.start()
    metrics.ssim(mean, truth)
    metrics.ms_ssim(mean, truth)
    metrics.psnr(mean, truth, truth > 0.5)
    calibration.coverage(mean, std, truth, (0.9,))
    calibration.crps_gaussian(mean, std, truth)
    calibration.error_correlation(mean, std, truth)
    calibration.error_rank_correlation(mean, std, truth)
    calibration.sparsification(mean, std, truth)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.5 * mean.nbytes
