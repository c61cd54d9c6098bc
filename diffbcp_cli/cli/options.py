"""The options that `inpaint` and `denoise` share, one line each: those of `RunConfig`, and those of a batch."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from ..options import FAST, Recipe, RunConfig, Tensorize, Weights, from_mapping, parse_size, read_recipe

_MODEL, _RUN, _PRIOR, _MANY = "Tensor model", "Run", "Prior", "Many photographs"

# name of the RunConfig field -> (type, help, panel)
SHARED: dict[str, tuple[Any, str, str]] = {
    "method": (Literal["diffbcp"], "The model; with --prior none it is plain Bayesian CP.", _MODEL),
    "prior": (str, "natural, a folder, a Hub id, or none for plain Bayesian CP.", _PRIOR),
    "coupling": (float, "Strength c of the prior: rho = sqrt(c / tau); smaller is stronger.", _PRIOR),
    "rho_min": (float, "Smallest rho, on the [-1, 1] scale.", _PRIOR),
    "rho_max": (float, "Largest rho.", _PRIOR),
    "solver": (Literal["second-order", "ancestral", "paper"], "How the reverse diffusion steps.", _PRIOR),
    "calls": (int, "Network calls per iteration.", _PRIOR),
    "finish": (int, "Network calls that finish the mean; 0 leaves it as the tensor model has it.", _PRIOR),
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
    "threads": (
        int,
        "Threads for a photograph; 0: all cores for one, a single one for each of several.",
        _RUN,
    ),
    "memory_budget": (str, "Memory to work in, for one photograph: 2GB, 512MiB.", _RUN),
    "window": (
        int,
        "Restore larger pictures in windows of this side; 0: as large as the memory budget allows.",
        _RUN,
    ),
    "size_defaults": (
        bool,
        "Beyond 512 x 512, let options left at their defaults take values that suit the size.",
        _RUN,
    ),
    "sweeps": (int, "Sweeps over the tensor model per iteration.", _MODEL),
    "atom_patches": (
        int,
        "Learn atoms from so many patches before the first sweep over a large picture; 0: do not.",
        _MODEL,
    ),
    "rank": (int, "CP components to start with.", _MODEL),
    "block": (int, "Components drawn jointly; fewer are faster, more mix better.", _MODEL),
    "adapt_floor": (float, "Drop spike components below this share of the noise energy.", _MODEL),
    "tensorize": (Tensorize, "How the image becomes a tensor.", _MODEL),
    "patch_size": (int, "Side of a patch in pixels.", _MODEL),
    "stride": (int, "Distance of neighbouring patches.", _MODEL),
    "patch_weights": (Weights, "Count a pixel once, or once in each patch that holds it.", _MODEL),
}


@dataclass(frozen=True)
class Common:
    """What both commands take beside the options of the run itself."""

    out: Annotated[
        Path,
        typer.Option("--output", "-o", help="A folder for the results, or a file for one restored picture."),
    ] = Path()
    save: Annotated[
        str,
        typer.Option(
            "--save", help="More results, with commas: samples, interval, prior, panel, trace, convergence."
        ),
    ] = ""
    fast: Annotated[bool, typer.Option("--fast", help="Trade a little quality for speed.")] = False
    config: Annotated[
        Path | None,
        typer.Option(help="Options from a TOML file or from a result's JSON; what is typed wins."),
    ] = None
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Do it again even if the result is there.")
    ] = False
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the checkpoint of an interrupted run.")
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, with estimates, and do nothing.")
    ] = False
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print every option as TOML for --config, and do nothing.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the result's record as JSON.")] = False
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="No progress, no talk: paths and errors only.")
    ] = False
    jobs: Annotated[
        int,
        typer.Option(
            "--jobs",
            "-j",
            min=0,
            help="Photographs at a time; 0: by cores and memory.",
            rich_help_panel=_MANY,
        ),
    ] = 0
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="Where the work is done: here, or on a Ray cluster.", rich_help_panel=_MANY),
    ] = "local"
    address: Annotated[
        str | None,
        typer.Option(help="The Ray cluster's address; without it, one of its own.", rich_help_panel=_MANY),
    ] = None
    shard: Annotated[
        str | None,
        typer.Option(help="Do part I of N only, by a hash of the names: 1/4.", rich_help_panel=_MANY),
    ] = None
    root: Annotated[
        Path | None,
        typer.Option(help="Names and sub-folders are relative to this folder.", rich_help_panel=_MANY),
    ] = None
    null: Annotated[
        bool,
        typer.Option("--null", "-0", help="Names in the list on stdin end in NUL.", rich_help_panel=_MANY),
    ] = False
    wait: Annotated[
        bool,
        typer.Option("--wait", help="Wait for another run on the same output folder.", rich_help_panel=_MANY),
    ] = False
    max_pixels: Annotated[
        str,
        typer.Option(help="Refuse pictures with more pixels than this: 100M.", rich_help_panel=_MANY),
    ] = "100M"

    @property
    def pixel_limit(self) -> int:
        """--max-pixels as a number."""
        return parse_size(self.max_pixels, "--max-pixels")


def _parameter(name: str) -> inspect.Parameter:
    kind, text, panel = SHARED[name]
    default = getattr(RunConfig(), name)
    flag = f"--{name.replace('_', '-')}"
    shown = False if isinstance(default, bool) else _SHOWN.get(name, str(default))
    option = typer.Option(flag, help=text, show_default=shown, rich_help_panel=panel)
    annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_SHOWN = {"memory_budget": "4GiB"}


def with_run_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the shared options to a command; it gets those of the run that were typed as the dict `options`,
    and the others as `common`.
    """
    own = inspect.signature(command, eval_str=True).parameters
    shared = [_parameter(name) for name in SHARED]
    common = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in inspect.signature(Common, eval_str=True).parameters.values()
    ]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        typed = {name: given.pop(name) for name in SHARED}
        others = Common(**{field.name: given.pop(field.name) for field in fields(Common)})
        options = {name: value for name, value in typed.items() if value is not None}
        command(**given, options=options, common=others)

    mine = [
        p.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in own.values()
        if p.name not in ("options", "common")
    ]
    everything = [*mine, *common, *shared]
    call.__signature__ = inspect.Signature(everything)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in everything}
    del call.__wrapped__
    return call


def run_config(options: dict[str, Any], common: Common, *, observed: str | None) -> Recipe:
    """Lay the options over the configuration file, and that over the defaults."""
    base = FAST if common.fast else RunConfig()
    recipe = read_recipe(common.config, base) if common.config is not None else Recipe(base)
    extras = tuple(part.strip() for part in common.save.split(",") if part.strip())
    typed = dict(options) if observed is None else {**options, "observed": observed}
    if extras:
        typed["save"] = ("mean", "std", *(e for e in extras if e not in ("mean", "std")))
    if typed.get("patch_size") is not None and "stride" not in typed:
        typed["stride"] = max(1, typed["patch_size"] // 2)
    return Recipe(from_mapping(typed, recipe.config), recipe.record)
