"""The options of `inpaint` and `denoise` on the command line: those of the run, and those of the files."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal

import typer

from ..errors import UsageError
from ..options import (
    Given,
    Options,
    Recipe,
    allowed,
    check,
    check_value,
    flag,
    kinds,
    lay,
    read_recipe,
    resolve,
    table,
)
from ..options.plugins import WithPlugins
from .common import Common, default_text
from .help import show_help
from .own_defaults import fitting, own_defaults


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
    elif words and not isinstance(one.choices, WithPlugins):
        kind = Literal[words]
    more = typer.Option(
        *names,
        help=one.help,
        show_default=default_text(one) or False,
        metavar=one.metavar or None,
        autocompletion=(lambda: list(words)) if words else None,
    )
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, more]
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
    given = lay(fitting(own_defaults(command), given), given)
    resolve(given)
    return Recipe(given, recipe.record)
