"""What is known of one option, and whether a value suits it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, Literal, ParamSpec, get_args, get_origin, get_type_hints

from ..errors import UsageError
from .written import read_size, written_size

IO, SAMPLING, PRIOR, MODEL = "Input and output", "Method and sampling", "Prior", "Low-rank model"
OWN, COMPUTING, MANY = "Options of single methods", "Computing", "Many photographs"
GROUPS = (IO, SAMPLING, PRIOR, MODEL, OWN, COMPUTING, MANY)
COMMANDS = ("inpaint", "denoise")
P = ParamSpec("P")


@dataclass(frozen=True)
class Option:
    """What is known of an option besides its name and type.

    group: the heading in help. least, above, most: the range of a number. or_zero: 0 is allowed below `least`.
    choices: the allowed words. read: turns text such as 90s or 2GB into the value. shown: the default as help
    shows it. large: values for large pictures, by case (see `resolve`). commands: those that take it.
    essential: `--help` shows it, of every command or of those named; the others need `--help-all`.
    names: its flags, if not --its-name.
    """

    default: Any
    group: str
    help: str
    least: float | None = None
    above: float | None = None
    most: float | None = None
    or_zero: bool = False
    choices: Collection[str] = ()
    read: Callable[[str, str], Any] | None = None
    shown: str | None = None
    large: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    commands: tuple[str, ...] = COMMANDS
    essential: bool | tuple[str, ...] = False
    metavar: str = ""
    names: tuple[str, ...] = ()

    def essential_for(self, command: str) -> bool:
        """Whether `--help` of a command shows it."""
        return command in self.essential if isinstance(self.essential, tuple) else self.essential


def _as_field(make: Callable[P, Option]) -> Callable[P, Any]:
    def declare(*values: P.args, **named: P.kwargs) -> Any:
        one = make(*values, **named)
        return dataclasses.field(default=one.default, metadata={"option": one})

    return declare


option = _as_field(Option)
"""Declare a dataclass field that is an option; the arguments are those of `Option`."""


@cache
def table(of: type) -> dict[str, Option]:
    """The options of a dataclass, by name."""
    return {field.name: field.metadata["option"] for field in dataclasses.fields(of)}


@cache
def kinds(of: type) -> dict[str, Any]:
    """The types of a dataclass's options, by name: bool, int, float, str, Path or tuple, without `| None`."""
    return {name: _bare(hint) for name, hint in _hints(of).items()}


@cache
def _hints(of: type) -> dict[str, Any]:
    return get_type_hints(of)


def _bare(hint: Any) -> Any:
    hint = _without_none(hint)
    return str if get_origin(hint) is Literal else get_origin(hint) or hint


def _without_none(hint: Any) -> Any:
    if NoneType not in get_args(hint):
        return hint
    return next(part for part in get_args(hint) if part is not NoneType)


def allowed(of: type, name: str) -> tuple[str, ...]:
    """The words that an option takes, () if any will do."""
    hint = _without_none(_hints(of)[name])
    return get_args(hint) if get_origin(hint) is Literal else tuple(table(of)[name].choices)


def flag(name: str) -> str:
    """The option's name as typed."""
    return f"--{name.replace('_', '-')}"


def check_value(of: type, name: str, value: Any) -> Any:
    """Return the value of an option, read from text where it is written as such; refuse one that cannot be used."""
    one, kind = table(of)[name], kinds(of)[name]
    if value is None and one.default is None:
        return None
    if isinstance(value, str) and one.read is not None:
        value = one.read(value, flag(name))
    if isinstance(value, list):
        value = tuple(value)
    if not _fits(value, kind):
        raise UsageError(f"{flag(name)} cannot be {value!r}")
    words = allowed(of, name)
    for word in value if kind is tuple else (value,):
        if words and word not in words and word not in table(of)[name].choices:  # methods of other packages
            raise UsageError(f"{flag(name)} cannot be {word!r}", hint=f"one of {', '.join(words)}")
    if kind in (int, float):
        _check_range(name, one, value)
    return value


def _fits(value: Any, kind: Any) -> bool:
    """A file and a caller may give anything: a whole number must be one, and True is not a number."""
    if kind in (int, float):
        return isinstance(value, int | kind) and not isinstance(value, bool)
    if kind is tuple:
        return isinstance(value, tuple) and all(isinstance(word, str) for word in value)
    return isinstance(value, kind)


def _check_range(name: str, one: Option, value: float) -> None:
    if value == 0 and one.or_zero:
        return
    least = written_size(one.least) if one.read is read_size else one.least
    limits = [
        (one.least is None or value >= one.least, f"at least {least}"),
        (one.above is None or value > one.above, f"above {one.above}"),
        (one.most is None or value <= one.most, f"at most {one.most}"),
        (math.isfinite(value), "finite"),
    ]
    for holds, limit in limits:
        if not holds:
            zero = "0 or " if one.or_zero else ""
            raise UsageError(f"{flag(name)} must be {zero}{limit}, not {value}")
