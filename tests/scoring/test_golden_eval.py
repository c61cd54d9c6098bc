"""What `diffbcp eval` writes stays as it was: see golden_eval.py."""

from __future__ import annotations

import json
import math
import re

import golden_eval
import pytest
from golden_runs import kind_of_machine

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
SAME_MACHINE = json.loads((golden_eval.HOME / "machine.json").read_text()) == kind_of_machine()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    texts = golden_eval.run(tmp_path_factory.mktemp("eval"))
    texts["eval.html"] = "\n".join(golden_eval.flat(texts["eval.html"])) + "\n"
    return texts


@pytest.mark.parametrize("name", ["eval.json", "eval.csv", "eval.md", "eval.html"])
def test_an_evaluation_writes_what_it_wrote(written, name):
    recorded = (golden_eval.HOME / name).read_text(encoding="utf-8")
    if SAME_MACHINE:
        assert written[name].splitlines() == recorded.splitlines()
        return
    assert NUMBER.sub("#", written[name]) == NUMBER.sub("#", recorded)
    numbers = (map(float, NUMBER.findall(text)) for text in (written[name], recorded))
    assert all(math.isclose(a, b, rel_tol=1e-3, abs_tol=0.11) for a, b in zip(*numbers, strict=True))
