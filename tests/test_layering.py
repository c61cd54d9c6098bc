"""Imports point one way only, heavy ones stay out of the way, and numerics keep to themselves."""

from __future__ import annotations

import ast
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from layers import (
    FILES,
    LAYERS,
    LEVELS,
    ROOT,
    imports,
    inner,
    longest_chain,
    longest_module_chain,
    module_imports,
    module_of,
    modules,
    place,
)

import diffbcp_cli

TESTS = Path(__file__).parent
NUMERICS = ["random", "units", "operators", "lowrank", "methods", "run", "estimators"]
STARTS = {"cli/open.py": {"web"}}
ALLOWED = {"methods/classical.py": {"cv2"}}  # it inpaints with OpenCV, and reads no file


def name_of(path):
    return str(path.relative_to(ROOT))


def test_every_module_has_its_layer():
    assert {place(path) for path in FILES} - {None} == set(LAYERS)


def test_the_tests_mirror_the_tree():
    """A folder of tests is a package of the same name; `laws` holds for every method, operator and estimator;
    `fuzz` is for the whole program.
    """
    folders = {path.parent.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")}
    packages = {path.name for path in ROOT.iterdir() if (path / "__init__.py").exists()}
    assert folders - {"laws", "fuzz"} <= packages


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_point_to_earlier_layers_only(path):
    mine = place(path)
    if mine is None:
        return
    for theirs in inner(path):
        assert theirs in LAYERS, f"{name_of(path)} imports {theirs}"
        assert LAYERS.index(theirs) <= LAYERS.index(mine), f"{name_of(path)} imports {theirs}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_packages_of_one_level_do_not_know_each_other(path):
    """All but those of the lowest level, which are in order, and the command that starts the page."""
    mine = place(path)
    level = next((names for names in LEVELS[1:] if mine in names), ())
    assert not {*inner(path)} & ({*level} - {mine} - STARTS.get(name_of(path), set()))


MOST_MODULES = 24  # in a chain of imports, with those inside functions


def test_no_module_imports_itself_and_no_chain_of_imports_is_long():
    chain = longest_module_chain()  # a circle is an error
    print(f"{len(chain)} modules: {' > '.join(chain)}")
    graph = module_imports()
    assert all(theirs in graph[mine] for mine, theirs in pairwise(chain))
    assert len(chain) <= MOST_MODULES, " > ".join(chain)


def test_a_circle_is_seen(monkeypatch):
    monkeypatch.setattr("layers.module_imports", lambda: {"a": {"b"}, "b": {"c"}, "c": {"b"}})
    with pytest.raises(ValueError, match="b > c > b"):
        longest_module_chain()


def test_a_name_is_known_by_the_module_that_holds_it():
    assert module_of("diffbcp_cli.operators.mask.Mask") == "operators.mask"
    assert module_of("diffbcp_cli.operators.mask") == "operators.mask"
    assert module_of("diffbcp_cli.options.Options") == "options"
    assert module_of("torch.nn") is None


def test_there_are_at_most_seven_levels():
    assert len(LEVELS) <= 7
    chain = longest_chain()
    assert all(theirs in imports()[mine] for mine, theirs in pairwise(chain))
    level = {name: number for number, names in enumerate(LEVELS) for name in names}
    assert [level[name] for name in chain] == sorted((level[name] for name in chain), reverse=True)


def test_the_rule_sees_imports_of_every_form(tmp_path):
    (tmp_path / "bcp").mkdir()
    path = tmp_path / "bcp" / "sweep.py"
    path.write_text(
        "from ..cli import app\nfrom .. import api, __version__\nfrom . import random\nfrom .state import State\n"
        "import diffbcp_cli.io.files\ndef f():\n    from ..weights.hub import Hub\n"
    )
    assert sorted(inner(path, tmp_path)) == ["api", "bcp", "bcp", "cli", "io", "weights"]


@pytest.mark.parametrize("path", [p for p in FILES if place(p) not in ("cli", None)], ids=name_of)
def test_the_terminal_is_for_the_command_line_only(path):
    """typer and rich are imported in cli/ alone, and nothing else prints."""
    assert not {m.split(".")[0] for m in modules(path)} & {"typer", "rich", "click"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        called = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else None
        assert called not in ("print", "input"), f"{name_of(path)}:{node.lineno}"


@pytest.mark.parametrize("path", [p for p in FILES if place(p) in NUMERICS], ids=name_of)
def test_numerics_know_of_no_files(path):
    files = {"pathlib", "os", "io", "json", "shutil", "PIL", "cv2"} - ALLOWED.get(name_of(path), set())
    assert not {m.split(".")[0] for m in modules(path)} & files


GLOBAL = {"manual_seed", "seed", "set_rng_state"}
RANDOM = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}


def calls(tree):
    """(line, owner, name, call) of all calls owner.name(...), but for seeds inside a fork of the global generator."""
    forked = {
        id(inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.With) and "fork_rng" in ast.unparse(node.items[0])
        for inside in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and id(node) not in forked:
            yield node.lineno, ast.unparse(node.func.value), node.func.attr, node


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_every_draw_takes_its_generator(path):
    """No global seed, and no draw of torch or NumPy from a global generator."""
    for line, owner, name, call in calls(ast.parse(path.read_text(encoding="utf-8"))):
        where = f"{name_of(path)}:{line} {owner}.{name}"
        if owner in ("torch", "torch.cuda", "torch.random", "np.random"):
            assert name not in GLOBAL, where
        if owner == "torch" and name in RANDOM:
            assert any(keyword.arg == "generator" for keyword in call.keywords), where
        if owner == "np.random":
            assert name in ("default_rng", "Generator", "PCG64", "SeedSequence"), where
        assert name not in ("rand_like", "randn_like", "randint_like"), where


def run(code):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


HELP = """
import sys
from diffbcp_cli.cli.app import run
for arguments in {arguments}:
    code = run(arguments)
    assert code == 0, (arguments, code)
heavy = {{"torch", "cv2", "matplotlib", "huggingface_hub", "PIL", "scipy", "tifffile"}} & set(sys.modules)
assert not heavy, heavy
"""


def test_help_and_version_import_nothing_heavy():
    commands = ["inpaint", "denoise", "train", "eval", "mask", "models"]
    arguments = [["--version"], ["--help"], *([c, "--help"] for c in commands), ["mask", "make", "--help"]]
    result = run(HELP.format(arguments=arguments))
    assert result.returncode == 0, result.stderr
    assert f"diffbcp {diffbcp_cli.__version__}" in result.stdout


def test_importing_the_package_imports_nothing_heavy():
    result = run("import sys, diffbcp_cli; assert 'torch' not in sys.modules and 'numpy' not in sys.modules")
    assert result.returncode == 0, result.stderr


def test_the_module_runs_as_a_program():
    result = subprocess.run(
        [sys.executable, "-m", "diffbcp_cli", "--version"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (result.returncode, result.stdout.strip()) == (0, f"diffbcp {diffbcp_cli.__version__}")
