"""The commands of the pages for people run, one after the other, as a reader would type them."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from diffbcp_cli.cli.app import run

DOCS = Path(__file__).parent.parent / "docs"
SERVERS = ("open",)  # commands that do not end by themselves


def scan(folder: Path) -> None:
    """A smooth picture with grain and white specks, a copy painted over, and clean ones."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:192, :192] / 192
    clean = np.stack([0.4 + 0.2 * np.sin(4 * x + k) * np.cos(3 * y) for k in range(3)], -1)
    damaged = clean + 0.01 * rng.standard_normal(clean.shape)
    dust = np.zeros(damaged.shape[:2], np.uint8)
    for centre, radius in zip(rng.integers(10, 180, (25, 2)), rng.integers(1, 5, 25), strict=True):
        cv2.circle(dust, tuple(map(int, centre)), int(radius), 255, -1, cv2.LINE_AA)
    damaged += (dust[..., None] / 255) * (0.95 - damaged)
    painted = damaged.copy()
    painted[60:66, 20:90] = (1, 0, 1)
    for name, values in {
        "scan": damaged,
        "photo": damaged,
        "noisy": damaged,
        "painted": painted,
        "clean": clean,
    }.items():
        Image.fromarray((values.clip(0, 1) * 255).astype(np.uint8)).save(folder / f"{name}.png")
    with Image.open(folder / "photo.png") as photo:
        cut = photo.convert("RGBA")
    cut.paste((0, 0, 0, 0), (0, 0, 20, 20))
    cut.save(folder / "photo.png")  # its corner is transparent
    for name in ("scans", "photos"):
        (folder / name).mkdir()
        shutil.copy(folder / "scan.png", folder / name / "first.png")


def commands(page: Path) -> list[list[str]]:
    """The lines of blocks of code that are one command and no more."""
    found = re.findall(r"^    diffbcp (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [shlex.split(line, comments=True) for line in found]


@pytest.mark.parametrize("name", ["how-to/repair.md", "tutorial/first-restoration.md"])
def test_every_command_of_a_page_runs(name, tmp_path, monkeypatch):
    scan(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIFFBCP_METHOD", "telea")  # the commands are what is tried, not the sampler
    lines = [line for line in commands(DOCS / name) if line[0] not in SERVERS]
    assert len(lines) >= 5
    for line in lines:
        assert run(line) == 0, line
