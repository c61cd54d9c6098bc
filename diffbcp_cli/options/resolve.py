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
from .methods import METHODS, OF_CHAINS, OF_SPLIT_GIBBS, SAMPLERS
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
    sampler = _sampler(given, preset) if takes(name, "sampler") else None
    suited: dict[str, Any] = {}
    if sampler == "langevin" and height and known == 1:
        suited = {**_values_of("complete"), **preset.langevin}
    elif (height or 0) * (width or 0) > LARGE and given.get("size_defaults", True):
        suited = _values_for_large(name, sampler, given, known, preset)
    if any(name in given for name in _PAIR):
        suited = {name: value for name, value in suited.items() if name not in _PAIR}
    suited |= BONDS.get(given.get("decomposition", ""), {})
    usual = {**preset.values, **method.defaults}
    if sampler == "langevin":
        usual = {**SAMPLERS[sampler], **preset.langevin}
    values = {**lay({**usual, **suited}, given), "method": name}
    if sampler is not None:
        values["sampler"] = sampler
    if method.own_prior is not None:
        values["prior"] = method.own_prior
    if method.path:
        values["burn_in"] = values.get("iterations", Options.iterations) - 1
    elif "iterations" in given and "burn_in" not in given:
        values["burn_in"] = _burn_in(given["iterations"], {**usual, **suited})
    if values.get("calibrate") and "calibrate" not in given and values["burn_in"] < usual["burn_in"]:
        values["calibrate"] = False  # too short to predict what is held out
    if "stride" not in values:
        values["stride"] = max(1, values.get("patch_size", Options.patch_size) // 2)
    return Options(**values)


def _sampler(given: Given, preset: Preset) -> str:
    """How diffbcp draws: as was given, as the preset says, or as the other options need it."""
    names = OF_SPLIT_GIBBS if given.get("estimator") == "refined" else (*OF_SPLIT_GIBBS, "finish")
    typed, low_rank = given.get("sampler"), [flag(name) for name in names if name in given]
    alone = ["--prior none"] if given.get("prior") == "none" else []
    of_preset = [f"--preset {given['preset']}"] if preset.sampler == "split-gibbs" else []
    needs = low_rank + alone + of_preset
    if typed == "langevin" and needs:
        raise UsageError(
            f"{needs[0]} goes with --sampler split-gibbs, not with langevin", hint="leave one of the two out"
        )
    return str(typed or ("split-gibbs" if needs else Options.sampler))


def _burn_in(iterations: int, usual: Mapping[str, Any]) -> int:
    """Burn-in where only the iterations were given: its usual share of fewer, and no more than usual of more."""
    most, of = usual.get("burn_in", Options.burn_in), usual.get("iterations", Options.iterations)
    return int(min(most, round(iterations * most / of)))


def _values_for_large(
    method: str, sampler: str | None, given: Given, known: float, preset: Preset
) -> dict[str, Any]:
    """What suits a large picture: draws by Langevin dynamics, or patches with a prior, patches alone, the reshape.

    Few known entries support few components. docs/explanation/large.md has the measurements.
    """
    if "langevin" in (method, sampler):
        case, cases, over = "langevin", ["langevin"], preset.langevin
    elif not takes(method, "tensorize"):
        return {}
    else:
        over = {**preset.values, **preset.beyond}
        alone = {**over, **given}.get("prior") == "none"
        case = "reshape" if {**over, **given}.get("tensorize") == "reshape" else "alone" if alone else "patch"
        cases = [case, "few known"] if known < FEW_KNOWN and case != "reshape" else [case]
    return {**_values_of(*cases), **over, **preset.large.get(case, {})}


def _values_of(*cases: str) -> dict[str, Any]:
    """The values that the table of options has for some cases; a later one goes before an earlier one."""
    options = table(Options).items()
    return {name: one.large[case] for name, one in options for case in cases if case in one.large}


def uses(options: Options, name: str) -> bool:
    """Whether a run with these options has a use for one of them."""
    idle = name in OF_SPLIT_GIBBS or (name == "finish" and not asks_to_refine(options))
    if options.method == "diffbcp" and options.sampler == "langevin" and idle:
        return False
    return takes(options.method, name)


def asks_to_refine(options: Options) -> bool:
    """Whether the prior is to refine the mean of the draws."""
    chosen = options.estimator
    if chosen == "auto":
        chosen = "refined" if options.sampler == "split-gibbs" else "mean"
    return chosen == "refined" and takes(options.method, "estimator") and options.finish > 0


def draws_by_langevin(options: Options) -> bool:
    """Whether the draws are those of methods/langevin.py."""
    return options.method == "langevin" or (options.method == "diffbcp" and options.sampler == "langevin")


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
    values = {name: v for name, v in dataclasses.asdict(options).items() if uses(options, name)}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}
