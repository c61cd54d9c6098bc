"""From what was given to every option of a run.

`Given` holds only what was set: typed, read from a file, or passed by a caller. It is resolved once, when the size
of the photograph is known. Nobody needs to guess whether a value was chosen or is a default.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from typing import Any

from ..errors import UsageError
from .methods import METHODS, OF_CHAINS
from .presets import PRESETS, Preset
from .spec import check_value, flag, kinds, table
from .table import Options

Given = Mapping[str, Any]
"""Options that were set, by name; the values have been checked."""

LARGE = 512 * 512  # pixels beyond which options that are not set take other values
FEW_KNOWN = 0.2  # share of known entries below which rank 100 does as well as 200
RETIRED = ("pinned",)  # in the records of earlier versions; it said what `Given` says by itself
BONDS = {"tt": {"rank": 60}, "tr": {"rank": 8}}  # where --rank is not given
_PAIR = ("iterations", "burn_in")  # one without the other may not fit


def check(values: Mapping[str, Any]) -> Given:
    """Check option names and values. Names may have dashes; an unknown one is refused with a suggestion."""
    known = table(Options)
    given: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name in RETIRED:
            continue
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0].replace('_', '-')}?" if near else None
            raise UsageError(f"there is no option {key!r}", hint=hint)
        given[name] = check_value(Options, name, value)
    return given


def read_setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE, with dashes or underscores, into the name of an option and a value of its type."""
    name, equals, word = text.partition("=")
    name = name.strip().removeprefix("--").replace("-", "_")
    if not equals or name not in table(Options):
        near = difflib.get_close_matches(name, table(Options), n=1)
        hint = (
            f"did you mean {near[0].replace('_', '-')}?"
            if equals and near
            else "write it NAME=VALUE: rank=50"
        )
        raise UsageError(f"{text!r} sets no option", hint=hint)
    kind = kinds(Options)[name]
    if table(Options)[name].read is None and kind in (int, float, bool):
        try:
            return name, _SWITCH[word.lower()] if kind is bool else kind(word)
        except (ValueError, KeyError) as error:
            raise UsageError(f"{flag(name)} cannot be {word!r}") from error
    return name, word


_SWITCH = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def lay(under: Given, over: Given) -> Given:
    """Lay options over others. A new patch size takes its own stride, not that of the options below."""
    if "patch_size" in over and "stride" not in over:
        under = {name: value for name, value in under.items() if name != "stride"}
    return {**under, **over}


def resolve(
    given: Given | Options, *, height: int | None = None, width: int | None = None, known: float = 1.0
) -> Options:
    """Give every option its value: what was given, else what the preset, the size or the default says.

    height, width: of the photograph; without them, the values are those of a photograph of usual size. known:
    the share of its entries that are observed. Options that are resolved already stay as they are.
    """
    if isinstance(given, Options):
        return given
    preset = PRESETS[given["preset"]] if given.get("preset") else Preset("", {})
    name = given.get("method", preset.method or Options.method)
    if preset.method not in (None, name):
        raise UsageError(
            f"--preset {given['preset']} is for {preset.method}, not for {name}", hint="leave it out"
        )
    _check_method(name, given)
    method = METHODS[name]
    given = given if method.takes_prior else {**given, "prior": "none"}
    large = (height or 0) * (width or 0) > LARGE and given.get("size_defaults", True)
    large = large and takes(name, "tensorize")  # they suit the low-rank model
    suited = _values_for_large({**preset.values, **preset.beyond, **given}, known, preset) if large else {}
    if any(name in given for name in _PAIR):
        suited = {name: value for name, value in suited.items() if name not in _PAIR}
    suited |= BONDS.get(given.get("decomposition", ""), {})
    values = {**lay({**preset.values, **method.defaults, **suited}, given), "method": name}
    if method.own_prior is not None:
        values["prior"] = method.own_prior
    if method.path:
        values["burn_in"] = values.get("iterations", Options.iterations) - 1
    if "stride" not in values:
        values["stride"] = max(1, values.get("patch_size", Options.patch_size) // 2)
    return Options(**values)


def _values_for_large(given: Given, known: float, preset: Preset) -> dict[str, Any]:
    """What suits a large picture. The cases are patches with a prior, patches alone, and the reshape.

    Few known entries support few components. docs/explanation/large.md has the measurements.
    """
    if given.get("tensorize") == "reshape":
        case, cases = "reshape", ["reshape"]
    else:
        case = "alone" if given.get("prior") == "none" else "patch"
        cases = [case, "few known"] if known < FEW_KNOWN else [case]
    options = table(Options).items()
    suited = {name: one.large[each] for name, one in options for each in cases if each in one.large}
    return {**suited, **preset.values, **preset.beyond, **preset.large.get(case, {})}


def takes(method: str, name: str) -> bool:
    """Whether a method has an option: its own, or one of all methods."""
    if name == "prior":
        return METHODS[method].takes_prior
    if METHODS[method].path and name in OF_CHAINS:
        return False
    return name in METHODS[method].options or all(name not in entry.options for entry in METHODS.values())


def _check_method(method: str, given: Given) -> None:
    """Refuse an option that the chosen method does not have."""
    own = METHODS[method].own_prior
    if own is not None and given.get("prior", own) != own:
        why = f"--method {method} is made of the prior {own}, and cannot do without"
        raise UsageError(why, hint="leave --prior out")
    for name in given:
        if name == "prior" and not takes(method, name) and given[name] != "none":
            raise UsageError(f"--method {method} has no use for a prior", hint="leave --prior out")
        if name != "prior" and not takes(method, name):
            owners = [other for other in METHODS if takes(other, name)]
            raise UsageError(
                f"{flag(name)} is an option of {' and '.join(owners)}, not of {method}",
                hint=f"leave it out, or --method {owners[0]}",
            )


def to_mapping(options: Options) -> dict[str, Any]:
    """Options by name as plain values, as a record has them; those of other methods are left out."""
    values = {name: v for name, v in dataclasses.asdict(options).items() if takes(options.method, name)}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
