"""Which files are paired, what is computed of them, and how it is averaged."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from eval_data import SHAPE, make_set, save, truth_picture

from diffbcp_cli.errors import InputError
from diffbcp_cli.scoring import metrics
from diffbcp_cli.scoring import score as evaluation
from diffbcp_cli.scoring.pairs import match
from diffbcp_cli.scoring.report import csv_text, markdown_text
from diffbcp_cli.scoring.score import Failure, Results, Score, Settings

SETTINGS = Settings(resamples=200)


def scores_of(matches, settings=SETTINGS):
    return [one for one in evaluation.score_all(matches.pairs, settings) if isinstance(one, Score)]


# ---- pairs ----


def test_our_output_names_match_the_photograph_and_bring_their_companions(tmp_path):
    make_set(tmp_path, draws=3)
    found = match(tmp_path / "out", tmp_path / "truth")
    assert [pair.name for pair in found.pairs] == ["a", "b", "sub/c"]
    last = found.pairs[-1]
    assert last.result == tmp_path / "out/sub/c.mean.png"
    assert last.truth == tmp_path / "truth/sub/c.png"
    assert last.std == tmp_path / "out/sub/c.std.tiff"
    assert last.samples == tmp_path / "out/sub/c.samples.npz"
    assert last.run == tmp_path / "out/sub/c.json"
    assert (found.lone_results, found.lone_truths, dict(found.problems)) == ((), (), {})


def test_plain_names_other_suffixes_and_flat_truths_match_too(tmp_path):
    picture = truth_picture(0)
    for name in (
        "out/x.png",
        "out/deep/y.png",
        "out/z.v2.png",
        "truth/x.jpg",
        "truth/y.png",
        "truth/z.v2.png",
    ):
        save(tmp_path / name, picture)
    found = match(tmp_path / "out", tmp_path / "truth")
    assert {pair.name: pair.truth.name for pair in found.pairs} == {
        "x": "x.jpg",
        "deep/y": "y.png",
        "z.v2": "z.v2.png",
    }


def test_the_mean_wins_over_an_input_beside_it_and_lone_files_are_named(tmp_path):
    names = ("out/p.jpg", "out/p.png", "out/p.mean.png", "out/only.png", "truth/p.png", "truth/rest.png")
    for name in names:
        save(tmp_path / name, truth_picture(0))
    found = match(tmp_path / "out", tmp_path / "truth")
    assert [pair.result.name for pair in found.pairs] == ["p.mean.png"]
    assert found.lone_results == ("only",)
    assert found.lone_truths == ("rest.png",)


def test_a_name_with_two_truths_is_a_problem_of_its_own(tmp_path):
    for name in ("out/p.png", "out/q.png", "truth/p.png", "truth/p.jpg", "truth/q.png"):
        save(tmp_path / name, truth_picture(0))
    found = match(tmp_path / "out", tmp_path / "truth")
    assert [pair.name for pair in found.pairs] == ["q"]
    assert "more than one truth" in found.problems["p"].message


def test_masks_match_like_truths_and_a_missing_one_is_a_problem(tmp_path):
    make_set(tmp_path)
    (tmp_path / "masks/b.png").unlink()
    found = match(tmp_path / "out", tmp_path / "truth", mask=tmp_path / "masks")
    assert [(pair.name, pair.mask) for pair in found.pairs] == [
        ("a", tmp_path / "masks/a.png"),
        ("sub/c", tmp_path / "masks/sub/c.png"),
    ]
    assert "no mask" in found.problems["b"].message
    one = match(tmp_path / "out", tmp_path / "truth", mask=tmp_path / "masks/a.png")
    assert {pair.mask for pair in one.pairs} == {tmp_path / "masks/a.png"}


def test_two_files_are_a_pair_whatever_their_names(tmp_path):
    save(tmp_path / "left.png", truth_picture(0))
    save(tmp_path / "right.png", truth_picture(1))
    (pair,) = match(tmp_path / "left.png", tmp_path / "right.png").pairs
    assert (pair.name, pair.truth.name) == ("left", "right.png")


@pytest.mark.parametrize(
    ("results", "truth", "message"),
    [
        ("nowhere", "truth", "does not exist"),
        ("out/a.mean.png", "truth", "is a file but"),
        ("empty", "truth", "holds no images to score"),
        ("out", "empty", "holds no images"),
        ("out", "other", "has a truth of the same name"),
    ],
)
def test_nothing_to_pair_is_an_input_error(tmp_path, results, truth, message):
    make_set(tmp_path)
    (tmp_path / "empty").mkdir()
    save(tmp_path / "other/zzz.png", truth_picture(0))
    with pytest.raises(InputError, match=message):
        match(tmp_path / results, tmp_path / truth)


# ---- scores ----


def test_a_record_holds_what_metrics_says_of_the_stored_pictures(tmp_path):
    make_set(tmp_path, ("a",))
    (one,) = scores_of(match(tmp_path / "out", tmp_path / "truth", mask=tmp_path / "masks"))
    result, truth = (photo.pixels for photo in evaluation.read_pair(one.pair))
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
    result, _ = evaluation.read_pair(plain.pair)
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
    outcomes = list(evaluation.score_all(match(tmp_path / "out", tmp_path / "truth").pairs, SETTINGS))
    assert [type(one) for one in outcomes] == [Failure, Score, Score]
    assert outcomes[0].name == "a"


def test_pairs_are_read_one_at_a_time(tmp_path):
    make_set(tmp_path)
    found = match(tmp_path / "out", tmp_path / "truth")
    outcomes = evaluation.score_all(found.pairs, SETTINGS)
    next(outcomes)
    for path in (tmp_path / "truth").rglob("*.png"):
        path.unlink()
    assert isinstance(next(outcomes), Failure)


# ---- sets ----


def test_means_mirror_the_records_and_intervals_hold_them(tmp_path):
    make_set(tmp_path)
    scores = scores_of(match(tmp_path / "out", tmp_path / "truth", mask=tmp_path / "masks"))
    summary = evaluation.summarize(scores, SETTINGS)
    values = [one.record["regions"]["filled"]["psnr"] for one in scores]
    assert summary["mean"]["regions"]["filled"]["psnr"] == pytest.approx(np.mean(values))
    low, high = summary["interval"]["psnr"]
    assert low <= summary["mean"]["psnr"] <= high
    assert "width" not in summary["mean"]
    assert "ms_ssim" not in summary["mean"]
    assert summary == evaluation.summarize(scores, SETTINGS)
    reliability = summary["curves"]["whole"]["reliability"]
    at90 = summary["curves"]["levels"].index(0.9)
    assert reliability[at90] == pytest.approx(summary["mean"]["calibration"]["whole"]["coverage"]["90"])


def document_of(tmp_path, *methods):
    sets = {}
    for method in methods:
        matches = match(tmp_path / method, tmp_path / "truth", mask=tmp_path / "masks")
        sets[method] = Results(matches, scores_of(matches), [])
    return evaluation.document(sets, SETTINGS, {"lpips": "not asked for"}), sets


def test_several_methods_are_compared_on_the_pictures_they_share(tmp_path):
    make_set(tmp_path, method="good", noise=0.02)
    make_set(tmp_path, ("a", "b"), method="worse", noise=0.06)
    document, _ = document_of(tmp_path, "good", "worse")
    assert list(document["methods"]) == ["good", "worse"]
    gap = document["differences"]["to"]["worse"]["psnr"]
    assert (document["differences"]["from"], gap["count"]) == ("good", 2)
    assert gap["mean"] == pytest.approx(-20.0 * math.log10(3.0), abs=0.5)
    json.dumps(document, allow_nan=False)


def test_csv_has_a_row_per_picture_and_markdown_a_table(tmp_path):
    make_set(tmp_path)
    document, _ = document_of(tmp_path, "out")
    head, *rows = csv_text(document).splitlines()
    assert len(rows) == 3
    columns = head.split(",")
    assert {"name", "psnr", "regions_filled_psnr", "calibration_whole_coverage_90"} <= set(columns)
    assert float(rows[0].split(",")[columns.index("psnr")]) == document["images"][0]["psnr"]
    text = markdown_text(document)
    assert f"| a | {document['images'][0]['psnr']:.2f} |" in text
    assert "- lpips was not computed: not asked for" in text


def test_views_reach_from_the_worst_to_the_best_and_show_what_the_run_had(tmp_path):
    names = tuple("abcdefgh")
    for name, noise in zip(names, np.linspace(0.3, 0.01, 8), strict=True):
        make_set(tmp_path, (name,), noise=float(noise))
    _, sets = document_of(tmp_path, "out")
    shown = list(evaluation.views(sets, SETTINGS, limit=3))
    assert [view.name for view in shown][:1] + [view.name for view in shown][-1:] == ["a", "h"]
    assert len(shown) == 3
    view = shown[0]
    assert np.all(view.before[:, :16] == 0.0)
    assert np.array_equal(view.before[:, 16:], view.truth[:, 16:])
    assert list(view.results) == [""]


def test_a_view_shows_the_runs_own_photograph_when_it_is_still_there(tmp_path):
    make_set(tmp_path, ("a",))
    noisy = save(tmp_path / "noisy.png", truth_picture(5))
    (tmp_path / "out/a.json").write_text(json.dumps({"photo": str(tmp_path / "noisy.png")}), encoding="utf-8")
    matches = match(tmp_path / "out", tmp_path / "truth")
    (view,) = evaluation.views({"out": Results(matches, scores_of(matches), [])}, SETTINGS, limit=5)
    assert view.before == pytest.approx(noisy, abs=1e-6)
    (tmp_path / "noisy.png").unlink()
    (view,) = evaluation.views({"out": Results(matches, scores_of(matches), [])}, SETTINGS, limit=5)
    assert view.before is None
