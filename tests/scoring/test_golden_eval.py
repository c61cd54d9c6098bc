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
    assert NUMBER.sub("#", written[name]) == NUMBER.sub("#", recorded)
    numbers = (map(float, NUMBER.findall(text)) for text in (written[name], recorded))
    # the order of the terms of a dot product follows from where arrays lie in memory
    bounds = {"rel_tol": 1e-9, "abs_tol": 1e-9} if SAME_MACHINE else {"rel_tol": 1e-3, "abs_tol": 0.11}
    assert all(math.isclose(a, b, **bounds) for a, b in zip(*numbers, strict=True))
