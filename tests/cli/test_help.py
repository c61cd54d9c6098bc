"""Help: one screen for most people, everything in groups for the rest, and never slow."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

from diffbcp_cli.cli.common import Common
from diffbcp_cli.options import GROUPS, Options, flag, kinds, table


def shown(*arguments):
    environment = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-m", "diffbcp_cli", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("command", ["inpaint", "denoise"])
def test_help_fits_one_screen_with_an_example(command):
    text = shown(command, "--help")
    lines = text.rstrip().splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    assert f"Example: diffbcp {command} " in text
    rows = [line for line in lines if line[6:].startswith("--")]
    assert 12 <= len(rows) <= 20
    assert "--help-all" in rows[-1]
    assert shown(command, "-h") == text


@pytest.mark.parametrize("command", ["inpaint", "denoise"])
def test_help_all_shows_every_option_in_its_group(command):
    text = shown(command, "--help-all")
    panels = {part.split(" ─")[0]: part for part in text.split("╭─ ")[1:]}
    assert list(panels) == list(GROUPS)
    for of in (Common, Options):
        for name, one in table(of).items():
            named = one.names or (flag(name),)
            here = any(text in panels[one.group] for text in (named[0], f"--[no-]{named[0][2:]}"))
            assert here == (command in one.commands), name
    assert "<bool>" not in text


def test_flags_take_no_value():
    text = shown("inpaint", "--help-all")
    for name, kind in kinds(Options).items():
        if kind is bool:
            line = next(line for line in text.splitlines() if name.replace("_", "-") in line)
            assert line.split()[1] in (flag(name), f"--[no-]{flag(name)[2:]}")


def test_help_takes_little_time():
    times = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        shown("inpaint", "--help")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(times) < 0.3


@pytest.mark.parametrize(
    "command", ["mask make", "mask apply", "mask from", "mask show", "eval", "train", "models pull", "doctor"]
)
def test_other_commands_show_flags_as_flags_too(command):
    text = shown(*command.split(), "--help")
    assert f"Usage: diffbcp {command} " in text
    assert "<" not in text
    assert max(map(len, text.splitlines())) <= 80
