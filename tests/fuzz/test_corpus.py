"""Every kind of hostile input ends in a result or in a sentence: no traceback, no hang, nothing half-written.

`make test` tries a part of the kinds, `make fuzz` all of them several times; DIFFBCP_FUZZ says how many cases.
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

_spec = importlib.util.spec_from_file_location("corpus", Path(__file__).with_name("corpus.py"))
assert _spec is not None
assert _spec.loader is not None
corpus = importlib.util.module_from_spec(_spec)
import sys  # noqa: E402

sys.modules["corpus"] = corpus  # its dataclass looks itself up
_spec.loader.exec_module(corpus)

CODES = {0, 1, 2, 3, 4, 5, 130}
SLOW = 30.0  # seconds
USUAL = 150


def test_there_are_more_than_four_hundred_kinds():
    assert len(corpus.KINDS) == len(set(corpus.KINDS)) > 400


@pytest.mark.filterwarnings("ignore")
def test_every_case_ends_in_a_result_or_a_sentence(tmp_path, monkeypatch, capfd):
    cases = int(os.environ.get("DIFFBCP_FUZZ", USUAL))
    stride = max(1, len(corpus.KINDS) // cases)
    found = {"traceback": [], "slow": [], "partial": [], "code": []}
    for number in range(0, cases * stride, stride):
        case = corpus.make(number, tmp_path / str(number))
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(case.listed)))
        began = time.monotonic()
        try:
            code = run(case.command)
        except BaseException as error:
            found["traceback"].append(f"{case.name}: {error!r}")
            continue
        said = capfd.readouterr().err
        if time.monotonic() - began > SLOW:
            found["slow"].append(case.name)
        if code not in CODES:
            found["code"].append(f"{case.name}: {code}")
        if "Traceback" in said or re.search(r"unexpected \w+(Error|Exception)", said):
            found["traceback"].append(f"{case.name}: {said[-300:]}")
        left = case.out.rglob("*") if case.out.exists() else ()
        if any(path.suffix in (".tmp", ".lock") for path in left):
            found["partial"].append(case.name)
        shutil.rmtree(tmp_path / str(number))
    print(f"{cases} cases:", {name: len(cases) for name, cases in found.items()})
    assert not any(found.values()), found
