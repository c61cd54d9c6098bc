"""The documentation says what the program does."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from diffbcp_cli.cli.app import app
from diffbcp_cli.options import Options, check_value, table
from diffbcp_cli.photos.results import Record

ROOT = Path(__file__).parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/**/*.md")])


@pytest.mark.parametrize("script", ["make_reference.py", "make_architecture.py"])
def test_what_is_made_from_the_code_is_up_to_date(script: str):
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / script), "--check"], capture_output=True, text=True
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
    for link, place in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
        if "://" not in link:
            target = page.parent / link if link else page
            assert target.exists(), link
            assert not place or place in headings(target), f"{link}#{place}"


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub names them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_that_a_page_names_exists(page: Path):
    reference = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    known = set(re.findall(r"`(--[a-z-]+)`", reference)) | {
        "--help",
        "--version",
        "--check",
        "--install-completion",
        "--show-completion",
    }
    for line in page.read_text(encoding="utf-8").splitlines():
        if "diffbcp " in line and not line.startswith(("|", "#")):
            assert set(re.findall(r"(--[a-z][a-z-]+)", line.split("#")[0])) <= known, line


def command_lines(text: str) -> Iterator[str]:
    """What follows `diffbcp` in every command line of a page: in blocks of code, in tables and within sentences."""
    for line in text.splitlines():
        found = re.match(r"(?:    |\$ )(?:.*\| )?diffbcp (.*)", line)
        yield from [found[1]] if found else re.findall(r"`diffbcp ([^`]*)`", line)


def parse(command: Any, arguments: list[str], parent: Any = None) -> None:
    """Parse with the parser of the command line, without running anything; a command's bare name is enough."""
    if hasattr(command, "commands"):
        context = command.make_context(command.name, list(arguments), parent=parent)
        _, child, rest = command.resolve_command(context, arguments)
        parse(child, rest, context)
    elif arguments:
        context = command.make_context(command.name, list(arguments), parent=parent)
        for name, value in context.params.items():
            if value is not None and name in table(Options):
                check_value(Options, name, value)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "models/natural/README.md"], ids=lambda page: page.name)
def test_every_command_line_parses(page: Path):
    command = typer.main.get_command(app)
    for line in command_lines(page.read_text(encoding="utf-8")):
        try:
            parse(command, shlex.split(line, comments=True))
        except typer.Exit:  # --version
            pass
        except Exception as error:
            raise AssertionError(f"diffbcp {line}: {error}") from error


def test_a_command_line_that_does_not_parse_is_found():
    command = typer.main.get_command(app)
    page = "Type `diffbcp models info NAME`.\n\n    diffbcp inpaint a.png --mask m.png   # fill\n"
    page += "    ls | diffbcp denoise - --seeds 1\n    diffbcp denoise a.png --iterations 0\n"
    lines = [shlex.split(line, comments=True) for line in command_lines(page)]
    assert lines[:2] == [["models", "info", "NAME"], ["inpaint", "a.png", "--mask", "m.png"]]
    for line in lines[:2]:
        parse(command, line)
    for line in lines[2:]:
        with pytest.raises(Exception, match=r"--seeds|iterations"):
            parse(command, line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_benchmark_is_called_as_it_wants_to_be(page: Path):
    for script, line in re.findall(
        r"python ((?:benchmarks|docs)/\w+\.py)([^`\n]*)", page.read_text(encoding="utf-8")
    ):
        source = (ROOT / script).read_text(encoding="utf-8")
        options = dict(re.findall(r'add_argument\(\s*"(--[a-z-]+)"(.*?)\)\n', source, re.DOTALL))
        typed = set(re.findall(r"--[a-z-]+", line))
        assert typed <= set(options), f"{script}{line}"
        assert {name for name, rest in options.items() if "required=True" in rest} <= typed, f"{script}{line}"


def named_modules(text: str) -> set[str]:
    """Paths of Python files that a page names."""
    return set(re.findall(r"`((?:[a-z_]+/)*[a-z_0-9]+\.py)\b", text))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_that_a_page_names_exists(page: Path):
    package = ROOT / "diffbcp_cli"
    known = {path.name for path in package.rglob("*.py")}
    for name in named_modules(page.read_text(encoding="utf-8")):
        inside = (ROOT / name).exists() or (package / name).exists()
        assert inside or ("/" not in name and name in known), name


def test_the_tables_to_add_to_are_where_the_page_says():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    found = re.findall(r"`([A-Z]\w+)` in\s`([a-z_/]+\.py)`", page)
    assert {"METHODS", "ARCHITECTURES", "Options"} <= {name for name, _ in found}
    for name, path in found:
        code = (ROOT / "diffbcp_cli" / path).read_text(encoding="utf-8")
        assert re.search(rf"^(class )?{name}\b", code, re.MULTILINE), f"{name} in {path}"


def test_the_objects_of_the_eight_hops_exist():
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \d\. .*", page, re.MULTILINE)
    assert len(rows) == 8
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "diffbcp_cli").rglob("*.py"))
    for row in rows:
        for name in re.findall(r"`([A-Z]\w+)`", row):
            assert re.search(rf"^class {name}\b", code, re.MULTILINE), name


def test_every_key_of_the_record_is_documented():
    page = (ROOT / "docs" / "reference" / "outputs.md").read_text(encoding="utf-8")
    assert {key for key in Record.__annotations__ if f"`{key}`" not in page} == set()


def test_the_demo_finds_its_photograph():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from demo import portrait
    finally:
        sys.path.pop(0)
    assert portrait().size == (256, 256)
