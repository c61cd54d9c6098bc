"""Watching a run: JSON lines on stderr, details, a log file, and the live overview of a folder."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pytest
from conftest import SHORT
from rich.console import Console

from diffbcp_cli.cli import many, render
from diffbcp_cli.cli.app import run
from diffbcp_cli.jobs.pool import Told
from diffbcp_cli.jobs.report import Report
from diffbcp_cli.watch import Progress

LOUD = [word for word in SHORT if word != "--quiet"]


def events(text: str) -> list[dict]:
    """Every line is an object: nothing else is on stderr."""
    return [json.loads(line) for line in text.splitlines()]


def test_progress_as_json_is_one_object_a_line(photo, mask, tmp_path, capsys):
    command = ["inpaint", str(photo), "--mask", str(mask), "-o", str(tmp_path / "out"), *LOUD]
    assert run([*command, "--progress", "json"]) == 0
    found = events(capsys.readouterr().err)
    told = [one for one in found if one["event"] == "progress"]
    assert (told[0]["done"], told[-1]["done"], told[-1]["total"]) == (0, 6, 6)
    assert told[-1]["stage"] == "sampling"
    assert told[-1]["seconds_left"] == 0
    assert told[-1]["numbers"]["noise_std"] > 0
    assert {"note", "finished"} <= {one["event"] for one in found}
    assert found[-1]["files"][0].endswith("photo.mean.png")


def test_an_error_is_an_object_too(tmp_path, capsys):
    assert run(["denoise", str(tmp_path / "no.png"), "--progress", "json"]) == 3
    (error,) = events(capsys.readouterr().err)
    assert (error["event"], error["exit_code"]) == ("error", 3)
    assert error["hint"]


def test_a_folder_tells_what_came_of_each(photo, tmp_path, capsys):
    (tmp_path / "bad.png").write_bytes(b"not a picture")
    command = ["denoise", str(tmp_path), "-o", str(tmp_path / "out"), *LOUD, "--jobs", "1"]
    assert run([*command, "--progress", "json"]) == 1
    found = events(capsys.readouterr().err)
    assert {one["name"]: one["status"] for one in found if one["event"] == "report"} == {
        "bad.png": "failed",
        "photo.png": "done",
    }


def test_quiet_wins_over_json(photo, tmp_path, capsys):
    assert run(["denoise", str(photo), "-o", str(tmp_path / "out"), *SHORT, "--progress", "json"]) == 0
    assert capsys.readouterr().err == ""


def test_the_log_hears_everything_even_what_quiet_hides(photo, mask, tmp_path):
    log = tmp_path / "run.log"
    command = ["inpaint", str(photo), "--mask", str(mask), "-o", str(tmp_path / "out"), *SHORT]
    assert run([*command, "--log-file", str(log)]) == 0
    assert run([*command, "--mask", "none.png", "--overwrite", "--log-file", str(log)]) == 3
    text = log.read_text()
    for part in (
        "note: photo.png: 8.8 % will be filled",
        "stage: photo.png: sampling",
        "options: prior none",
    ):
        assert part in text
    assert "error: " in text.splitlines()[-1] or "Traceback" in text
    assert all(line[:4].isdigit() for line in text.splitlines() if ": " in line and not line.startswith(" "))


def test_the_log_says_where_an_unexpected_error_came_from(photo, tmp_path, monkeypatch):
    def fail(*ignored):
        raise RuntimeError("a broken part")

    monkeypatch.setattr("diffbcp_cli.jobs.one.restore_photo", fail)
    log = tmp_path / "run.log"
    with pytest.raises(RuntimeError):
        run(["denoise", str(photo), "-o", str(tmp_path), *SHORT, "--log-file", str(log)])
    assert "Traceback" in log.read_text()
    assert "a broken part" in log.read_text()


def test_verbose_says_more_and_not_together_with_quiet(photo, tmp_path, capsys):
    command = ["denoise", str(photo), "-o", str(tmp_path / "out"), *LOUD]
    assert run(command) == 0
    assert "torch " not in capsys.readouterr().err
    assert run([*command, "--overwrite", "-v"]) == 0
    said = capsys.readouterr().err
    assert "torch " in said
    assert "computed on cpu" in said
    assert run([*command, "-v", "-q"]) == 2


def test_a_log_that_cannot_be_written_is_said_before_the_work(photo, tmp_path, capsys):
    assert run(["denoise", str(photo), "--log-file", str(tmp_path / "no" / "run.log")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_no_file_but_a_log_of_ours_gets_lines_of_a_log(photo, mask, tmp_path, capsys):
    (tmp_path / "link.png").hardlink_to(photo)
    (tmp_path / "run.toml").write_text("rank = 3\n")
    command = ["inpaint", str(photo), "--mask", str(mask), "-o", str(tmp_path / "out"), *SHORT]
    for name in (photo.name, "link.png", mask.name, "run.toml"):
        before = (tmp_path / name).read_bytes()
        assert run([*command, "--log-file", str(tmp_path / name)]) == 2
        assert "is not a log that diffbcp wrote" in capsys.readouterr().err
        assert (tmp_path / name).read_bytes() == before
    log = tmp_path / "run.log"
    for _ in range(2):  # the second run adds its lines
        assert run([*command, "--overwrite", "--log-file", str(log)]) == 0
    assert log.read_text().count("finished: done") == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="/dev/full is Linux's")
def test_a_run_outlives_its_log(photo, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(["denoise", str(photo), "-o", str(out), *SHORT, "--log-file", "/dev/full"]) == 0
    assert capsys.readouterr().err.count("the log ends here: no space left on device") == 1
    assert (out / "photo.mean.png").is_file()
    os.mkfifo(tmp_path / "pipe")
    assert run(["denoise", str(photo), "-o", str(out), *SHORT, "--log-file", str(tmp_path / "pipe")]) == 2


@pytest.fixture
def terminal(monkeypatch):
    """A narrow terminal for both streams."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    console = Console(file=Terminal(), width=60, force_terminal=True, color_system=None)
    monkeypatch.setattr(render, "err", console)
    return console.file


def report(name, status, **more):
    return Report(name, name, None, status, width=1200, height=900, missing_share=0.1, seconds=12.3, **more)


def test_the_overview_of_a_folder_on_a_narrow_terminal(terminal, monkeypatch):
    monkeypatch.setattr(sys, "stdout", terminal)
    name = "a rather long name of a photograph of a holiday.png"
    with many.Overview({name}, quiet=False, paths=True, failed=1) as overview:
        overview.add(report("bad.png", "failed", error="it is damaged"))
        overview.tell(Told(name, Progress("sampling", 3, 60)))
        overview.tell(Told(name, Progress("sampling", 60, 60)))
        overview.bar.refresh()
        overview.add(report(name, "done", files=("out/a.png",)))
    lines = [line for part in terminal.getvalue().split("\n") for line in part.split("\r")]
    shown = [line.replace("\x1b[2K", "").replace("\x1b[1A", "") for line in lines]
    assert "1 failed" in terminal.getvalue()
    assert any("summing up" in line for line in shown)
    assert not any("60/60" in line for line in shown)
    assert "out/a.png" in shown  # alone on its line


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_no_column_of_the_table_vanishes(width):
    console = Console(file=io.StringIO(), width=width)
    console.print(many._table([report("sub/photo.png", "done")], width))
    shown = console.file.getvalue()
    assert "12.3 s" in shown
    assert "done" in shown
    assert ("uncertainty" in shown) == (width >= many.NARROW)
    assert ("1200 x 900" in shown) == (width >= 60)
