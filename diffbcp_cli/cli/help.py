"""Help on the screen: usage, one example, and the options with what each does.

`inpaint` and `denoise` show the options that most people need on one screen, and all of them with `--help-all`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from enum import EnumMeta
from pathlib import Path
from typing import Any, get_args

from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from ..errors import UsageError
from ..options import GROUPS, Option, Options, allowed, flag, kinds, table
from . import render
from .common import Common, default_text

RESTORING = ("inpaint", "denoise")
EXAMPLES = {
    "inpaint": "inpaint photo.png --mask mask.png -o out/",
    "denoise": "denoise noisy.png -o out/",
    "compare": "compare photo.png --mask mask.png --methods diffbcp,telea -o out/",
    "train": "train photos/ -o my-prior/",
    "doctor": "doctor",
    "eval": "eval out/ truth/ --html report.html",
    "open": "open photo.png",
    "mask make": "mask make --kind scratch --like photo.png -o mask.png",
    "mask apply": "mask apply photo.png --mask mask.png --noise 0.025 -o observed.png",
    "mask from": "mask from painted.png --color magenta --photo photo.png -o mask.png",
    "mask show": "mask show photo.png --mask mask.png -o overlay.png",
    "mask grow": "mask grow mask.png --pixels 2 -o larger.png",
    "mask shrink": "mask shrink mask.png --pixels 1 -o smaller.png",
    "mask combine": "mask combine dust.png scratches.png -o both.png",
    "mask detect": "mask detect scan.png --kind dust,scratch -o mask.png",
    "methods list": "methods list",
    "methods info": "methods info diffpir",
    "models list": "models list",
    "models pull": "models pull ffhq",
    "models info": "models info natural",
    "models verify": "models verify natural",
    "models path": "models path natural",
}
"""An example of every command, after `diffbcp`."""
PHOTOS = "PHOTO is a file, a folder, a quoted pattern, or - for stdin."
_LONGEST = 16  # characters of choices that stand beside the flag
_METAVARS: dict[Any, str] = {
    **{int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"},
    **{"integer": "N", "integer range": "N", "float": "NUMBER", "float range": "NUMBER", "path": "PATH"},
}
Row = tuple[str, str]


class Checked(TyperCommand):
    """A command whose numbers are numbers: no option takes NaN or infinity, which pass every range."""

    def invoke(self, ctx: Any) -> Any:
        """Check what was typed, then run the command."""
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{parameter.opts[0]} must be a finite number, not {value}")
        return super().invoke(ctx)


class Help(Checked):
    """A command whose help has one line for each option, and no types beside flags."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; nothing is left for the formatter."""
        found: list[Any] = [*self.params]
        arguments = [p for p in found if p.param_type_name == "argument"]
        options = [p for p in found if p.param_type_name == "option" and p.name != "help"]
        named = "".join(f" {argument(p)}" for p in arguments)
        usage = f"Usage: {ctx.command_path}{named} [OPTIONS]"
        example = f"Example: diffbcp {EXAMPLES[ctx.command_path.removeprefix('diffbcp ')]}"
        _show_lines([usage, "", *_paragraphs(self.help), "", example])
        for title, rows in (
            ("Arguments", [(argument(p), p.help) for p in arguments if p.help]),
            ("Options", [row_of_parameter(p) for p in options]),
        ):
            if rows:
                _show_panel(title, rows)


class ShortHelp(Checked):
    """A command whose `--help` shows the essential options only."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; nothing is left for the formatter."""
        show_help(str(self.name), str(self.help), everything=False)


