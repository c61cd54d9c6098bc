"""Every option of a run, checked once, in one frozen place; TOML in and out, and a result's record in."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from .errors import UsageError

Weights = Literal["once", "replicated"]
Tensorize = Literal["auto", "patch", "reshape"]
Observed = Literal["posterior", "keep"]
Extra = Literal["mean", "std", "samples", "interval", "prior", "panel", "trace", "convergence"]

EXTRAS: tuple[str, ...] = get_args(Extra)
DURATIONS = ("time_budget", "checkpoint_every")  # options in seconds that may be written as "2m"
UNITS = {
    "": 1,
    "K": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "KI": 2**10,
    "MI": 2**20,
    "GI": 2**30,
    "TI": 2**40,
}
SIZED = frozenset(
    {
        "iterations",
        "burn_in",
        "rank",
        "block",
        "coupling",
        "rho_min",
        "calls",
        "finish",
        "sweeps",
        "prior_scale",
    }
)
"""Options whose defaults are others for large photographs."""
SMALLEST_BUDGET = 64 * 2**20
SMALLEST_WINDOW = 64


@dataclass(frozen=True)
class RunConfig:
    """Options of `inpaint` and `denoise`; the names are those of the command line."""

    method: Literal["diffbcp"] = "diffbcp"
    prior: str = "natural"
    iterations: int = 100
    burn_in: int = 40
    thin: int = 3
    rank: int = 200
    block: int = 25
    adapt_rank: bool = True
    adapt_floor: float = 1.0
    tensorize: Tensorize = "auto"
    patch_size: int = 16
    stride: int = 8
    patch_weights: Weights = "replicated"
    coupling: float = 15.0
    rho_min: float = 0.1
    rho_max: float = 10.0
    solver: Literal["second-order", "ancestral", "paper"] = "second-order"
    calls: int = 2
    finish: int = 16
    sigma: float | None = None
    seed: int = 0
    chains: int = 1
    until_converged: bool = False
    max_iterations: int = 1000
    calibrate: bool = False
    time_budget: float | None = None
    checkpoint_every: float = 60.0
    device: str = "auto"
    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    prior_scale: Literal["tile", "fit"] = "tile"
    compile: bool = False
    threads: int = 0  # 0: all cores for one photograph, one for each of several
    memory_budget: int = 4 * 2**30  # bytes
    size_defaults: bool = True  # large photographs: options left at their defaults take values that suit them
    pinned: tuple[str, ...] = ()  # options that were given, which size defaults leave alone
    sweeps: int = 1
    atom_patches: int = 4000  # 0: none
    window: int = 0  # 0: as large as the memory budget allows
    observed: Observed = "posterior"
    save: tuple[str, ...] = ("mean", "std")

    def __post_init__(self) -> None:
        _check(self)

    def kept(self) -> list[int]:
        """Steps whose draws enter the result: every `thin`-th after burn-in."""
        return list(range(self.burn_in, self.iterations, self.thin))


def _check_types(cfg: RunConfig) -> None:
    """A TOML file and a caller may give anything: a whole number must be one, and True is not a number."""
    for field in dataclasses.fields(cfg):
        value = getattr(cfg, field.name)
        default = field.default
        kind: type | tuple[type, ...] = (float, int) if isinstance(default, float | None) else type(default)
        fits = isinstance(value, kind) and (isinstance(default, bool) or not isinstance(value, bool))
        if not (fits or (value is None and default is None)):
            raise UsageError(f"{_flag(field.name)} cannot be {value!r}")


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _check(cfg: RunConfig) -> None:
    _check_types(cfg)
    for name in ("iterations", "thin", "rank", "block", "calls", "chains", "max_iterations", "sweeps"):
        if getattr(cfg, name) < 1:
            raise UsageError(f"{_flag(name)} must be at least 1, not {getattr(cfg, name)}")
    if cfg.finish < 0:
        raise UsageError(f"--finish must not be negative, it is {cfg.finish}")
    if cfg.burn_in < 0:
        raise UsageError(f"--burn-in must not be negative, it is {cfg.burn_in}")
    if cfg.burn_in >= cfg.iterations:
        raise UsageError(
            f"--burn-in {cfg.burn_in} leaves no draw of --iterations {cfg.iterations}",
            hint=f"--burn-in {cfg.iterations * 2 // 5}, or more iterations",
        )
    if cfg.patch_size < 2 or not 1 <= cfg.stride <= cfg.patch_size:
        raise UsageError(
            f"--stride {cfg.stride} must lie between 1 and --patch-size {cfg.patch_size}, which must be at least 2"
        )
    if not (_positive(cfg.coupling) and _positive(cfg.rho_min) and cfg.rho_min <= cfg.rho_max < math.inf):
        raise UsageError("--coupling and --rho-min must be positive, and --rho-max at least --rho-min")
    if cfg.window and cfg.window < SMALLEST_WINDOW:
        raise UsageError(f"--window {cfg.window} is too small: at least {SMALLEST_WINDOW}, or 0")
    if cfg.atom_patches < 0:
        raise UsageError(f"--atom-patches must not be negative, it is {cfg.atom_patches}")
    if not 0 <= cfg.adapt_floor < math.inf:
        raise UsageError(f"--adapt-floor must not be negative, it is {cfg.adapt_floor}")
    if cfg.threads < 0:
        raise UsageError(f"--threads must not be negative, it is {cfg.threads}")
    if cfg.memory_budget < SMALLEST_BUDGET:
        raise UsageError(
            f"--memory-budget {cfg.memory_budget} is too little to work in",
            hint="--memory-budget 1GB, or more",
        )
    if cfg.sigma is not None and not (_positive(cfg.sigma) and cfg.sigma <= 1):
        raise UsageError(f"--sigma is a noise level on the [0, 1] scale, it cannot be {cfg.sigma}")
    if cfg.time_budget is not None and not _positive(cfg.time_budget):
        raise UsageError(f"--time-budget must be positive, it is {cfg.time_budget}")
    if not 0 <= cfg.checkpoint_every < math.inf:
        raise UsageError(f"--checkpoint-every must not be negative, it is {cfg.checkpoint_every}")
    _check_choices(cfg)


def _positive(value: float) -> bool:
    return 0 < value < math.inf


def _check_choices(cfg: RunConfig) -> None:
    choices: dict[str, tuple[str, ...]] = {
        "tensorize": get_args(Tensorize),
        "patch_weights": get_args(Weights),
        "observed": get_args(Observed),
        "precision": ("auto", "fp32", "bf16", "fp16"),
        "method": ("diffbcp",),
        "prior_scale": ("tile", "fit"),
        "solver": ("second-order", "ancestral", "paper"),
    }
    for name, allowed in choices.items():
        if getattr(cfg, name) not in allowed:
            raise UsageError(f"{_flag(name)} must be one of {', '.join(allowed)}")
    for extra in cfg.save:
        if extra not in EXTRAS:
            raise UsageError(f"--save does not know {extra!r}", hint=f"a list of {', '.join(EXTRAS)}")


FAST = RunConfig(rank=100, adapt_floor=3.0, iterations=60, burn_in=24, calls=1)  # what --fast stands for


def duration(text: str) -> float:
    """Seconds of a time like 90, 90s, 2m, 1h30m.

    >>> duration("1h30m"), duration("90"), duration("2.5m")
    (5400.0, 90.0, 150.0)
    """
    match = re.fullmatch(r"\s*(?:([\d.]+)h)?\s*(?:([\d.]+)m)?\s*(?:([\d.]+)s?)?\s*", text)
    try:
        parts = [float(part or 0) for part in match.groups()] if match and any(match.groups()) else None
    except ValueError:
        parts = None
    if parts is None:
        raise UsageError(f"{text!r} is not a time", hint="for example 90s, 2m or 1h30m")
    return parts[0] * 3600 + parts[1] * 60 + parts[2]


def from_mapping(values: dict[str, Any], base: RunConfig | None = None) -> RunConfig:
    """Make a configuration from option names and values; an unknown name is an error with a suggestion.

    What is given is pinned, unless `pinned` itself is given, as in the record of a result.
    """
    fields = {field.name for field in dataclasses.fields(RunConfig)}
    clean: dict[str, Any] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name not in fields:
            near = difflib.get_close_matches(name, fields, n=1)
            hint = f"did you mean {near[0].replace('_', '-')}?" if near else None
            raise UsageError(f"unknown option {key!r} in the configuration", hint=hint)
        value = duration(value) if name in DURATIONS and isinstance(value, str) else value
        if name == "memory_budget" and isinstance(value, str):
            value = parse_size(value, "--memory-budget")
        clean[name] = tuple(value) if isinstance(value, list) else value
    base = base or RunConfig()
    clean.setdefault("pinned", tuple(sorted({*base.pinned, *(SIZED & clean.keys())})))
    try:
        return dataclasses.replace(base, **clean)
    except TypeError as error:
        raise UsageError(f"a configuration value has the wrong type ({error})") from error


def read_toml(path: Path, base: RunConfig | None = None) -> RunConfig:
    """Read options from a TOML file."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"cannot read the configuration {path}: {error}") from error
    return from_mapping(values, base)


