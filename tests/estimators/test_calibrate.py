"""Held-out pixels: chosen like the missing ones, and the factor they give covers what it claims."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tifffile
import torch
from conftest import SHORT

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import InputError
from diffbcp_cli.estimators.calibrate import Regions, calibrate
from diffbcp_cli.estimators.hold_out import HeldOut, hold_out, is_scattered, like_missing
from diffbcp_cli.operators.mask import steps_from_known
from diffbcp_cli.photos.mask_kinds import recipe

SHAPE = (96, 96, 3)


def made(kind, seed=0):
    return recipe(kind, SHAPE, rng=np.random.default_rng(seed))


@pytest.mark.parametrize(
    ("kind", "scattered"),
    [
        ("paper-uniform-0.7", True),
        ("paper-uniform-0.9", True),
        ("paper-stripe", False),
        ("paper-irregular", False),
    ],
)
def test_strokes_are_told_from_single_pixels(kind, scattered):
    assert all(is_scattered(made(kind, seed)) is scattered for seed in range(5))


@pytest.mark.parametrize(
    "kind", ["paper-uniform-0.7", "paper-uniform-0.9", "paper-stripe", "paper-irregular"]
)
def test_only_known_entries_are_held_out_and_few_of_them(kind):
    observed = made(kind)
    held = hold_out(observed, rng=np.random.default_rng(1)).entries
    assert not (held & ~observed).any()
    assert 0.04 < held.sum() / observed.sum() < 0.12


def test_a_mask_of_whole_pixels_holds_out_whole_pixels():
    observed = np.repeat(np.random.default_rng(0).random((96, 96, 1)) < 0.3, 3, axis=2)
    held = hold_out(observed, rng=np.random.default_rng(1)).entries
    assert (held == held[..., :1]).all()
    assert held.any()


def test_held_out_strokes_are_as_thick_as_the_holes():
    """A pixel in a held-out stroke has about as few known neighbours as one in a hole."""
    observed = made("paper-irregular")
    held = hold_out(observed, rng=np.random.default_rng(1)).entries
    shown = (observed & ~held)[..., 0].astype(float)
    around = sum(np.roll(shown, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
    in_holes, in_strokes = around[~observed[..., 0]].mean(), around[held[..., 0]].mean()
    single = hold_out(made("paper-uniform-0.7"), rng=np.random.default_rng(1))
    assert not single.strokes
    assert in_strokes < in_holes + 1.0


def test_too_few_known_pixels_are_an_error():
    observed = np.zeros((32, 32, 1), bool)
    observed[:4, :4] = True
    with pytest.raises(InputError):
        hold_out(observed, rng=np.random.default_rng(0))


@pytest.mark.parametrize("true_scale", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("noise", [0.0, 0.03])
def test_the_rescaled_interval_covers_clean_pixels_as_claimed(true_scale, noise):
    rng = np.random.default_rng(3)
    std = rng.uniform(0.02, 0.08, (200, 200, 1)).astype(np.float32)
    mean = rng.random(std.shape).astype(np.float32)
    clean = mean + true_scale * std * rng.standard_normal(std.shape)
    noisy = (clean + noise * rng.standard_normal(std.shape)).astype(np.float32)
    held = rng.random(std.shape) < 0.1
    found = calibrate(noisy, mean, std, HeldOut(held, strokes=False), noise)
    inside = np.abs(clean - mean) <= 1.6449 * found.factor * std
    assert inside[~held].mean() == pytest.approx(0.9, abs=0.04)
    assert found.coverage_after[2] == pytest.approx(0.9, abs=0.01)
    assert found.factor == pytest.approx(true_scale, rel=0.15)


def test_inpaint_calibrates_the_std_and_says_so(photo, mask, tmp_path):
    plain, scaled = tmp_path / "plain", tmp_path / "scaled"
    base = ["inpaint", str(photo), "--mask", str(mask), *SHORT]
    assert run([*base, "-o", str(plain)]) == 0
    assert run([*base, "-o", str(scaled), "--calibrate", "--save", "samples"]) == 0
    assert json.loads((plain / "photo.json").read_text())["calibration"] is None
    said = json.loads((scaled / "photo.json").read_text())["calibration"]
    assert said["held_out_shape"] == "strokes"
    assert "no promise" in said["guarantee"]
    assert said["held_out"] > 50
    assert 0 < said["held_out_coverage"][2] <= 1
    std = tifffile.imread(scaled / "photo.std.tiff")
    samples = np.load(scaled / "photo.samples.npz")["samples"]
    assert std.max() > 0
    assert samples.std() > 0


@pytest.mark.parametrize(("size", "hole"), [(16, (0, 8)), (40, (3, 5)), (300, (100, 120))])
def test_pieces_of_a_single_hole_are_held_out_elsewhere(size, hole):
    observed = np.ones((size, size, 3), bool)
    observed[slice(*hole), slice(*hole)] = False
    wanted = int(0.04 * observed.sum())
    held = like_missing(observed, wanted, side=size // 4, rng=np.random.default_rng(0))
    assert wanted <= held.sum() < wanted + 3 * (size // 4) ** 2
    assert not (held & ~observed).any()
    assert (held == held[..., :1]).all()


def test_where_nothing_is_known_nothing_is_held_out():
    nothing = np.zeros((20, 20, 3), bool)
    assert not like_missing(nothing, 0, side=5, rng=np.random.default_rng(0)).any()


def test_each_region_gets_the_factor_that_it_needs():
    """Far from known pixels the std is three times too small, near to them it is right."""
    rng = np.random.default_rng(5)
    known = np.zeros((240, 240, 1), bool)
    known[::2, :120], known[::12, 120:] = True, True
    std = rng.uniform(0.02, 0.05, known.shape).astype(np.float32)
    held = ~known & (rng.random(known.shape) < 0.2)
    regions = Regions.of(known, std, HeldOut(held, strokes=False))
    scale = np.where(regions.distance > regions.far, 3.0, 1.0)
    clean = (scale * std * rng.standard_normal(std.shape)).astype(np.float32)
    found = calibrate(clean, np.zeros_like(clean), std, HeldOut(held, strokes=False), 0.0, regions=regions)
    factors = found.factors_of(std)
    assert found.by_region == pytest.approx((1, 1, 3, 3), rel=0.12)
    inside = np.abs(clean) <= 1.6449 * factors * std
    for far in (False, True):
        there = ~held & ~known & ((regions.distance > regions.far) == far)
        assert inside[there].mean() == pytest.approx(0.9, abs=0.03)
    assert (factors[known] == 1).all()
    assert found.coverage_after == pytest.approx([0.5, 0.8, 0.9, 0.95], abs=0.03)


def test_few_held_out_entries_share_one_factor():
    known, rng = np.ones((20, 20, 1), bool), np.random.default_rng(0)
    held = rng.random(known.shape) < 0.3
    std = np.full(known.shape, 0.1, np.float32)
    clean = (0.2 * rng.standard_normal(std.shape)).astype(np.float32)
    regions = Regions.of(known & ~held, std, HeldOut(held, strokes=False))
    found = calibrate(clean, np.zeros_like(clean), std, HeldOut(held, strokes=False), 0.0, regions=regions)
    assert found.by_region == ()
    assert (found.factors_of(std) == np.float32(found.factor)).all()


def test_the_coverage_that_is_reported_is_that_of_entries_it_was_not_fitted_to():
    """A factor covers nine in ten or more of the entries that it was fitted to, and by chance fewer of others."""
    rng, found = np.random.default_rng(8), []
    for _ in range(60):
        error = rng.standard_cauchy((40, 1, 1)).astype(np.float32)
        held = HeldOut(np.ones(error.shape, bool), strokes=False)
        found.append(calibrate(error, np.zeros_like(error), np.ones_like(error), held, 0.0).coverage_after[2])
    assert min(found) < 0.85 < 0.9 == pytest.approx(np.mean(found), abs=0.03)


def test_steps_from_known_entries():
    known = torch.zeros(1, 7, 9, dtype=torch.bool)
    known[0, 3, 0] = True
    steps = steps_from_known(known, most=4)[0]
    assert steps[3].tolist() == [0, 1, 2, 3, 4, 4, 4, 4, 4]
    assert steps[0, 1] == 3


def test_noise_that_was_found_before_makes_no_std_smaller():
    rng = np.random.default_rng(0)
    truth, held = np.zeros(SHAPE), HeldOut(rng.random(SHAPE) < 0.2, strokes=False)
    values, mean = truth + 0.05 * rng.standard_normal(SHAPE), truth + 0.01 * rng.standard_normal(SHAPE)
    std = np.full(SHAPE, 0.03)
    args = [array.astype(np.float32) for array in (values, mean, std)]
    assert calibrate(*args, held, 0.05).factor < 0.9
    assert calibrate(*args, held, 0.05, least=1.0).factor == 1
    assert calibrate(args[0], args[1], args[2] / 10, held, 0.01, least=1.0).factor > 2
