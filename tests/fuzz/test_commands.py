"""Hostile command lines end in a result or in a sentence, and leave every file that they were given as it was.

`make test` tries a part of them, `make fuzz` all; DIFFBCP_FUZZ says how many.
"""

from __future__ import annotations

import importlib.util
import io
import os
import re
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from diffbcp_cli.cli.app import run

_spec = importlib.util.spec_from_file_location("commands", Path(__file__).with_name("commands.py"))
assert _spec is not None
assert _spec.loader is not None
commands = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(commands)

CODES = {0, 1, 2, 3, 4, 5, 130}
SLOW = 30.0  # seconds
USUAL = 130


def test_there_are_more_than_two_hundred_command_lines():
    assert len(commands.COMMANDS) == len({tuple(words) for words in commands.COMMANDS}) > 700


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "place"
    folder.mkdir()
    commands.files(folder)
    monkeypatch.chdir(folder)
    return folder


def contents(place):
    """Every file, folder and link, by its path."""
    found = {}
    for path in place.rglob("*"):
        what = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[path] = what
    return found


def put_back(place, before):
    """Make the folder what it was; return what a command had changed of its inputs."""
    now = contents(place)
    for path in sorted(now.keys() - before.keys(), reverse=True):
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
    changed = [path for path, what in before.items() if now.get(path, "gone") != what]
    for path in changed:
        path.unlink(missing_ok=True)
        path.write_bytes(before[path])
    return [path.name for path in changed], [path.name for path in now if path.suffix in (".tmp", ".lock")]


def fault(words, code, said, seconds, changed, left):
    """What is wrong with the end of a command; None if nothing is."""
    itself = words[:2] in (["mask", "grow"], ["mask", "shrink"]) and words[2] in words[3:]
    faults = {
        "exit code": code not in CODES,
        "traceback": "Traceback" in said or re.search(r"unexpected \w+(Error|Exception)", said),
        "slow": seconds > SLOW,
        "silent": code not in (0, None) and not said.strip() and words != ["mask"],
        f"changed {changed}": changed and not itself,
        f"left {left}": left,
    }
    return [name for name, there in faults.items() if there]


@pytest.mark.filterwarnings("ignore")
def test_every_command_line_ends_in_a_result_or_a_sentence(place, monkeypatch, capfd):
    cases = int(os.environ.get("DIFFBCP_FUZZ", USUAL))
    stride = max(1, len(commands.COMMANDS) // cases)
    found, before = [], contents(place)
    for words in commands.COMMANDS[::stride]:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b""), isatty=lambda: False))
        began = time.monotonic()
        try:
            code = run(list(words))
        except BaseException as error:
            code = repr(error)
        said = capfd.readouterr().err
        wrong = fault(words, code, said, time.monotonic() - began, *put_back(place, before))
        if wrong:
            found.append((words, wrong, code, said[-300:]))
    print(f"{len(commands.COMMANDS[::stride])} command lines: {len(found)} ended badly")
    assert not found, found


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        (["denoise", "", "-o", "out"], 2, "empty argument after denoise"),
        (["denoise", "photo.png", "-o", ""], 2, "empty argument after -o"),
        (["eval", "pairs", "truth", "--csv="], 2, "--csv is empty"),
        (["denoise", "**", "-o", "out"], 3, "no image matches **"),
        (["inpaint", "photo.png", "-m", "struct.npy", "-o", "out"], 3, "values other than 0 and 1"),
        (
            ["mask", "apply", "photo.png", "--noise", "nan", "-o", "x.png"],
            2,
            "--noise must be a finite number",
        ),
        (
            ["mask", "detect", "photo.png", "--grow", "nan", "-o", "x.png"],
            2,
            "--grow must be a finite number",
        ),
        (["models", "info", "model"], 4, "model is not a prior"),
        (
            ["compare", "photo.png", "-m", "mask.png", "--truth", "one.png", "-o", "out", "-q", "-j", "1"],
            1,
            "1x1",
        ),
    ],
)
def test_what_was_accepted_or_ended_badly_once(place, capsys, line, code, sentence):
    before = contents(place)
    assert run(line) == code
    assert sentence in " ".join(capsys.readouterr().err.split())
    if code in (2, 3):
        assert contents(place) == before
