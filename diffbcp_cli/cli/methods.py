"""`diffbcp methods`: which methods there are, and what each assumes, takes and costs."""

from __future__ import annotations

import ast
import difflib
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from ..errors import UsageError
from ..options import METHODS, Options, flag, table
from ..options.methods import MethodEntry
from ..options.plugins import imported
from . import render
from .help import Help

app = typer.Typer(help="List and explain the restoration methods.", no_args_is_help=True)

FOLDER = Path(__file__).parents[1] / "methods"
NameArg = Annotated[str, typer.Argument(help="A name from the list.")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list", cls=Help)
def list_methods(json: JsonOpt = False) -> None:
    """List the methods that `--method` takes."""
    everything = dict(METHODS.everything())
    known = {name: entry for name, entry in everything.items() if isinstance(entry, MethodEntry)}
    for entry in everything.values():
        if isinstance(entry, UsageError):
            render.warn(entry.message)
    if json:
        render.as_json([{"name": name, "about": entry.help} for name, entry in known.items()])
        return
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("name", no_wrap=True)
    shown.add_column("what it is", overflow="fold")
    for name, entry in known.items():
        shown.add_row(name, entry.help)
    render.out.print(shown, soft_wrap=False)


@app.command(cls=Help)
def info(name: NameArg, json: JsonOpt = False) -> None:
    """Show what a method assumes, needs and costs, its options, and how ours differs from the published code."""
    if name not in METHODS:
        near = difflib.get_close_matches(name, METHODS, n=1)
        hint = f"diffbcp methods info {near[0]}" if near else "diffbcp methods list"
        raise UsageError(f"there is no method {name!r}", hint=hint)
    facts = describe(name)
    if json:
        render.as_json(facts)
        return
    render.out.print(f"{name}: {facts['about']}.", markup=False)
    render.out.print(f"\n{facts['text']}\n", markup=False)
    render.out.print(f"Needs: {facts['needs']}.", markup=False)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("option", "default", ""):
        shown.add_column(column, overflow="fold", no_wrap=column == "option")
    for one in facts["options"]:
        shown.add_row(one["flag"], str(one["default"]), one["help"])
    render.out.print(shown, soft_wrap=False)


def _file(module: str) -> Path:
    """The file of a method: one of ours, or of another package, whose name then has a dot."""
    if "." not in module:
        return FOLDER / f"{module}.py"
    package = imported(module.rpartition(".")[0])
    spec = find_spec(module, package.__name__)
    if spec is None or spec.origin is None:
        raise UsageError(f"there is no module {module}")
    return Path(spec.origin)


def describe(name: str) -> dict[str, Any]:
    """What the table of methods and the docstring of the method's file say; the file is not imported."""
    entry = METHODS[name]
    path = _file(entry.module or name.replace("-", "_"))
    estimated = "the noise level; what is not given with --sigma is estimated by a prior"
    needs = ["a prior"] * entry.needs_prior + [estimated] * entry.needs_noise
    known = table(Options)
    own = [*(key for key in ("iterations",) if key in entry.defaults), *entry.options]
    return {
        "name": name,
        "about": entry.help,
        "text": ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "",
        "needs": " and ".join(needs) or "nothing but the picture",
        "options": [
            {
                "flag": flag(key),
                "default": entry.defaults.get(key, known[key].default),
                "help": known[key].help,
            }
            for key in own
        ],
    }
