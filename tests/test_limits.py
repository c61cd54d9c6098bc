"""Sizes and names in the package: short files, short functions, names that say what a thing is, one factor 2."""

from __future__ import annotations

import ast
import re

import pytest
from layers import FILES, ROOT

MOST_LINES, MOST_IN_A_FUNCTION = 300, 45
VAGUE = {"kernel", "parts", "outcome", "completion", "large", "spread"}
SCALES = re.compile(
    r"/ 2 \+ 0\.5|\+ 1\) / 2|\* 2 - 1|\* 2\.0 - 1|2 \* \w+ - 1\b|127\.5|0\.5 \* \(\w+ \+ 1"
    r"|2 \* (?:noise|sigma|level|std)\w*|(?:noise|level|std|sigma)\w* / 2\b"
)
"""How a change between [0, 1] and [-1, 1] looks."""
NOT_A_SCALE = {
    "lowrank/cp_cg.py": "half of a triangular matrix",
    "lowrank/cusp.py": "degrees of freedom",
    "priors/reverse.py": "the reverse SDE",
    "priors/networks/ddpm.py": "a network that was trained on [0, 1] says so in its configuration",
}
"""Where such an expression means something else: file, and why."""
every_file = pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))


def lines_of(path):
    return path.read_text(encoding="utf-8").splitlines()


@every_file
def test_no_file_is_long(path):
    if "networks" not in path.parts:
        assert len(lines_of(path)) <= MOST_LINES


@every_file
def test_no_function_is_long(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = node.end_lineno - node.lineno + 1
            assert length <= MOST_IN_A_FUNCTION, f"{path.name}:{node.lineno} {node.name} has {length} lines"


@every_file
def test_names_say_what_a_thing_is(path):
    names = {*path.relative_to(ROOT).with_suffix("").parts}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names |= {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    assert not {name.strip("_").lower() for name in names} & VAGUE


def code_of(path):
    """The lines of a file that are not docstrings or comments."""
    text = path.read_text(encoding="utf-8")
    skipped = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            skipped |= {*range(node.lineno, node.end_lineno + 1)}
    for number, line in enumerate(text.splitlines(), 1):
        if number not in skipped:
            yield number, line.split("  # ")[0]


@every_file
def test_only_units_goes_from_one_scale_to_the_other(path):
    name = str(path.relative_to(ROOT))
    found = [f"{name}:{number} {line.strip()}" for number, line in code_of(path) if SCALES.search(line)]
    if name == "units.py" or name in NOT_A_SCALE:
        return
    assert not found


@pytest.mark.parametrize(
    "line",
    ["x / 2 + 0.5", "(x + 1) / 2", "x * 2 - 1", "2 * x - 1", "x / 127.5 - 1", "2 * noise_std", "level / 2"],
)
def test_a_change_of_scale_is_seen(line):
    assert SCALES.search(line)


def test_every_exception_is_needed():
    for name in NOT_A_SCALE:
        assert any(SCALES.search(line) for _, line in code_of(ROOT / name)), name
