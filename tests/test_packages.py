"""What is beside the code: packages, citation, manual pages."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

import diffbcp_cli

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_citation_has_the_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (\S+)$", citation, re.MULTILINE)[1] == diffbcp_cli.__version__
    assert "Bayesian Tensor Decomposition with Diffusion Model Prior" in citation


def test_the_extra_all_has_all_others():
    extras = PROJECT["optional-dependencies"]
    (every,) = extras["all"]
    assert set(re.search(r"\[(.*)\]", every)[1].split(",")) == set(extras) - {"all", "dev"}


def test_every_extra_is_documented():
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    for name in set(PROJECT["optional-dependencies"]) - {"all", "dev"}:
        assert f"`{name}`" in page, name


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "man").glob("*.1")), ids=lambda page: page.stem)
def test_a_manual_page_has_nothing_that_man_does_not_know(page):
    if shutil.which("groff") is None:
        pytest.skip("groff is not here")
    done = subprocess.run(["groff", "-man", "-ww", "-z", str(page)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_there_is_a_manual_page_for_every_command_and_none_for_others():
    pages = {page.stem for page in (ROOT / "docs" / "man").glob("*.1")}
    overview = (ROOT / "docs" / "man" / "diffbcp.1").read_text(encoding="utf-8").replace("\\-", "-")
    named = set(re.findall(r"^\\fB(diffbcp [a-z ]+)\\fR$", overview, re.MULTILINE))
    assert {name.replace(" ", "-") for name in named} | {"diffbcp"} == pages
