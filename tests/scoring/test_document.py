"""Means over a set with their intervals, and differences between sets."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from eval_data import SETTINGS, document_of, make_set, scores_of

from diffbcp_cli.scoring.document import Interval, bootstrap_mean, summarize
from diffbcp_cli.scoring.pairs import match


def test_means_mirror_the_records_and_intervals_hold_them(tmp_path):
    make_set(tmp_path)
    scores = scores_of(match(tmp_path / "out", tmp_path / "truth", mask=tmp_path / "masks"))
    summary = summarize(scores, SETTINGS)
    values = [one.record["regions"]["filled"]["psnr"] for one in scores]
    assert summary["mean"]["regions"]["filled"]["psnr"] == pytest.approx(np.mean(values))
    low, high = summary["interval"]["psnr"]
    assert low <= summary["mean"]["psnr"] <= high
    assert "width" not in summary["mean"]
    assert "ms_ssim" not in summary["mean"]
    assert summary == summarize(scores, SETTINGS)
    reliability = summary["curves"]["whole"]["reliability"]
    at90 = summary["curves"]["levels"].index(0.9)
    assert reliability[at90] == pytest.approx(summary["mean"]["calibration"]["whole"]["coverage"]["90"])


def test_several_methods_are_compared_on_the_pictures_they_share(tmp_path):
    make_set(tmp_path, method="good", noise=0.02)
    make_set(tmp_path, ("a", "b"), method="worse", noise=0.06)
    found, _ = document_of(tmp_path, "good", "worse")
    assert list(found["methods"]) == ["good", "worse"]
    gap = found["differences"]["to"]["worse"]["psnr"]
    assert (found["differences"]["from"], gap["count"]) == ("good", 2)
    assert gap["mean"] == pytest.approx(-20.0 * math.log10(3.0), abs=0.5)
    json.dumps(found, allow_nan=False)


def test_bootstrap_interval_is_seeded_and_close_to_the_normal_one():
    values = np.random.default_rng(0).normal(30.0, 2.0, 400)
    first = bootstrap_mean(values, rng=np.random.default_rng(1))
    assert first == bootstrap_mean(values, rng=np.random.default_rng(1))
    half = 1.96 * values.std() / math.sqrt(400)
    assert (first.low, first.high) == pytest.approx((first.mean - half, first.mean + half), abs=0.03)


def test_bootstrap_leaves_out_what_is_not_finite_and_gives_no_interval_of_one():
    rng = np.random.default_rng(0)
    assert bootstrap_mean([1.0, math.inf, math.nan], rng=rng) == Interval(1.0, None, None, 1)
    assert math.isnan(bootstrap_mean([], rng=rng).mean)