def parse_size(text: str, flag: str) -> int:
    """Read 2GB, 512 MiB, 1.5G or 300000000; a bare letter is a power of ten, an i makes it one of two."""
    found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) *([KMGT]?I?)B?", text.strip().upper())
    if found is None or found[2] not in UNITS:
        raise UsageError(f"{flag} cannot be {text!r}", hint=f"{flag} 2GB, 512MiB or a number")
    return int(float(found[1]) * UNITS[found[2]])


@dataclass(frozen=True)
class Recipe:
    """What a configuration file says. record: the whole JSON file of a result, empty for a TOML file."""

    config: RunConfig
    record: dict[str, Any] = dataclasses.field(default_factory=dict)


def read_recipe(path: Path, base: RunConfig | None = None) -> Recipe:
    """Read options from a TOML file, or from the JSON file of a result, which they make again bit for bit."""
    if path.suffix.lower() != ".json":
        return Recipe(read_toml(path, base))
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
    return Recipe(from_mapping(options, base), record)


def to_mapping(cfg: RunConfig) -> dict[str, Any]:
    """Options by name, plain values, as stored in a result's JSON."""
    return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(cfg).items()}


def to_toml(cfg: RunConfig) -> str:
    """Write options as TOML; an unset option is a comment."""
    options = {name.replace("_", "-"): value for name, value in to_mapping(cfg).items()}
    lines = [f"# {name} is not set" if v is None else f"{name} = {_toml(v)}" for name, v in options.items()]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(v) for v in value) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's escapes are JSON's
    return repr(value)
