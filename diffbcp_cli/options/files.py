"""Options in files: TOML in and out, and the record of a result."""

from __future__ import annotations

import dataclasses
import json
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UsageError
from .resolve import Given, check, resolve, to_mapping

MOST_BYTES = 2**28  # of a configuration; a record with long traces is the largest


@dataclass(frozen=True)
class Recipe:
    """What a configuration file says. record: the whole JSON file of a result, empty for a TOML file."""

    given: Given = dataclasses.field(default_factory=dict)
    record: dict[str, Any] = dataclasses.field(default_factory=dict)


def read_recipe(path: Path) -> Recipe:
    """Read a TOML file, or the JSON file of a result, whose options make that result again bit for bit."""
    if path.suffix.lower() != ".json":
        return Recipe(read_toml(path))
    _check_regular(path)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read the configuration {path}: {error}") from error
    options = record.get("options") if isinstance(record, dict) else None
    if not isinstance(options, dict):
        raise UsageError(
            f"{path} is not the record of a result: it has no options",
            hint="--config photo.json, or a TOML file",
        )
    return Recipe(check(options), record)


def _check_regular(path: Path) -> None:
    """Refuse what has no end or never begins, such as /dev/zero and a pipe."""
    try:
        about = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"cannot read the configuration {path}: {reason}") from error
    if not stat.S_ISREG(about.st_mode) or about.st_size > MOST_BYTES:
        raise UsageError(f"the configuration {path} is not a file of options", hint="--config options.toml")


def read_toml(path: Path) -> Given:
    """Read options from a TOML file."""
    _check_regular(path)
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read the configuration {path}: {error}") from error
    return check(values)


def to_toml(given: Given) -> str:
    """Write every option as TOML: what was given as values, the rest as comments that show the defaults."""
    lines = []
    for name, value in to_mapping(resolve(given)).items():
        text = f"{name.replace('_', '-')} = {_toml(value)}"
        lines.append(text if name in given and value is not None else f"# {text}")
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's escapes are JSON's
    return repr(value)
