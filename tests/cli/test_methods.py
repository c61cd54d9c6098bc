"""`diffbcp methods`: the list, what is said of each, and an unknown name."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from diffbcp_cli.cli.app import run
from diffbcp_cli.cli.methods import describe
from diffbcp_cli.options import METHODS, flag

PATHS = [name for name, entry in METHODS.items() if entry.path]


def test_the_list_has_every_method(capsys):
    assert run(["methods", "list", "--json"]) == 0
    assert [one["name"] for one in json.loads(capsys.readouterr().out)] == list(METHODS)
    assert run(["methods", "list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in METHODS)


@pytest.mark.parametrize("name", METHODS)
def test_info_has_the_text_and_every_option(name, capsys):
    assert run(["methods", "info", name]) == 0
    shown = capsys.readouterr().out
    assert describe(name)["text"].split("\n")[0] in shown
    assert all(flag(option) in shown for option in METHODS[name].options)


@pytest.mark.parametrize("name", [*PATHS, "pnp-dm"])
def test_the_text_says_what_it_assumes_costs_and_how_ours_differs(name):
    text = describe(name)["text"]
    assert all(f"\n{word}" in text for word in ("Assumes: ", "Cost: ", "Reference: ", "Ours differs: "))


def test_a_default_of_its_own_is_shown():
    options = {one["flag"]: one["default"] for one in describe("dps")["options"]}
    assert options["--iterations"] == 1000


def test_an_unknown_method_suggests_the_nearest(capsys):
    assert run(["methods", "info", "ddmr"]) == 2
    assert "diffbcp methods info ddrm" in capsys.readouterr().err


def test_list_and_info_need_no_torch():
    code = (
        "import sys; from diffbcp_cli.cli.app import run\n"
        "assert run(['methods', 'list']) == run(['methods', 'info', 'dps']) == 0\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
