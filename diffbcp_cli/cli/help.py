"""Help of `inpaint` and `denoise`: the options that most people need on one screen, or all of them in groups."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from typer.core import TyperCommand

from ..options import GROUPS, Option, Options, allowed, flag, kinds, table
from . import render
from .options import Common, default_text

EXAMPLES = {
    "inpaint": "diffbcp inpaint photo.png --mask mask.png -o out/",
    "denoise": "diffbcp denoise noisy.png -o out/",
}
PHOTOS = "PHOTO is a file, a folder, a quoted pattern, or - for a list on stdin."
_LONGEST = 16  # characters of choices that stand beside the flag
_METAVARS = {int: "N", float: "NUMBER", str: "TEXT", Path: "PATH"}


class ShortHelp(TyperCommand):
    """A command whose `--help` shows the essential options only."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help; nothing is left for the formatter."""
        show_help(str(self.name), str(self.help), everything=False)


def show_help(command: str, text: str, *, everything: bool) -> None:
    """Print usage, one example and the options: in one list, or in groups with `everything`."""
    mask = " --mask MASK" if command == "inpaint" else ""
    usage = f"Usage: diffbcp {command} PHOTO...{mask} [OPTIONS]"
    for line in ("", usage, "", text, PHOTOS, "", f"Example: {EXAMPLES[command]}", ""):
        render.out.print(Text(f" {line}".rstrip()), soft_wrap=False)
    listed = [
        (of, name, one)
        for of in (Common, Options)
        for name, one in table(of).items()
        if command in one.commands
    ]
    if everything:
        for group in GROUPS:
            _show_panel(group, [_row(of, name, one) for of, name, one in listed if one.group == group])
        return
    short = sorted((entry for entry in listed if entry[2].essential), key=lambda e: GROUPS.index(e[2].group))
    more = [("    --help-all", "Show every option, in groups.")]
    _show_panel("Options", [*(_row(of, name, one) for of, name, one in short), *more])


def _row(of: type, name: str, one: Option) -> tuple[str, str]:
    """The flags of an option, and what it does."""
    kind, words = kinds(of)[name], allowed(of, name)
    letters = [text for text in one.names if not text.startswith("--")]
    long = next((text for text in one.names if text.startswith("--")), flag(name))
    about, value = one.help, one.metavar or _METAVARS.get(kind, "")
    if words and not one.metavar:
        beside = len("|".join(words)) <= _LONGEST
        value, about = ("|".join(words), about) if beside else ("NAME", f"{about} {', '.join(words)}.")
    if kind is bool and one.default is True:
        long = f"--[no-]{long[2:]}"
    shown = f"{long} {value}".rstrip()
    default = "" if kind is bool else default_text(one)
    return (
        f"{letters[0]}, {shown}" if letters else f"    {shown}",
        f"{about} [{default}]" if default else about,
    )


def _show_panel(title: str, rows: Iterable[tuple[str, str]]) -> None:
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    grid.add_column(style="bold cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    for flags, text in rows:
        grid.add_row(Text(flags), Text(text))
    panel = Panel(grid, title=title, title_align="left", border_style="dim", expand=True)
    render.out.print(panel, soft_wrap=False)
