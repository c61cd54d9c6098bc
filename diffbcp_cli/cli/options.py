"""The options that `inpaint` and `denoise` share, one line each, laid over `RunConfig`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..config import RunConfig, Tensorize, Weights, from_mapping, read_toml

_MODEL, _RUN, _PRIOR = "Tensor model", "Run", "Prior"

# name of the RunConfig field -> (type, help, panel)
SHARED: dict[str, tuple[Any, str, str]] = {
    "method": (Literal["diffbcp"], "The model; with --prior none it is plain Bayesian CP.", _MODEL),
    "prior": (str, "natural, a folder, a Hub id, or none for plain Bayesian CP.", _PRIOR),
    "coupling": (float, "Strength c of the prior: rho = sqrt(c / tau); smaller is stronger.", _PRIOR),
    "rho_min": (float, "Smallest rho, on the [-1, 1] scale.", _PRIOR),
    "rho_max": (float, "Largest rho.", _PRIOR),
    "solver": (Literal["second-order", "ancestral", "paper"], "How the reverse diffusion steps.", _PRIOR),
    "calls": (int, "Network calls per iteration.", _PRIOR),
    "precision": (Literal["auto", "fp32", "bf16", "fp16"], "Number type of the network.", _PRIOR),
    "prior_scale": (
        Literal["tile", "fit"],
        "Other sizes than the network's own: tiles, or a resized copy.",
        _PRIOR,
    ),
    "compile": (bool, "Run the network through torch.compile.", _PRIOR),
    "iterations": (int, "Gibbs iterations.", _RUN),
    "burn_in": (int, "Iterations left out of the result.", _RUN),
    "thin": (int, "Of the rest, keep every n-th as a sample.", _RUN),
    "seed": (int, "The same seed gives the same bytes.", _RUN),
    "chains": (int, "Independent chains, pooled; their agreement shows whether they have converged.", _RUN),
    "until_converged": (bool, "Go on until the chains agree, up to --max-iterations.", _RUN),
    "max_iterations": (int, "Where --until-converged gives up.", _RUN),
    "time_budget": (str, "Choose iterations that fit: 90s, 2m, 1h30m.", _RUN),
    "checkpoint_every": (str, "Time between checkpoints for --resume; 0 for none.", _RUN),
    "device": (str, "auto, cpu, cuda, cuda:1 or mps.", _RUN),
    "rank": (int, "CP components to start with.", _MODEL),
    "block": (int, "Components drawn jointly; fewer are faster, more mix better.", _MODEL),
    "adapt_floor": (float, "Drop spike components below this share of the noise energy.", _MODEL),
    "tensorize": (Tensorize, "How the image becomes a tensor.", _MODEL),
    "patch_size": (int, "Side of a patch in pixels.", _MODEL),
    "stride": (int, "Distance of neighbouring patches.", _MODEL),
    "patch_weights": (Weights, "Count a pixel once, or once in each patch that holds it.", _MODEL),
}


def _parameter(name: str) -> inspect.Parameter:
    kind, text, panel = SHARED[name]
    default = getattr(RunConfig(), name)
    flag = f"--{name.replace('_', '-')}"
    shown = False if isinstance(default, bool) else str(default)
    option = typer.Option(flag, help=text, show_default=shown, rich_help_panel=panel)
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options to a command; it gets those that were typed as the dict `options`."""
    own = inspect.signature(command, eval_str=True).parameters
    shared = [_parameter(name) for name in SHARED]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        typed = {name: given.pop(name) for name in SHARED}
        command(**given, options={name: value for name, value in typed.items() if value is not None})

    mine = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own.values() if p.name != "options"]
    call.__signature__ = inspect.Signature([*mine, *shared])  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in [*mine, *shared]}
    del call.__wrapped__
    return call


def run_config(
    options: dict[str, Any], *, config: Path | None, save: str, observed: str, fast: bool
) -> RunConfig:
    """Lay the options over the configuration file, and that over the defaults."""
    base = FAST if fast else RunConfig()
    base = read_toml(config, base) if config is not None else base
    extras = tuple(part.strip() for part in save.split(",") if part.strip())
    typed: dict[str, Any] = {**options, "observed": observed}
    if extras:
        typed["save"] = ("mean", "std", *(e for e in extras if e not in ("mean", "std")))
    if typed.get("patch_size") is not None and "stride" not in typed:
        typed["stride"] = max(1, typed["patch_size"] // 2)
    return from_mapping(typed, base)


FAST = RunConfig(rank=100, adapt_floor=3.0, iterations=60, burn_in=24)
