"""`--watch FOLDER`: what a scanner saves is restored, once it is whole."""

from __future__ import annotations

import json
import shutil
import threading
import time

import numpy as np
import pytest
from conftest import outputs, picture
from PIL import Image

from diffbcp_cli.cli import watching
from diffbcp_cli.cli.app import run

FAST = ["--prior", "none", "--iterations", "3", "--burn-in", "1", "--rank", "4", "--jobs", "1"]


def save(path, seed=0):
    Image.fromarray((picture(seed=seed) * 255).astype(np.uint8)).save(path)
    return path


@pytest.fixture
def stopped(monkeypatch):
    """Ctrl-C after something has become true; the command runs in this thread."""
    monkeypatch.setattr(watching, "POLL", 0.05)
    monkeypatch.setattr(watching, "_SLICE", 0.01)

    def after(done):
        limit = time.monotonic() + 60
        return lambda: done() or time.monotonic() > limit

    return after


def watch(monkeypatch, command, stop):
    """Run the command with this in the place of the signals."""
    from contextlib import contextmanager

    class Stop:
        def __call__(self):
            return stop()

        def check(self):
            pass

    @contextmanager
    def stopping():
        yield Stop()

    monkeypatch.setattr("diffbcp_cli.cli.restore.stopping", stopping)
    return run(command)


def test_what_arrives_is_restored_and_what_is_there_already_too(tmp_path, monkeypatch, stopped):
    scans, out = tmp_path / "scans", tmp_path / "scans" / "out"
    scans.mkdir()
    save(scans / "a.png")
    (scans / "bad.png").write_bytes(b"not a picture")

    def later():
        while not (out / "a.json").exists():
            time.sleep(0.05)
        save(tmp_path / "b.png", 1)
        shutil.move(tmp_path / "b.png", scans / "b.png")

    thread = threading.Thread(target=later)
    thread.start()
    done = stopped(lambda: (out / "b.json").exists())
    code = watch(monkeypatch, ["denoise", "--watch", str(scans), "-o", str(out), *FAST], done)
    thread.join()
    assert {"a.mean.png", "b.mean.png", "summary.json"} <= outputs(out)
    found = {one["name"]: one["status"] for one in json.loads((out / "summary.json").read_text())["results"]}
    assert found == {"a.png": "done", "b.png": "done", "bad.png": "failed"}
    assert code == 1


def test_a_file_is_taken_once_when_it_no_longer_changes(tmp_path):
    arrivals = watching.Arrivals(tmp_path, ())
    path = save(tmp_path / "a.png")
    assert arrivals.look() == []  # it may still be written
    with path.open("ab") as file:
        file.write(b"more")
    assert arrivals.look() == []
    assert arrivals.look() == [path]
    arrivals.take(path)
    assert arrivals.look() == []
    save(path, 2)
    arrivals.look()
    assert arrivals.look() == [path]  # scanned again


def test_a_photograph_waits_for_its_mask(tmp_path, monkeypatch, stopped, capsys):
    scans, masks, out = tmp_path / "scans", tmp_path / "masks", tmp_path / "out"
    scans.mkdir()
    masks.mkdir()
    save(scans / "a.png")

    def later():
        time.sleep(1)
        hole = np.zeros((32, 32), np.uint8)
        hole[5:9, 5:9] = 255
        Image.fromarray(hole).save(masks / "a.png")

    thread = threading.Thread(target=later)
    thread.start()
    done = stopped(lambda: (out / "a.json").exists())
    command = [
        "inpaint",
        "--watch",
        str(scans),
        "--mask",
        str(masks),
        "-o",
        str(out),
        "--method",
        "telea",
        "-q",
    ]
    watch(monkeypatch, command, done)
    thread.join()
    assert (out / "a.mean.png").exists()
    assert capsys.readouterr().err.count("has no mask") == 1  # said once, not at every look


@pytest.mark.parametrize(
    "more", [["a.png"], ["--dry-run"], ["--shard", "1/2"], ["-o", "-"]], ids=lambda more: more[0]
)
def test_what_does_not_go_with_a_watch_is_said(more, tmp_path, capsys):
    assert run(["denoise", "--watch", str(tmp_path), *more]) == 2
    assert "--watch takes its photographs" in capsys.readouterr().err