def show_help(command: str, text: str, *, everything: bool) -> None:
    """Print usage, one example and the options: in one list, or in groups with `everything`."""
    mask = " --mask MASK" if command == "inpaint" else ""
    usage = f"Usage: diffbcp {command} PHOTO...{mask} [OPTIONS]"
    _show_lines([usage, "", text, PHOTOS, "", f"Example: diffbcp {EXAMPLES[command]}"])
    listed = [
        (of, name, one)
        for of in (Common, Options)
        for name, one in table(of).items()
        if command in one.commands
    ]
    if everything:
        for group in GROUPS:
            _show_panel(group, [row_of(of, name, one) for of, name, one in listed if one.group == group])
        return
    needed = (entry for entry in listed if entry[2].essential_for(command))
    short = sorted(needed, key=lambda entry: GROUPS.index(entry[2].group))
    more = [("    --help-all", "Show every option, in groups.")]
    _show_panel("Options", [*(row_of(of, name, one) for of, name, one in short), *more])


def row_of(of: type, name: str, one: Option) -> Row:
    """The flags of an option of the table, and what it does."""
    kind, default = kinds(of)[name], default_text(one)
    names = one.names or (flag(name),)
    if kind is bool:
        names = tuple(f"--[no-]{text[2:]}" for text in names) if one.default is True else names
        return _line(names, "", (), one.help, "")
    words = () if one.metavar else allowed(of, name)
    return _line(names, one.metavar or _METAVARS.get(kind, ""), words, one.help, default)


def row_of_parameter(parameter: Any) -> Row:
    """The same of an option that a command declares by itself."""
    if getattr(parameter, "is_flag", False):
        return _line(parameter.opts, "", (), str(parameter.help), "")
    shown = getattr(parameter, "show_default", None)
    default = shown if isinstance(shown, str) else parameter.default
    plain = default is None or callable(default) or "Sentinel" in type(default).__name__
    value = parameter.metavar or _METAVARS.get(_annotation(parameter), "TEXT")
    said = "required" if parameter.required else "" if plain else str(default)
    return _line(parameter.opts, value, words_of(parameter), str(parameter.help), said)


def _line(names: Iterable[str], value: str, words: tuple[str, ...], text: str, default: str) -> Row:
    """Few choices stand beside the flag, many in the text."""
    letter = next((f"{name}, " for name in names if not name.startswith("--")), "    ")
    long = next(name for name in names if name.startswith("--"))
    if words:
        beside = len("|".join(words)) <= _LONGEST
        value, text = ("|".join(words), text) if beside else ("NAME", f"{text} {', '.join(words)}.")
    return f"{letter}{long} {value}".rstrip(), f"{text} [{default}]" if default else text


def words_of(parameter: Any) -> tuple[str, ...]:
    """The words that a parameter of a command takes, () if any will do."""
    annotation = _annotation(parameter)
    values = list(annotation) if isinstance(annotation, EnumMeta) else get_args(annotation)
    values = values or getattr(getattr(parameter, "type", None), "choices", ())
    return tuple(str(value) for value in values if isinstance(value, str))


def _annotation(parameter: Any) -> Any:
    """The type of a parameter; Typer before 0.26 has only the name that click gives it."""
    descriptor = getattr(parameter, "type_descriptor", None)
    if descriptor is not None:
        return descriptor.annotation
    return getattr(getattr(parameter, "type", None), "name", None)


def argument(parameter: Any) -> str:
    """The name of an argument in the usage of its command; dots say that there may be several."""
    name = parameter.metavar or parameter.name.upper()
    return f"{name}..." if parameter.nargs == -1 and not name.endswith("...") else str(name)


def _paragraphs(text: str | None) -> Iterator[str]:
    """The text of a command, each paragraph as one line, which the screen breaks."""
    for i, part in enumerate((text or "").split("\n\n")):
        yield from (["", " ".join(part.split())] if i else [" ".join(part.split())])


def _show_lines(lines: Iterable[str]) -> None:
    for line in ("", *lines, ""):
        render.out.print(Padding(Text(line), (0, 0, 0, 1)) if line else "", soft_wrap=False)


def _show_panel(title: str, rows: Iterable[Row]) -> None:
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for flags, text in rows:
        grid.add_row(Text(flags), Text(text))
    panel = Panel(grid, title=title, title_align="left", border_style="dim", expand=True)
    render.out.print(panel, soft_wrap=False)
