"""Write docs/reference/cli.md from the command line itself: python docs/make_reference.py [--check]."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer.main

from diffbcp_cli.cli.app import app

PAGE = Path(__file__).parent / "reference" / "cli.md"


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its full name, in the order of `--help`."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, child in inner.items():
        yield from commands(child, f"{path} {name}")


def row(parameter: Any) -> str:
    """One line of a command's table."""
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if parameter.param_type_name == "argument":
        names = f"`{parameter.name.upper()}`"
    shown = getattr(parameter, "show_default", None)
    default = shown if isinstance(shown, str) else parameter.default
    plain = default is None or default is False or callable(default) or "Sentinel" in type(default).__name__
    text = (parameter.help or "").replace("|", "\\|")
    return f"| {names} | {'' if plain or default == '' else f'`{default}`'} | {_choices(parameter)}{text} |"


def _choices(parameter: Any) -> str:
    """The values that an option takes, if they are few."""
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    values = list(annotation) if isinstance(annotation, type(Enum)) else get_args(annotation)
    named = [str(value) for value in values if isinstance(value, str)]
    return f"{', '.join(f'`{value}`' for value in named)}. " if named else ""


def page() -> str:
    """The whole page."""
    parts = [
        "# Command line",
        "",
        "Made from the program by `make docs`; a test keeps it up to date.",
        "",
        "Exit codes: 0 all done, 1 some inputs failed, 2 usage, 3 an input cannot be used, 4 model or download,",
        "5 out of memory, 130 interrupted. Results go to stdout (paths, or JSON with `--json`), talk to stderr.",
    ]
    for name, command in commands(typer.main.get_command(app), "diffbcp"):
        summary = " ".join((command.help or "").split("\n\n")[0].split())
        parts += ["", f"## {name}", "", summary, "", "| option | default | |", "| --- | --- | --- |"]
        parts += [row(p) for p in command.params if not p.hidden and p.name != "help"]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else "run: make docs")
    PAGE.write_text(page(), encoding="utf-8")
