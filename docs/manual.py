"""Manual pages in the language of man, made from the command line itself by make_reference.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from diffbcp_cli.cli.common import Common
from diffbcp_cli.cli.help import EXAMPLES, PHOTOS, RESTORING, argument, row_of, row_of_parameter
from diffbcp_cli.options import GROUPS, Options, table

EXITS = {
    0: "All done.",
    1: "Some inputs failed.",
    2: "Usage.",
    3: "An input cannot be used.",
    4: "Model or download.",
    5: "Out of memory.",
    130: "Interrupted; --resume goes on.",
}
VARIABLES = {
    "DIFFBCP_OPTION": "The default of an option of inpaint and denoise: DIFFBCP_DEVICE=cpu, DIFFBCP_BURN_IN=20.",
    "DIFFBCP_CONFIG": "The file of defaults, in place of ~/.config/diffbcp/config.toml.",
    "DIFFBCP_MODELS": "A folder with a list of priors of your own.",
    "HF_HOME, HF_TOKEN, HF_HUB_OFFLINE, HF_ENDPOINT": "Where and how priors are downloaded.",
    "NO_COLOR": "No colours.",
}


def manual_pages(commands: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, str]]:
    """The page of every command, and one of them all; the file name and the text of each."""
    found = list(commands)
    for path, command in found:
        yield f"{path.replace(' ', '-')}.1", _page(path, command)
    listed = [entry for path, command in found for entry in _entry(path, _summary(command))]
    yield (
        "diffbcp.1",
        "\n".join(
            [
                *_head("diffbcp", "restore photographs, and say how sure every pixel is"),
                *_section("SYNOPSIS", [r"\fBdiffbcp\fR \fICOMMAND\fR [\fIOPTIONS\fR]"]),
                *_section("COMMANDS", listed),
                *_endings(),
                "",
            ]
        ),
    )


def _page(path: str, command: Any) -> str:
    name = path.removeprefix("diffbcp ")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    named = " ".join(rf"\fI{_plain(argument(p))}\fR" for p in arguments)
    parts = [*_head(path.replace(" ", "-"), _summary(command))]
    parts += _section("SYNOPSIS", [rf"\fB{_plain(path)}\fR {named} [\fIOPTIONS\fR]"])
    text = [_plain(" ".join(part.split())) for part in (command.help or "").split("\n\n")]
    parts += _section("DESCRIPTION", "\n.PP\n".join(text).split("\n"))
    if name in RESTORING:
        parts += [".PP", _plain(PHOTOS)]
        parts += _restoring(name)
    else:
        own = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
        rows = [(_plain(argument(p)), p.help) for p in arguments if p.help] + [
            row_of_parameter(p) for p in own
        ]
        parts += _section("OPTIONS", [line for row in rows for line in _entry(*row)]) if rows else []
    parts += _section("EXAMPLE", [".nf", _plain(f"diffbcp {EXAMPLES[name]}"), ".fi"])
    return "\n".join([*parts, *_endings(), ""])


def _restoring(command: str) -> Iterator[str]:
    for group in GROUPS:
        rows = [
            row_of(of, name, one)
            for of in (Common, Options)
            for name, one in table(of).items()
            if one.group == group and command in one.commands
        ]
        if rows:
            yield from _section(group.upper(), [line for row in rows for line in _entry(*row)])


def _endings() -> Iterator[str]:
    yield from _section(
        "EXIT STATUS", [line for code, text in EXITS.items() for line in _entry(str(code), text)]
    )
    yield from _section("ENVIRONMENT", [line for row in VARIABLES.items() for line in _entry(*row)])


def _head(name: str, text: str) -> list[str]:
    title = _plain(name)
    return [
        rf'.TH "{title.upper()}" "1" "" "diffbcp" "diffbcp manual"',
        *_section("NAME", [rf"{title} \- {_plain(text)}"]),
    ]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    return [f".SH {title}", *lines]


def _entry(term: str, text: str | None) -> list[str]:
    """A term, and below it what it means."""
    return [".TP", rf"\fB{_plain(term.strip())}\fR", _plain(text or "")]


def _summary(command: Any) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split()).rstrip(".")


def _plain(text: str) -> str:
    """Text in which nothing is taken for a command of man."""
    found = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq")
    return rf"\&{found}" if found.startswith(".") else found
