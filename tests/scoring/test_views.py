"""Which pictures the page shows, and what the run started from."""

from __future__ import annotations

import json

import numpy as np
import pytest
from eval_data import SETTINGS, document_of, make_set, save, scores_of, truth_picture

from diffbcp_cli.scoring.document import Results
from diffbcp_cli.scoring.pairs import match
from diffbcp_cli.scoring.report import views


def test_views_reach_from_the_worst_to_the_best_and_show_what_the_run_had(tmp_path):
    names = tuple("abcdefgh")
    for name, noise in zip(names, np.linspace(0.3, 0.01, 8), strict=True):
        make_set(tmp_path, (name,), noise=float(noise))
    _, sets = document_of(tmp_path, "out")
    shown = list(views(sets, SETTINGS, limit=3))
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
    (view,) = views({"out": Results(matches, scores_of(matches), [])}, SETTINGS, limit=5)
    assert view.before == pytest.approx(noisy, abs=1e-6)
    (tmp_path / "noisy.png").unlink()
    (view,) = views({"out": Results(matches, scores_of(matches), [])}, SETTINGS, limit=5)
    assert view.before is None
