"""Metrics against public implementations and against answers known in closed form."""

from __future__ import annotations

import importlib
import math
import warnings

import numpy as np
import pytest
import torch
from eval_data import batch, needs, pair

from diffbcp_cli.errors import InputError
from diffbcp_cli.scoring import metrics

PAIRS = range(10)


@pytest.fixture(scope="module")
def monai():
    needs("monai")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MONAI's own imports warn
        return importlib.import_module("monai.metrics.regression")


@pytest.mark.parametrize("seed", PAIRS)
def test_psnr_and_ssim_equal_monais(monai, seed):
    a, b = pair(seed)
    assert metrics.psnr(a, b) == pytest.approx(
        monai.PSNRMetric(max_val=1.0)(batch(a), batch(b)).item(), abs=1e-5
    )
    assert metrics.ssim(a, b) == pytest.approx(
        monai.SSIMMetric(spatial_dims=2)(batch(a), batch(b)).item(), abs=1e-5
    )


@pytest.mark.parametrize("seed", PAIRS)
def test_psnr_and_ssim_equal_scikit_images(seed):
    needs("skimage")
    skimage = importlib.import_module("skimage.metrics")
    a, b = pair(seed, (41, 64, 3))
    assert metrics.psnr(a, b) == pytest.approx(
        skimage.peak_signal_noise_ratio(a, b, data_range=1.0), abs=1e-5
    )
    theirs = skimage.structural_similarity(
        a, b, data_range=1.0, channel_axis=2, gaussian_weights=True, sigma=1.5, use_sample_covariance=False
    )
    assert metrics.ssim(a, b) == pytest.approx(theirs, abs=1e-5)


@pytest.mark.parametrize("shape", [(161, 170, 3), (192, 203, 1)])
def test_ms_ssim_equals_pytorch_msssim(shape):
    needs("pytorch_msssim")
    public = importlib.import_module("pytorch_msssim")
    for seed in range(2):
        a, b = pair(seed, shape)
        theirs = public.ms_ssim(batch(a), batch(b), data_range=1.0).item()
        assert metrics.ms_ssim(a, b) == pytest.approx(theirs, abs=1e-5)


def test_grey_pictures_tensors_and_float32_give_the_same_numbers():
    a, b = pair(3, (32, 40, 1))
    for metric in (metrics.psnr, metrics.ssim, metrics.mae):
        expected = metric(a, b)
        assert metric(a[:, :, 0], b[:, :, 0]) == expected
        assert metric(torch.from_numpy(a), torch.from_numpy(b)) == expected
        assert metric(a.astype(np.float32), b.astype(np.float32)) == pytest.approx(expected, rel=1e-4)


def test_small_pictures_are_refused_by_name_and_number():
    a, b = pair(0, (10, 30, 3))
    with pytest.raises(InputError, match=r"SSIM needs at least 11x11 pixels, the picture is 30x10"):
        metrics.ssim(a, b)
    a, b = pair(0, (160, 200, 1))
    with pytest.raises(InputError, match="MS-SSIM needs at least 161x161"):
        metrics.ms_ssim(a, b)
    assert metrics.ssim(*pair(0, (11, 11, 1))) < 1.0


def test_pictures_of_different_size_are_refused():
    with pytest.raises(InputError, match="differ in size: 4x3 with 1 channel and 5x3 with 2 channels"):
        metrics.psnr(np.zeros((3, 4)), np.zeros((3, 5, 2)))


def test_equal_pictures_have_infinite_psnr_and_no_error():
    a, _ = pair(0)
    assert metrics.psnr(a, a) == math.inf
    assert metrics.mae(a, a) == 0.0
    assert metrics.ssim(a, a) == pytest.approx(1.0)


def test_regions_split_the_whole():
    a, b = pair(5)
    filled = np.random.default_rng(0).random((64, 48, 3)) < 0.3
    share = filled.mean()
    whole = share * metrics.mae(a, b, filled) + (1 - share) * metrics.mae(a, b, ~filled)
    assert metrics.mae(a, b) == pytest.approx(whole)
    pixels = filled[:, :, 0]
    changed = np.where(pixels[:, :, None], b, a)
    assert metrics.psnr(a, changed, ~pixels) == math.inf
    assert metrics.psnr(a, changed, pixels) == pytest.approx(metrics.psnr(a, b, pixels))
    centres = np.zeros((64, 48), dtype=bool)
    centres[20, 30] = True
    assert metrics.ssim(a, b, centres) == pytest.approx(
        metrics.ssim(a[15:26, 25:36], b[15:26, 25:36])  # the one window
    )


def test_an_empty_or_misshapen_region_is_refused():
    a, b = pair(0)
    with pytest.raises(InputError, match="empty"):
        metrics.mae(a, b, np.zeros((64, 48), dtype=bool))
    with pytest.raises(InputError, match="region has shape"):
        metrics.mae(a, b, np.ones((48, 64), dtype=bool))
