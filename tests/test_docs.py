"""The documentation says what the program does."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


def test_the_reference_of_the_command_line_is_up_to_date():
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make_reference.py"), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_prior_of_the_readers_own_runs():
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    own = next(example for example in examples if "class Shrink" in example)
    quick = "from functools import partial\ndenoise = partial(denoise, iterations=6, burn_in=3, rank=8)\n"
    names: dict[str, object] = {}
    exec(examples[0] + quick + own, names)
    assert names["result"].mean.shape == (32, 32, 3)  # type: ignore[attr-defined]


def test_the_first_python_example_runs():
    page = (ROOT / "docs" / "reference" / "python.md").read_text(encoding="utf-8")
    example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    names: dict[str, object] = {}
    exec(example, names)
    assert names["result"].mean.shape == (32, 32, 3)  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path):
    text = page.read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in link:
            assert (page.parent / link).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_that_a_page_names_exists(page: Path):
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`(--[a-z-]+)`", reference)) | {"--help", "--version", "--check"}
    for line in page.read_text(encoding="utf-8").splitlines():
        if "diffbcp " in line and not line.startswith(("|", "#")):
            assert set(re.findall(r"(--[a-z][a-z-]+)", line.split("#")[0])) <= known, line


def test_the_demo_finds_its_photograph():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from demo import portrait
    finally:
        sys.path.pop(0)
    assert portrait().size == (256, 256)
