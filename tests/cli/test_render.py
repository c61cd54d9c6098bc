"""What people see while a photograph is restored, and after."""

from __future__ import annotations

import io

import pytest
import torch
from rich.console import Console

from diffbcp_cli.cli import render
from diffbcp_cli.cli.app import run
from diffbcp_cli.watch import Progress


@pytest.fixture
def screen(monkeypatch):
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None)
    monkeypatch.setattr(render, "err", console)
    return console.file


def test_the_bar_shows_what_the_method_tells(screen):
    with render.Bar("photo.png", lambda: False, quiet=False) as bar:
        bar.progress(Progress("sampling", 0, 5))
        bar.progress(Progress("sampling", 5, 5, {"noise_std": 0.0123, "active_rank": 7}))
        bar.progress(Progress("refining", 0.5, 1.0))
    shown = screen.getvalue()
    assert "photo.png" in shown
    assert "5/5 noise 0.0123  rank 7" in shown
    assert "photo.png, refining" in shown


def test_a_method_may_tell_less(screen):
    with render.Bar("photo.png", lambda: False, quiet=False) as bar:
        bar.progress(Progress("sampling", 1, 5, {"noise_std": 0.5, "step_size": 1.0}))
    assert "noise 0.5000" in screen.getvalue()
    assert "rank" not in screen.getvalue()


def test_a_quiet_bar_says_nothing_and_still_hears_a_stop(screen):
    with render.Bar("photo.png", lambda: True, quiet=True) as bar:
        bar.progress(Progress("sampling", 1, 5))
        bar.note("a note")
        bar.warn("a warning")
        assert bar.cancelled()
    assert screen.getvalue() == ""


def test_the_summary_leaves_out_what_a_method_does_not_give(screen):
    record = {"size": [8, 9, 3], "depth": "uint8", "missing_share": 0.5, "seconds": 1.0, "iterations": 4}
    render.summary({**record, "noise": None, "mean_std": None, "finished": False})
    shown = screen.getvalue()
    assert "8 x 9, RGB" in shown
    assert "--resume goes on" in shown
    assert not {"noise", "rank", "uncertainty"} & {*shown.split()}


@pytest.mark.parametrize(
    ("error", "code"), [(torch.OutOfMemoryError("CUDA out of memory"), 5), (MemoryError(), 5)]
)
def test_a_photograph_that_does_not_fit_in_memory_ends_with_its_own_code(
    error, code, photo, monkeypatch, capsys
):
    def fail(*ignored):
        raise error

    monkeypatch.setattr("diffbcp_cli.jobs.one.restore_photo", fail)
    assert run(["denoise", str(photo), "-o", str(photo.parent / "out"), "--prior", "none"]) == code
    said = capsys.readouterr().err
    assert "does not fit in memory" in said
    assert "Traceback" not in said


def test_facts_are_not_cut(monkeypatch):
    console = Console(file=io.StringIO(), width=40)
    monkeypatch.setattr(render, "out", console)
    path = "/a/rather/long/path/of/a/cache/that/is/wider/than/the/screen"
    render.facts({"cache": path, "packages": {"torch": "2.13"}, "gpus": []})
    assert console.file.getvalue().replace("\n", "").count(path) == 1


def test_the_summary_says_whose_noise_it_is(screen):
    record = {
        **{"size": [8, 8, 3], "depth": "uint8", "missing_share": 0.1, "seconds": 1.0, "iterations": 3},
        **{"finished": True, "noise": {"std": 0.01, "lower": 0.0, "upper": 0.02}},
    }
    render.summary(record)
    assert "by the prior" not in screen.getvalue()
    render.summary({**record, "noise_source": "prior"})
    assert "by the prior; the bar shows that of the draws" in screen.getvalue()
