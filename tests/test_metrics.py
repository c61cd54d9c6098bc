"""Metrics against public implementations and against answers known in closed form."""

from __future__ import annotations

import importlib
import math
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from eval_data import needs
from scipy import stats

from diffbcp_cli.errors import InputError, ModelError
from diffbcp_cli.scoring import lpips as perceptual
from diffbcp_cli.scoring import metrics

PAIRS = range(10)


def pair(seed: int, shape: tuple[int, int, int] = (64, 48, 3)) -> tuple[np.ndarray, np.ndarray]:
    """A smooth random picture and a damaged copy of it, (H, W, C) in [0, 1]."""
    rng = np.random.default_rng(seed)
    h, w, c = shape
    rows, cols = np.mgrid[0:h, 0:w] / max(h, w)
    waves = rng.uniform(2, 20, (c, 2))
    a = np.stack([0.5 + 0.4 * np.sin(f * rows) * np.cos(g * cols) for f, g in waves], axis=2)
    b = a + rng.normal(0.0, rng.uniform(0.01, 0.3), shape)
    return a, np.clip(b, 0.0, 1.0)


def batch(x: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(x).permute(2, 0, 1)[None]


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


def test_ssim_map_has_one_value_per_whole_window_and_averages_to_ssim():
    a, b = pair(1)
    similarity = metrics.ssim_map(a, b)
    assert similarity.shape == (54, 38, 3)
    assert similarity.mean() == pytest.approx(metrics.ssim(a, b))


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
    assert metrics.ssim(a, b, centres) == pytest.approx(metrics.ssim_map(a, b)[15, 25].mean())


def test_an_empty_or_misshapen_region_is_refused():
    a, b = pair(0)
    with pytest.raises(InputError, match="empty"):
        metrics.mae(a, b, np.zeros((64, 48), dtype=bool))
    with pytest.raises(InputError, match="region has shape"):
        metrics.mae(a, b, np.ones((48, 64), dtype=bool))


# ---- LPIPS ----


def vgg_sequential() -> torch.nn.Sequential:
    """The feature layers of VGG16 in their published order: `features.N` are the positions in this list."""
    layers: list[torch.nn.Module] = []
    channels = 3
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if width == 0:
            layers.append(torch.nn.MaxPool2d(2, 2))
        else:
            layers += [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.ReLU()]
            channels = width
    return torch.nn.Sequential(*layers)


@pytest.fixture(scope="module")
def vgg():
    torch.manual_seed(0)
    features = vgg_sequential().requires_grad_(False)
    for layer in features:
        if isinstance(layer, torch.nn.Conv2d):  # keep activations alive through all stages
            torch.nn.init.kaiming_normal_(layer.weight)
            torch.nn.init.uniform_(layer.bias, -0.1, 0.1)
    return features


@pytest.fixture(scope="module")
def network(vgg):
    needs("lpips")
    trunk = {f"features.{key}": value for key, value in vgg.state_dict().items()}
    return perceptual.LpipsNetwork.from_states(trunk, perceptual.read_heads(perceptual.installed_heads()))


@pytest.fixture
def reference(monkeypatch, vgg):
    """The lpips package itself on our trunk; torchvision, which it imports for VGG16, is stood in for."""
    needs("lpips")
    torchvision = types.ModuleType("torchvision")
    models = types.ModuleType("torchvision.models")
    models.vgg16 = lambda **_: types.SimpleNamespace(features=vgg)
    torchvision.models = models
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    for name in [name for name in sys.modules if name.split(".")[0] == "lpips"]:
        monkeypatch.delitem(sys.modules, name)
    package = importlib.import_module("lpips")
    yield package.LPIPS(net="vgg", verbose=False, pnet_rand=True)
    for name in [name for name in sys.modules if name.split(".")[0] == "lpips"]:
        del sys.modules[name]


@pytest.mark.parametrize("feed", ["standard", "paper"])
def test_lpips_equals_the_packages_arithmetic_with_the_same_trunk(network, reference, feed):
    for seed in range(2):
        a, b = (x.astype(np.float32) for x in pair(seed, (32, 40, 3)))
        with torch.no_grad():
            theirs = reference(batch(a), batch(b), normalize=feed == "standard").item()
        assert theirs > 1e-4
        assert metrics.lpips(a, b, network, feed=feed) == pytest.approx(theirs, rel=1e-5)


def test_lpips_feeds_differ_and_grey_is_shown_as_rgb(network):
    a, b = pair(2, (32, 32, 1))
    standard = metrics.lpips(a, b, network)
    assert standard != pytest.approx(metrics.lpips(a, b, network, feed="paper"), rel=1e-3)
    assert standard == pytest.approx(metrics.lpips(np.repeat(a, 3, 2), np.repeat(b, 3, 2), network), rel=1e-5)
    assert metrics.lpips(a, a, network) == 0.0


def test_a_trunk_that_does_not_fit_is_an_error_never_random_weights(vgg):
    needs("lpips")
    heads = perceptual.read_heads(perceptual.installed_heads())
    trunk = {f"features.{key}": value for key, value in vgg.state_dict().items()}
    missing = {key: value for key, value in trunk.items() if key != "features.17.bias"}
    with pytest.raises(ModelError, match=r"lack features\.17\.bias"):
        perceptual.LpipsNetwork.from_states(missing, heads)
    with pytest.raises(ModelError, match=r"features\.0\.weight"):
        perceptual.LpipsNetwork.from_states({**trunk, "features.0.weight": torch.zeros(64, 1, 3, 3)}, heads)


def test_an_undownloaded_trunk_says_how_to_get_it(monkeypatch, tmp_path):
    needs("lpips")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="not downloaded yet") as caught:
        perceptual.load_lpips(download=False)
    assert "--lpips standard" in (caught.value.hint or "")


