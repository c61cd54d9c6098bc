"""The options of `inpaint` and `denoise` on the command line: those of the run, and those of the files."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..errors import UsageError
from ..options import (
    Given,
    Option,
    Options,
    Recipe,
    allowed,
    check,
    check_value,
    flag,
    kinds,
    lay,
    option,
    read_recipe,
    resolve,
    table,
)
from ..options.table import IO, MANY, SAMPLING
from ..options.written import read_size

INPAINT = ("inpaint",)


@dataclass(frozen=True)
class Common:
    """What the commands take besides the options of the run itself: files, and how to go about them."""

    mask: str | None = option(
        None,
        IO,
        "Mask (white: fill), a folder of masks, or alpha.",
        names=("--mask", "-m"),
        metavar="MASK",
        commands=INPAINT,
        essential=True,
    )
    mask_polarity: Literal["white-fills", "white-keeps"] | None = option(
        None, IO, "What white means in a mask picture.", shown="white-fills", commands=INPAINT
    )
    out: Path = option(
        Path(),
        IO,
        "Folder for results, or a file for one picture.",
        names=("--output", "-o"),
        shown="",
        essential=True,
    )
    config: Path | None = option(None, IO, "Options from a TOML file or a result's JSON.", essential=True)
    overwrite: bool = option(False, IO, "Restore again even if the result is there.", essential=True)
    resume: bool = option(False, IO, "Go on from the checkpoint of an interrupted run.", essential=True)
    dry_run: bool = option(False, IO, "Show what would be done, with estimates; do nothing.", essential=True)
    print_config: bool = option(False, IO, "Print every option as TOML for --config; do nothing.")
    as_json: bool = option(False, IO, "Print the record as JSON.", names=("--json",), essential=True)
    quiet: bool = option(
        False, IO, "No progress, no notes: paths and errors only.", names=("--quiet", "-q"), essential=True
    )
    fast: bool = option(False, SAMPLING, "Trade a little quality for speed (--preset fast).", essential=True)
    jobs: int = option(
        0,
        MANY,
        "Photographs at a time.",
        names=("--jobs", "-j"),
        shown="by cores and memory",
        least=0,
        essential=True,
    )
    engine: Literal["local", "ray"] = option("local", MANY, "Work here, or on a Ray cluster.")
    address: str | None = option(
        None, MANY, "Address of the Ray cluster; without it, one of its own is started."
    )
    shard: str | None = option(None, MANY, "Do part I of N only, by a hash of the names: 1/4.", metavar="I/N")
    root: Path | None = option(None, MANY, "Names and sub-folders are relative to this folder.")
    null: bool = option(False, MANY, "Names in the list on stdin end in NUL.", names=("--null", "-0"))
    wait: bool = option(False, MANY, "Wait for another run that works on the same photograph.")
    max_pixels: int = option(
        100_000_000, MANY, "Refuse pictures with more pixels.", read=read_size, metavar="NUMBER", shown="100M"
    )


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of the command's own name to it.

    The command gets the recipe, made of what was typed and of the configuration file, and the rest as `common`.
    """
    name = command.__name__
    own = inspect.signature(command, eval_str=True).parameters["photos"]
    places = [
        (of, each) for of in (Common, Options) for each, one in table(of).items() if name in one.commands
    ]

    @functools.wraps(command)
    def call(photos: list[str] | None, help_all: bool, **typed: Any) -> None:
        values = {Common: dict[str, Any](), Options: dict[str, Any]()}
        for of, each in places:
            if typed[each] is not None:
                values[of][each] = check_value(of, each, typed[each])
        common = Common(**values[Common])
        command(photos, recipe=_recipe(name, values[Options], common), common=common)

    everything = [own, *(_parameter(of, each) for of, each in places), _HELP_ALL]
    everything = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in everything]
    call.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in everything}
    del call.__wrapped__
    return call


def _show_all(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        from .help import show_help

        show_help(str(ctx.command.name), str(ctx.command.help), everything=True)
        raise typer.Exit


_HELP_ALL = inspect.Parameter(
    "help_all",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[
        bool, typer.Option("--help-all", is_eager=True, callback=_show_all, help="Show every option.")
    ],
)


def _parameter(of: type, name: str) -> inspect.Parameter:
    """One option as Typer wants it; unset is None, so that what was typed is known."""
    one, kind, words = table(of)[name], kinds(of)[name], allowed(of, name)
    names = one.names or (flag(name),)
    if kind is bool and of is Options:
        names = (f"{names[0]}/--no-{names[0][2:]}",)
    if kind is tuple or one.read is not None:
        kind = str
    elif words:
        kind = Literal[words]
    more = typer.Option(
        *names, help=one.help, show_default=default_text(one) or False, metavar=one.metavar or None
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, more]
    )


def default_text(one: Option) -> str:
    """The default as help shows it, "" for none."""
    if one.shown is not None:
        return one.shown
    return (
        ""
        if one.default is None or one.default is False
        else "on"
        if one.default is True
        else str(one.default)
    )


def _recipe(command: str, typed: Given, common: Common) -> Recipe:
    """Lay what was typed over the configuration file; refuse at once what does not go together."""
    recipe = read_recipe(common.config) if common.config is not None else Recipe()
    typed = dict(check(typed))
    if common.fast and typed.setdefault("preset", "fast") != "fast":
        raise UsageError(f"--fast and --preset {typed['preset']} are two presets", hint="give one of them")
    if command == "denoise":
        typed["observed"] = "posterior"
    given = lay(recipe.given, typed)
    resolve(given)
    return Recipe(given, recipe.record)
