"""A stop at any moment, and streams that nobody reads: the same orderly end, and the same results."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from photo_files import save

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc and /dev/full"),
]
TINY = ["--prior", "none", "--burn-in", "1", "--rank", "4"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number in range(4):
        save(folder / f"{number}.png", number)
    return folder


def start(*words: str, **streams) -> subprocess.Popen[bytes]:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    command = [sys.executable, "-m", "diffbcp_cli", "denoise", *words, *TINY]
    return subprocess.Popen(command, start_new_session=True, **pipes)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    return bool(int(status.partition("SigCgt:")[2].split()[0], 16) >> (number - 1) & 1)


def ended(process: subprocess.Popen[bytes], out: Path) -> str:
    """What it said, after an orderly end."""
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert b"Traceback" not in said, said.decode()
    assert b"Exception ignored" not in said, said.decode()
    assert not [p for p in out.rglob("*") if p.suffix in (".tmp", ".lock", ".stop")] if out.exists() else True
    return said.decode()


@pytest.mark.parametrize("after", [1.0, 3.0, 5.0])
def test_ctrl_c_while_workers_start_ends_all_of_them(photos, tmp_path, after):
    out = tmp_path / "out"
    process = start(str(photos), "-o", str(out), "-j", "2", "--iterations", "100000", "--quiet")
    while not list(Path(f"/proc/{process.pid}/task/{process.pid}").glob("children")) or not any(
        b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    time.sleep(after - 1)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    ended(process, out)
    summary = json.loads((out / "summary.json").read_text())
    assert summary["failed"] == summary["done"] == 0
    assert summary["interrupted"] + summary["left"] == 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("after", [0.0, 0.4, 1.5])
def test_a_signal_before_the_first_iteration_is_an_orderly_end(photos, tmp_path, number, after):
    process = start(str(photos / "0.png"), "-o", str(tmp_path / "out"), "--iterations", "100000")
    end = time.monotonic() + 5
    while not catches(process.pid, signal.SIGTERM) and time.monotonic() < end:
        time.sleep(0.001)
    time.sleep(after)
    process.send_signal(number)
    ended(process, tmp_path / "out")


def test_nohup_is_honoured(photos, tmp_path):
    words = [str(photos / "0.png"), "-o", str(tmp_path / "out"), "--iterations", "3", *TINY]
    command = ["nohup", sys.executable, "-m", "diffbcp_cli", "denoise", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(4):
        time.sleep(0.5)
        process.send_signal(signal.SIGHUP)
    assert process.wait(60) == 0


def results(out: Path) -> set[str]:
    return {path.name for path in out.iterdir() if not path.name.startswith("summary")}


@pytest.mark.parametrize("which", ["stdout", "stderr"])
@pytest.mark.parametrize("how", ["closed", "full", "gone"])
def test_results_do_not_depend_on_who_reads_the_talk(photos, tmp_path, which, how):
    out, number = tmp_path / "out", 1 if which == "stdout" else 2
    command = [sys.executable, "-m", "diffbcp_cli", "denoise", str(photos), "-o", str(out), "-j", "1"]
    command += [*TINY, "--iterations", "2"]
    shell = {"closed": f'exec {number}>&-; exec "$@"', "full": f'exec "$@" {number}>/dev/full'}
    reader, writer = os.pipe()
    os.close(reader)
    streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if how == "gone":
        streams[which] = writer
    done = subprocess.run(
        ["sh", "-c", shell.get(how, 'exec "$@"'), "sh", *command], timeout=90, check=False, **streams
    )
    os.close(writer)
    assert done.returncode == (3 if (which, how) == ("stdout", "full") else 0)
    assert results(out) == {
        f"{n}.{kind}" for n in range(4) for kind in ("mean.png", "std.png", "std.tiff", "json")
    }
    assert json.loads((out / "summary.json").read_text())["done"] == 4
