"""Each equation of the paper has one home: it is cited in exactly one docstring of the package, always spelt alike.

`Eq. (7)` and `Alg. 2` mean the paper that this package implements (Tao and Zhao, ICML 2026), numbered as printed.
Other papers are cited by name, without a number.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "diffbcp_cli"

IMPLEMENTED = {
    "Eq. (1)": "lowrank/cp.py: reconstruct",
    "Eq. (2)": "priors/reverse.py: euler_vp",
    "Eq. (5)": "lowrank/likelihood.py: Coupling",
    "Eq. (6)": "lowrank/cp.py: draw_weights",
    "Eq. (7)": "lowrank/cp.py: draw_rows",
    "Eq. (8)": "lowrank/likelihood.py: draw_noise_precision",
    "Eq. (9)": "lowrank/cusp.py: draw_allocation",
    "Eq. (10)": "lowrank/cusp.py: draw_sticks",
    "Eq. (11)": "lowrank/cusp.py: draw_shrinkage",
    "Eq. (12)": "methods/split_gibbs.py: SplitGibbs._draw_prior_image",
    "Alg. 1": "methods/split_gibbs.py: SplitGibbs.step",
    "Alg. 2": "lowrank/cusp.py: rank_change",
}

_DENSITY = (
    "a density that is only named: the sampler needs its conditionals, and tiny.log_joint writes it out"
)
_THEORY = "theory about the sampler: there is nothing to compute"
NOT_IMPLEMENTED = {
    "Eq. (3)": _DENSITY,  # the joint probability of the decomposition
    "Eq. (4)": _DENSITY,  # the posterior before the image is split in two
    "Eq. (13)": _THEORY,  # the posterior with Z integrated out
    "Eq. (14)": _THEORY,  # its limit for rho -> 0
    "Eq. (15)": _DENSITY,  # the posterior of the split model
    "Eq. (16)": _THEORY,  # the bias that an inexact draw of Z leaves
    "Eq. (17)": _THEORY,  # both errors together
    "Eq. (18)": _THEORY,  # the proofs
    "Eq. (19)": _THEORY,
    "Eq. (20)": _THEORY,
    "Eq. (21)": _THEORY,
}

EQUATIONS, ALGORITHMS = 21, 2  # that the paper numbers
EXACT = re.compile(r"\b(?:Eq\. \(\d+\)|Alg\. \d+)")
LOOSE = re.compile(r"\b(?:eqs?\b|equations?\b|alg\b|algorithms?\b)\.?\s*\(?\d+\)?", re.IGNORECASE)


def docstrings(source):
    """The docstrings of a module by qualified name; the module's own has the name ''."""
    found = {}

    def visit(node, name):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            found[name] = ast.get_docstring(node) or ""
            for child in ast.walk(node):
                inner = getattr(child, "name", None)
                if child in node.body and inner is not None:
                    visit(child, f"{name}.{inner}".lstrip("."))

    visit(ast.parse(source), "")
    return found


def citations(sources):
    """Where each equation is cited, {citation: [place, ...]}, in sources {path: text}."""
    found = defaultdict(list)
    for path, source in sources.items():
        for name, text in docstrings(source).items():
            for citation in EXACT.findall(text):
                found[citation].append(f"{path}: {name}")
    return found


def misspelt(source):
    """What looks like a citation, anywhere in a module, and is not spelt as one."""
    return [m for m in LOOSE.findall(source) if not EXACT.fullmatch(m)]


@pytest.fixture(scope="module")
def sources():
    paths = sorted(PACKAGE.rglob("*.py"))
    assert len(paths) > 50
    return {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in paths}


def test_every_number_of_the_paper_is_accounted_for():
    numbers = [f"Eq. ({n})" for n in range(1, EQUATIONS + 1)] + [
        f"Alg. {n}" for n in range(1, ALGORITHMS + 1)
    ]
    assert sorted([*IMPLEMENTED, *NOT_IMPLEMENTED]) == sorted(numbers)


def test_each_equation_is_cited_in_exactly_one_docstring(sources):
    assert citations(sources) == {citation: [place] for citation, place in IMPLEMENTED.items()}


def test_equations_are_cited_nowhere_else_and_spelt_in_one_way(sources):
    for path, source in sources.items():
        assert misspelt(source) == [], path
        in_docstrings = sum(len(EXACT.findall(text)) for text in docstrings(source).values())
        assert len(EXACT.findall(source)) == in_docstrings, path


SAMPLE = '''
"""Module."""
class Sampler:
    """Alg. 1."""
    def step(self):
        """Eq. (7), and Eq. (12)."""
        def inner():
            """Eq. (7)."""
'''


def test_the_count_sees_classes_methods_and_functions_inside_them():
    assert citations({"a.py": SAMPLE}) == {
        "Alg. 1": ["a.py: Sampler"],
        "Eq. (7)": ["a.py: Sampler.step", "a.py: Sampler.step.inner"],
        "Eq. (12)": ["a.py: Sampler.step"],
    }


@pytest.mark.parametrize(
    "text", ["Eq. 7", "eq. (7)", "Eq (7)", "Equation 7", "Eqs. (7)", "Algorithm 2", "alg. 2"]
)
def test_another_spelling_is_seen(text):
    assert misspelt(f'"""See {text} for it."""')
