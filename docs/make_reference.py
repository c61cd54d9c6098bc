"""Write docs/reference/cli.md and docs/man from the command line, and options/arguments.py from the table of options.

Run it as python docs/make_reference.py [--check].
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from manual import manual_pages

import diffbcp_cli.options
from diffbcp_cli.cli.app import app
from diffbcp_cli.cli.common import Common, default_text
from diffbcp_cli.cli.help import EXAMPLES, PHOTOS, RESTORING, words_of
from diffbcp_cli.cli.methods import describe
from diffbcp_cli.options import GROUPS, METHODS, PRESETS, Option, Options, allowed, flag, kinds, table

PAGE = Path(__file__).parent / "reference" / "cli.md"
METHODS_FOLDER = PAGE.parent / "methods"
MANUAL = Path(__file__).parent / "man"
MADE = "Made from the program by `make docs`; a test keeps it up to date."
ARGUMENTS = Path(diffbcp_cli.options.__file__).parent / "arguments.py"
ARGUMENTS_TOP = '''"""The options as keyword arguments of Python functions.

Made from table.py by `make docs`; a test keeps it up to date. The parameter `prior` is not among them: it may also be
a loaded prior.
"""

from typing import Literal, TypedDict


class Arguments(TypedDict, total=False):
    """Options by name, for `**options: Unpack[Arguments]`; times and sizes may be written as text."""
'''
TOP = """# Command line

Made from the program by `make docs`; a test keeps it up to date.

Exit codes: 0 all done, 1 some inputs failed, 2 usage, 3 an input cannot be used, 4 model or download,
5 out of memory, 130 interrupted. Results go to stdout (paths, or JSON with `--json`), notes to stderr."""
LARGE = """Beyond 512 x 512 pixels, options that are not set take the values in the column *large*, unless
`--no-size-defaults` is given. *alone* means without a prior, *few known* that less than a fifth of the entries is
known. A value that you set always stays."""

METHOD_NOTE = """An option that a method does not take is refused. A method that takes `--finish` reports the
picture that the prior refines from the mean of the draws; the others report the mean itself."""


def main_command() -> Any:
    """The command line as click has it."""
    return typer.main.get_command(app)


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
    words = "".join(f"`{word}`, " for word in words_of(parameter))[:-2] + ". " if words_of(parameter) else ""
    text = (parameter.help or "").replace("|", "\\|")
    return f"| {names} | {'' if plain or default == '' else f'`{default}`'} | {words}{text} |"


def section(name: str, command: Any) -> list[str]:
    """A command and its table."""
    summary = " ".join((command.help or "").split("\n\n")[0].split())
    parts = ["", f"## {name}", "", summary]
    restores = name.removeprefix("diffbcp ")
    parts += ["", f"    diffbcp {EXAMPLES[restores]}"]
    if restores in RESTORING:
        return [*parts, "", PHOTOS]
    rows = [row(p) for p in command.params if not p.hidden and p.name != "help"]
    return [*parts, "", "| option | default | |", "| --- | --- | --- |", *rows]


def option_row(of: type, name: str, one: Option) -> str:
    """One line of the table of the restoring commands."""
    names = [f"`{text}`" for text in one.names or (flag(name),)]
    if kinds(of)[name] is bool and of is Options:
        names.append(f"`--no-{name.replace('_', '-')}`")
    words = "" if kinds(of)[name] is tuple else ", ".join(f"`{word}`" for word in allowed(of, name))
    only = "" if len(one.commands) > 1 else f" Only for {one.commands[0]}."
    default = default_text(one)
    large = ", ".join(f"{case} {value}" for case, value in one.large.items())
    text = f"{words + '. ' if words else ''}{one.help}{only}"
    return f"| {', '.join(names)} | {f'`{default}`' if default else ''} | {large} | {text} |"


def restoring() -> list[str]:
    """The options of the commands that restore, in groups, and how presets and methods bear on them."""
    parts = ["", "## Options of inpaint and denoise", "", LARGE]
    listed = [(of, name, one) for of in (Common, Options) for name, one in table(of).items()]
    for group in GROUPS:
        rows = [option_row(*entry) for entry in listed if entry[2].group == group]
        parts += [
            "",
            f"### {group}",
            "",
            "| option | default | large | |",
            "| --- | --- | --- | --- |",
            *rows,
        ]
    parts += ["", "### Presets", ""]
    for name, preset in PRESETS.items():
        values = ", ".join(f"`{flag(key)} {value}`" for key, value in preset.values.items())
        beyond = {**preset.beyond, **preset.large.get("reshape", {})} if preset.beyond else {}
        large = ", ".join(f"`{flag(key)} {value}`" for key, value in beyond.items())
        parts.append(
            f"- `{name}`: {preset.help}. {values}; for large pictures {large or 'fewer iterations still'}."
        )
    parts += ["", "### Methods", "", METHOD_NOTE, ""]
    for name, entry in METHODS.items():
        needs = (
            " It needs a prior." if entry.needs_prior else "" if entry.takes_prior else " It takes no prior."
        )
        needs += " It needs the noise level." if entry.needs_noise else ""
        own = ", ".join(f"`{flag(key)}`" for key in entry.options)
        parts.append(f"- `{name}`: {entry.help}.{needs} Options: {own or 'none of its own'}.")
    return parts


def page() -> str:
    """The whole page."""
    parts = [TOP]
    found = list(commands(main_command(), "diffbcp"))
    last = max(i for i, (name, _) in enumerate(found) if name.removeprefix("diffbcp ") in RESTORING)
    for i, (name, command) in enumerate(found):
        parts += section(name, command)
        parts += restoring() if i == last else []
    return "\n".join(parts) + "\n"


def methods() -> dict[Path, str]:
    """A page for each method."""
    return {METHODS_FOLDER / f"{name}.md": method_page(name) for name in METHODS}


def method_page(name: str) -> str:
    """What `diffbcp methods info` shows, as a page."""
    facts = describe(name)
    parts = [f"# {name}", "", MADE, "", facts["text"], "", f"It needs {facts['needs']}.", ""]
    if facts["options"]:
        parts += ["| option | default | |", "| --- | --- | --- |"]
        parts += [f"| `{one['flag']}` | `{one['default']}` | {one['help']} |" for one in facts["options"]]
    return "\n".join(parts).rstrip() + "\n"


def arguments() -> str:
    """The module options/arguments.py."""
    lines = [ARGUMENTS_TOP]
    for name, one in table(Options).items():
        declared = next(of for of in Options.__mro__ if name in vars(of).get("__annotations__", {}))
        kind = str(declared.__annotations__[name]).replace("'", '"')
        if kinds(Options)[name] is tuple:
            kind = f"{kind} | list[str] | str"
        elif one.read is not None:
            kind = kind.replace(kinds(Options)[name].__name__, f"{kinds(Options)[name].__name__} | str")
        if name != "prior":
            lines.append(f"    {name}: {kind}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    manual = {MANUAL / name: text for name, text in manual_pages(commands(main_command(), "diffbcp"))}
    made = {PAGE: page(), ARGUMENTS: arguments(), **methods(), **manual}
    if "--check" in sys.argv:
        same = all(path.exists() and path.read_text(encoding="utf-8") == text for path, text in made.items())
        sys.exit(0 if same else "run: make docs")
    METHODS_FOLDER.mkdir(exist_ok=True)
    MANUAL.mkdir(exist_ok=True)
    for path, text in made.items():
        path.write_text(text, encoding="utf-8")
