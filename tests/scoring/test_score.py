"""What is computed for one pair, and what becomes of a pair that cannot be scored."""

from __future__ import annotations

import json

import numpy as np
import pytest
from eval_data import SETTINGS, SHAPE, make_set, save, scores_of, truth_picture

from diffbcp_cli.photos.photo import encode_std
from diffbcp_cli.scoring import metrics
from diffbcp_cli.scoring.pairs import match
from diffbcp_cli.scoring.read import read_pair
from diffbcp_cli.scoring.score import Failure, Score, score_all


def test_a_record_holds_what_metrics_says_of_the_stored_pictures(tmp_path):
    make_set(tmp_path, ("a",))
    (one,) = scores_of(match(tmp_path / "out", tmp_path / "truth", mask=tmp_path / "masks"))
    result, truth = (photo.pixels for photo in read_pair(one.pair))
    filled = np.zeros(SHAPE, dtype=bool)
    filled[:, :16] = True
    record = one.record
    assert record["psnr"] == metrics.psnr(result, truth)
    assert record["ssim"] == metrics.ssim(result, truth)
    assert record["regions"]["filled"]["psnr"] == metrics.psnr(result, truth, filled)
    assert record["regions"]["observed"]["ssim"] == metrics.ssim(result, truth, ~filled)
    assert record["regions"]["filled"]["share"] == 0.5
    assert record["ms_ssim"] is None
    assert "161x161" in record["not_computed"]["ms_ssim"]


def test_calibration_uses_std_and_prefers_draws(tmp_path):
    make_set(tmp_path, ("a",), shape=(96, 96, 3))
    (plain,) = scores_of(match(tmp_path / "out", tmp_path / "truth", mask=tmp_path / "masks"))
    gaussian = plain.record["calibration"]
    assert gaussian["source"] == "gaussian"
    assert gaussian["whole"]["coverage"]["90"] == pytest.approx(0.9, abs=0.02)
    assert gaussian["filled"]["coverage"]["50"] == pytest.approx(0.5, abs=0.03)
    assert gaussian["whole"]["correlation"] > 0.3
    assert gaussian["filled"]["correlation"] is None  # std does not vary there
    result, _ = read_pair(plain.pair)
    wide = result.pixels + 0.2 * np.random.default_rng(0).standard_normal((12, 96, 96, 3))
    np.savez(tmp_path / "out/a.samples.npz", samples=wide.astype(np.float32))
    (drawn,) = scores_of(match(tmp_path / "out", tmp_path / "truth"))
    sampled = drawn.record["calibration"]
    assert (sampled["source"], sampled["draws"]) == ("samples", 12)
    assert sampled["whole"]["coverage"]["50"] > 0.8  # the draws are far wider than the std
    assert set(sampled) == {"source", "draws", "whole"}


def test_draws_alone_give_the_std(tmp_path):
    make_set(tmp_path, ("a",), uncertain=False, draws=30)
    (one,) = scores_of(match(tmp_path / "out", tmp_path / "truth"))
    assert one.record["calibration"]["whole"]["mean_std"] == pytest.approx(0.03, rel=0.1)


def test_results_without_uncertainty_have_no_calibration(tmp_path):
    make_set(tmp_path, ("a",), uncertain=False)
    (one,) = scores_of(match(tmp_path / "out", tmp_path / "truth"))
    assert "calibration" not in one.record
    assert one.curves == {}


def test_the_runs_own_mask_is_used_unless_it_is_gone_or_changed(tmp_path):
    make_set(tmp_path, ("a",))
    mask = tmp_path / "masks/a.png"
    run = {"mask": str(mask), "mask_polarity": "white-fills", "missing_share": 0.5}
    (tmp_path / "out/a.json").write_text(json.dumps(run), encoding="utf-8")
    found = match(tmp_path / "out", tmp_path / "truth")
    assert scores_of(found)[0].record["regions"]["filled"]["share"] == 0.5
    (tmp_path / "out/a.json").write_text(json.dumps(run | {"missing_share": 0.3}), encoding="utf-8")
    changed = scores_of(found)[0].record
    assert changed["regions"] == {}
    assert "no longer the mask" in changed["not_computed"]["regions"]
    mask.unlink()
    assert "--mask" in scores_of(found)[0].record["not_computed"]["regions"]


def test_equal_pictures_have_no_finite_psnr_and_the_record_says_so(tmp_path):
    save(tmp_path / "a.png", truth_picture(0))
    (one,) = scores_of(match(tmp_path / "a.png", tmp_path / "a.png"))
    assert one.record["psnr"] is None
    assert "infinite" in one.record["not_computed"]["psnr"]
    json.dumps(one.record, allow_nan=False)


@pytest.mark.parametrize("kind", ["size", "grey", "broken", "nan", "std", "samples"])
def test_a_bad_pair_becomes_a_failure_and_the_rest_go_on(tmp_path, kind):
    make_set(tmp_path, draws=2)
    if kind == "size":
        save(tmp_path / "out/a.mean.png", truth_picture(0, (40, 33, 3)))
    elif kind == "grey":
        save(tmp_path / "out/a.mean.png", truth_picture(0, (40, 32, 1)))
    elif kind == "broken":
        (tmp_path / "out/a.mean.png").write_bytes(b"nothing")
    elif kind == "nan":
        (tmp_path / "out/a.mean.png").unlink()
        np.save(tmp_path / "out/a.mean.npy", np.full(SHAPE, np.nan, np.float32))
    elif kind == "std":
        np.save(tmp_path / "out/a.std.npy", np.zeros((3, 3), np.float32))
        (tmp_path / "out/a.std.tiff").unlink()
    else:
        (tmp_path / "out/a.samples.npz").write_bytes(b"nothing")
    outcomes = list(score_all(match(tmp_path / "out", tmp_path / "truth").pairs, SETTINGS))
    assert [type(one) for one in outcomes] == [Failure, Score, Score]
    assert outcomes[0].name == "a"


def test_pairs_are_read_one_at_a_time(tmp_path):
    make_set(tmp_path)
    found = match(tmp_path / "out", tmp_path / "truth")
    outcomes = score_all(found.pairs, SETTINGS)
    next(outcomes)
    for path in (tmp_path / "truth").rglob("*.png"):
        path.unlink()
    assert isinstance(next(outcomes), Failure)


def test_a_std_larger_than_the_scale_is_read(tmp_path):
    """A method that knows next to nothing says so: its std may be above 1."""
    make_set(tmp_path, ("a",))
    (pair,) = match(tmp_path / "out", tmp_path / "truth").pairs
    encode_std(pair.std, np.full(SHAPE, 2.5, np.float32))
    (one,) = scores_of(match(tmp_path / "out", tmp_path / "truth"))
    assert one.record["calibration"]["whole"]["coverage"]["90"] == pytest.approx(1.0)
