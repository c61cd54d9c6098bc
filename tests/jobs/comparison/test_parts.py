"""The parts of a comparison: significance, the paper's figures, LaTeX, peak memory."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import stats

from diffbcp_cli.jobs.comparison.published import published, tables
from diffbcp_cli.jobs.comparison.significance import sign_flip_p
from diffbcp_cli.jobs.comparison.tables import latex_escaped, p_text
from diffbcp_cli.jobs.peak import PeakMemory
from diffbcp_cli.photos.mask_kinds import RECIPES


def rng(seed=0):
    return np.random.default_rng(seed)


def test_p_counts_patterns_of_signs():
    assert sign_flip_p([1.0, 1.0, 1.0, 1.0], rng=rng()) == 2 / 16
    assert sign_flip_p([1.0, -1.0], rng=rng()) == 1.0
    assert sign_flip_p([3.0, 1.0, -2.0], rng=rng()) == 6 / 8  # sums 6 2 4 0 and their negatives; found: 2


def test_p_agrees_with_scipy():
    gaps = rng(1).normal(0.3, 1, 12)
    found = stats.permutation_test((gaps,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_p(gaps, rng=rng()) == pytest.approx(found.pvalue)
    many = rng(2).normal(0.3, 1, 30)
    found = stats.permutation_test(
        (many,), np.mean, permutation_type="samples", n_resamples=100_000, random_state=0
    )
    assert sign_flip_p(many, rng=rng()) == pytest.approx(found.pvalue, abs=0.01)


def test_p_is_small_by_chance_as_often_as_it_says():
    """400 comparisons of equals: at most 5 % below 0.05, within 4 standard errors (false alarm 3e-5)."""
    found = [sign_flip_p(rng(seed).normal(size=9), rng=rng()) for seed in range(400)]
    share = np.mean(np.array(found) <= 0.05)
    assert 0.01 < share < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


def test_the_figures_of_the_paper_stand_beside_the_same_protocol_only():
    found = published("paper-stripe", 0.025, {(256, 256, 3)})
    rows = {(row["data"], row["method"]): row for row in found["rows"]}
    assert rows["FFHQ", "DiffBCP"] == {
        "data": "FFHQ",
        "method": "DiffBCP",
        "psnr": 27.91,
        "ssim": 0.8511,
        "lpips": 0.1989,
    }
    assert rows["ImageNet", "BCP"]["psnr"] == 10.05
    assert set(found["names"].values()) <= {method for _, method in rows}
    for other in (
        (None, 0.025, {(256, 256, 3)}),
        ("paper-stripe", 0.05, {(256, 256, 3)}),
        ("paper-stripe", 0.025, {(256, 256, 3), (256, 256, 1)}),
        ("paper-stripe", 0.025, {(512, 512, 3)}),
    ):
        assert published(*other) is None


def test_every_published_row_has_every_recipe():
    for methods in tables()["figures"].values():
        for figures in methods.values():
            assert set(figures) == set(RECIPES)
            assert all(len(row) == 3 and 7 < row[0] < 40 and 0 < row[1] < 1 for row in figures.values())


def test_nothing_in_a_name_is_a_command_of_latex():
    assert latex_escaped("a_b & 5 % \\x{}") == r"a\_b \& 5 \% \textbackslash{}x\{\}"
    assert (p_text(0.0004), p_text(0.5), p_text(None)) == ("< 0.001", "0.500", "")


@pytest.mark.parametrize("counted", [True, False])
def test_the_peak_is_that_of_the_block(counted, monkeypatch, tmp_path):
    """64 MB that are held in the block alone; by the kernel's count, and by looking."""
    if not counted:
        monkeypatch.setattr("diffbcp_cli.jobs.peak._CLEAR", tmp_path / "no" / "such")
    with PeakMemory() as quiet:
        pass
    with PeakMemory() as loud:
        held = np.ones(8 * 2**20)
        held += 1
        time.sleep(0.3)  # many looks long, on a busy machine too
        del held
    with PeakMemory() as after:
        pass
    assert 50e6 < loud.bytes - quiet.bytes < 100e6
    assert abs(after.bytes - quiet.bytes) < 30e6
