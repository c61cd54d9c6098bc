"""Several processes: the same bytes as one, signals reach them, and a death takes nothing else with it."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffbcp_cli.jobs.plan import Request, make_plan
from diffbcp_cli.jobs.pool import Told, run_here, run_processes
from diffbcp_cli.jobs.run import choose_jobs, settle
from diffbcp_cli.jobs.session import Session
from diffbcp_cli.options import Options

pytestmark = pytest.mark.slow
CFG = Options(prior="none", iterations=4, burn_in=1, rank=6, threads=1)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for name in "abcd":
        pixels = np.random.default_rng(ord(name)).integers(0, 256, (24, 24, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    return folder


def jobs_of(photos: Path, out: Path):
    return make_plan(Request((str(photos),), out)).jobs


def pictures(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".png", ".tiff")}


def never() -> bool:
    return False


def test_processes_give_the_same_bytes_and_a_bad_file_stops_none(photos, tmp_path):
    (photos / "c.png").write_bytes(b"broken")
    here = list(run_here(jobs_of(photos, tmp_path / "a"), Session(CFG), tell=lambda s: None, stopping=never))
    steps: list[Told] = []
    jobs = jobs_of(photos, tmp_path / "b")
    there = list(run_processes(jobs, Session(CFG), 2, tell=steps.append, stopping=never))
    assert {r.name: r.status for r in there} == {r.name: r.status for r in here}
    assert {r.name for r in there if r.status == "failed"} == {"c.png"}
    assert pictures(tmp_path / "a") == pictures(tmp_path / "b")
    assert {(s.name, s.progress.done) for s in steps} == {(f"{n}.png", k) for n in "abd" for k in range(5)}
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_once_is_replaced_and_one_that_always_dies_is_reported(photos, tmp_path):
    deaths: list[str] = []

    def kill(told: Told) -> None:
        first = told.progress.done == 1
        if first and (told.name == "b.png" or (told.name == "c.png" and "c.png" not in deaths)):
            deaths.append(told.name)
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid or 0, signal.SIGKILL)

    cfg = settle({"prior": "none", "iterations": 80, "burn_in": 1, "rank": 6})
    jobs = jobs_of(photos, tmp_path / "out")[1:]
    reports = {r.name: r for r in run_processes(jobs, Session(cfg), 1, tell=kill, stopping=never)}
    assert {name: report.status for name, report in reports.items()} == {
        "b.png": "failed",
        "c.png": "done",
        "d.png": "done",
    }
    assert "killed by signal 9" in (reports["b.png"].error or "")
    assert deaths.count("b.png") == 2
    assert not list((tmp_path / "out").glob("*.tmp"))


def start(photos: Path, out: Path, *more: str) -> subprocess.Popen[str]:
    options = ["--prior", "none", "--iterations", "100000", "--burn-in", "1", "--rank", "6", "--quiet", *more]
    command = [
        sys.executable,
        "-m",
        "diffbcp_cli",
        "denoise",
        str(photos),
        "-o",
        str(out),
        "-j",
        "2",
        *options,
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Processes of the batch that compute: children that were spawned."""
    found = []
    for entry in Path("/proc").glob("[1-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == process.pid and b"spawn_main" in line:
            found.append(int(entry.name))
    return found


def wait_for_checkpoints(out: Path, count: int) -> None:
    """Until `count` photographs are being computed: a checkpoint shows it."""
    end = time.monotonic() + 90
    while len(list(out.glob("*.checkpoint.safetensors"))) < count:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_sigterm_reaches_the_workers_and_what_they_have_is_saved(photos, tmp_path):
    out = tmp_path / "out"
    process = start(photos, out, "--checkpoint-every", "0.1")
    wait_for_checkpoints(out, 2)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["interrupted"], summary["left"], summary["failed"]) == (2, 2, 0)
    for result in summary["results"]:
        if result["status"] == "interrupted":
            assert json.loads((out / result["name"]).with_suffix(".json").read_text())["finished"] is False
    assert not [*out.glob("*.tmp"), *out.glob("*.lock")]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for processes in /proc")
def test_workers_end_with_their_parent(photos, tmp_path):
    process = start(photos, tmp_path / "out", "--checkpoint-every", "0.1")
    wait_for_checkpoints(tmp_path / "out", 2)
    workers = workers_of(process)
    assert len(workers) == 2
    process.kill()
    process.communicate()
    end = time.monotonic() + 30
    while any(Path("/proc", str(pid)).exists() for pid in workers):
        assert time.monotonic() < end
        time.sleep(0.1)


def test_the_number_of_jobs_follows_gpus_or_cores_and_memory():
    assert choose_jobs(CFG, gpus=3) == 3
    assert choose_jobs(Options(memory_budget=2**59, threads=1), gpus=0) == 1
    assert 1 <= choose_jobs(CFG, gpus=0) <= (os.cpu_count() or 1)
    assert choose_jobs(Options(threads=4096), gpus=0) == 1