def test_a_trunk_that_is_not_the_pinned_file_is_refused(monkeypatch, tmp_path):
    needs("lpips")
    (tmp_path / "model.safetensors").write_bytes(b"something else")
    monkeypatch.setattr(perceptual.Hub, "cached", lambda self, file: tmp_path / file)
    with pytest.raises(ModelError, match="not the trunk it should be"):
        perceptual.load_lpips(download=False)


def test_an_unreachable_hub_is_an_error_that_offers_to_go_on_without(monkeypatch):
    needs("lpips")

    def unreachable(self, file, *, weights=False):
        self.out_of_reach = ModelError("no network")

    monkeypatch.setattr(perceptual.Hub, "get", unreachable)
    with pytest.raises(ModelError, match="no network") as caught:
        perceptual.load_lpips()
    assert "--lpips none" in (caught.value.hint or "")


def test_missing_heads_say_how_to_get_them(monkeypatch):
    monkeypatch.setattr(perceptual, "find_spec", lambda name: None)
    with pytest.raises(ModelError) as caught:
        perceptual.installed_heads()
    assert "diffbcp[lpips]" in (caught.value.hint or "")


def test_a_trunk_file_is_read_without_its_classifier(vgg, tmp_path):
    from safetensors.torch import save_file

    needs("lpips")

    state = {f"features.{key}": value for key, value in vgg.state_dict().items()}
    save_file({**state, "head.fc.bias": torch.zeros(10)}, tmp_path / "trunk.safetensors")
    read = perceptual.read_trunk(tmp_path / "trunk.safetensors")
    assert set(read) == set(state)
    network = perceptual.load_lpips(trunk_file=tmp_path / "trunk.safetensors")
    assert torch.equal(network.trunk[4][2][0], state["features.28.weight"])
    Path(tmp_path / "bad.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="not a readable safetensors file"):
        perceptual.read_trunk(tmp_path / "bad.safetensors")


# ---- calibration ----


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
    levels = metrics.RELIABILITY_LEVELS
    assert metrics.coverage(mean, std, truth, levels) == pytest.approx(levels, abs=0.015)
    assert metrics.coverage(mean, 0.5 * std, truth, [0.9])[0] == pytest.approx(0.589, abs=0.015)


def test_coverage_counts_only_where_asked_and_zero_std_only_when_exact():
    mean, truth = np.zeros((2, 3)), np.zeros((2, 3))
    truth[0] = 1.0
    where = np.zeros((2, 3), dtype=bool)
    where[1] = True
    assert metrics.coverage(mean, np.zeros((2, 3)), truth)[0] == 0.5
    assert metrics.coverage(mean, np.zeros((2, 3)), truth, where=where)[0] == 1.0


def test_a_rounded_truth_does_not_make_stairs_of_the_coverage_of_a_small_std():
    rng = np.random.default_rng(3)
    shape, step = (100, 100, 3), 1.0 / 255.0
    mean = np.round(rng.uniform(0.2, 0.8, shape) / step) * step
    std = np.full(shape, 1.5 * step)
    truth = np.round((mean + std * rng.standard_normal(shape)) / step) * step
    levels = metrics.RELIABILITY_LEVELS
    literal = metrics.coverage(mean, std, truth, levels)
    assert np.abs(literal - levels).max() > 0.08
    assert metrics.coverage(mean, std, truth, levels, step=step) == pytest.approx(levels, abs=0.025)
    still = metrics.coverage(mean, np.zeros(shape), mean, [0.5], step=step)
    assert still == pytest.approx([1.0])


@pytest.mark.parametrize("draws", [5, 20, 21])
def test_coverage_from_few_exchangeable_samples_is_unbiased_at_every_level(draws):
    rng = np.random.default_rng(draws)
    everything = rng.gamma(2.0, size=(draws + 1, 90, 100, 2)).astype(np.float32)
    levels = (0.1, *metrics.LEVELS, 0.99)
    got = metrics.coverage_from_samples(everything[1:], everything[0], levels)
    assert got == pytest.approx(levels, abs=0.015)


def test_coverage_from_samples_sees_overconfidence_and_exact_entries():
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((50, 60, 1))
    narrow = 0.5 * rng.standard_normal((20, 50, 60, 1))
    assert metrics.coverage_from_samples(narrow, truth, [0.9])[0] < 0.7
    exact = np.broadcast_to(truth, (20, *truth.shape))
    assert metrics.coverage_from_samples(exact, truth, [0.5, 0.9]) == pytest.approx([1.0, 1.0])


def test_gaussian_crps_equals_the_integral():
    grid = np.linspace(-8.0, 8.0, 200_001)
    for mean, std, truth in [(0.1, 0.3, 0.4), (0.0, 1.0, -2.0), (0.5, 0.05, 0.5)]:
        gap = stats.norm.cdf(grid, mean, std) - (grid >= truth)
        integral = float((gap**2).sum() * (grid[1] - grid[0]))
        got = metrics.crps_gaussian(*(np.full((1, 1), v) for v in (mean, std, truth)))
        assert got == pytest.approx(integral, abs=1e-4)
    assert metrics.crps_gaussian(np.zeros((1, 1)), np.zeros((1, 1)), np.full((1, 1), -0.25)) == 0.25


def test_sample_crps_is_unbiased_for_few_draws_and_chunks_do_not_matter(calibrated):
    mean, std, truth = calibrated
    rng = np.random.default_rng(1)
    samples = mean + std * rng.standard_normal((6, *mean.shape))
    assert metrics.crps_from_samples(samples, truth) == pytest.approx(
        metrics.crps_gaussian(mean, std, truth), rel=0.02
    )
    by_hand = np.abs(samples[:, 3, 4] - truth[3, 4]).mean(0)
    for i in range(6):
        by_hand -= np.abs(samples[i, 3, 4] - samples[:, 3, 4]).sum(0) / (2 * 6 * 5)
    one = np.zeros(mean.shape[:2], dtype=bool)
    one[3, 4] = True
    assert metrics.crps_from_samples(samples, truth, one) == pytest.approx(by_hand.mean())


def test_nll_is_the_density_and_its_floor_holds(calibrated):
    mean, std, truth = calibrated
    expected = -stats.norm.logpdf(truth, mean, std).mean()
    assert metrics.gaussian_nll(mean, std, truth) == pytest.approx(expected)
    at_floor = -stats.norm.logpdf(0.0, 0.0, metrics.STD_FLOOR)
    assert metrics.gaussian_nll(np.zeros((1, 1)), np.zeros((1, 1)), np.zeros((1, 1))) == pytest.approx(
        at_floor
    )


def test_correlations_equal_scipys(calibrated):
    mean, std, truth = calibrated
    std = np.round(std, 2)  # ties
    size = np.abs(truth - mean).ravel()
    assert metrics.error_correlation(mean, std, truth) == pytest.approx(stats.pearsonr(std.ravel(), size)[0])
    rank = stats.spearmanr(std.ravel(), size)[0]
    assert metrics.error_rank_correlation(mean, std, truth) == pytest.approx(rank)
    assert math.isnan(metrics.error_correlation(mean, np.ones_like(std), truth))


def test_sparsification_is_zero_for_the_oracle_and_worse_when_std_knows_nothing(calibrated):
    mean, std, truth = calibrated
    size = np.abs(truth - mean)
    assert metrics.sparsification(mean, size, truth).area == pytest.approx(0.0, abs=1e-12)
    informed = metrics.sparsification(mean, std, truth)
    blind = metrics.sparsification(mean, np.ones_like(std), truth)
    assert 0.0 < informed.area < blind.area
    assert blind.by_std == pytest.approx(np.ones(20))  # equal std: no order of the pixels is better
    assert (informed.by_std[0], informed.by_error[0]) == pytest.approx((1.0, 1.0))
    assert np.all(np.diff(informed.by_error) < 0.0)


def test_sparsification_of_four_entries_by_hand():
    error = np.array([[1.0, 2.0, 3.0, 4.0]])
    std = np.array([[4.0, 3.0, 2.0, 1.0]])
    curve = metrics.sparsification(np.zeros((1, 4)), std, error, steps=4)
    assert curve.by_std * 2.5 == pytest.approx([2.5, 3.0, 3.5, 4.0])
    assert curve.by_error * 2.5 == pytest.approx([2.5, 2.0, 1.5, 1.0])
    assert curve.area * 2.5 == pytest.approx((0.5 * 1 + 0.5 * (1 + 2) + 0.5 * (2 + 3) + 0.5 * 3) / 4)


def test_bootstrap_interval_is_seeded_and_close_to_the_normal_one():
    values = np.random.default_rng(0).normal(30.0, 2.0, 400)
    first = metrics.bootstrap_mean(values, rng=np.random.default_rng(1))
    assert first == metrics.bootstrap_mean(values, rng=np.random.default_rng(1))
    half = 1.96 * values.std() / math.sqrt(400)
    assert (first.low, first.high) == pytest.approx((first.mean - half, first.mean + half), abs=0.03)


def test_bootstrap_leaves_out_what_is_not_finite_and_gives_no_interval_of_one():
    rng = np.random.default_rng(0)
    assert metrics.bootstrap_mean([1.0, math.inf, math.nan], rng=rng) == metrics.Interval(1.0, None, None, 1)
    assert math.isnan(metrics.bootstrap_mean([], rng=rng).mean)
