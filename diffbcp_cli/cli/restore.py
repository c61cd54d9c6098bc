"""`diffbcp inpaint` and `diffbcp denoise`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import render
from .interrupt import stopping
from .models import announce
from .options import run_config, with_run_options

if TYPE_CHECKING:
    from ..config import RunConfig
    from ..pipeline import Job, Saved

PhotoArg = Annotated[Path, typer.Argument(help="A photograph: PNG, JPEG, WebP, TIFF, BMP or .npy.")]
OutOpt = Annotated[
    Path, typer.Option("--output", "-o", help="A folder for the results, or a file for the restored picture.")
]
SaveOpt = Annotated[
    str,
    typer.Option(
        "--save", help="More results, with commas: samples, interval, prior, panel, trace, convergence."
    ),
]
ObservedOpt = Annotated[
    Literal["posterior", "keep"],
    typer.Option(help="Known pixels: restored like the rest, or kept byte for byte."),
]
FastOpt = Annotated[bool, typer.Option("--fast", help="Trade a little quality for speed.")]
ConfigOpt = Annotated[Path | None, typer.Option(help="Options from a TOML file; what is typed wins.")]
OverwriteOpt = Annotated[bool, typer.Option("--overwrite", help="Do it again even if the result is there.")]
ResumeOpt = Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint of an interrupted run.")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print the result's record as JSON.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no talk: paths and errors only.")]


@with_run_options
def inpaint(
    photo: PhotoArg,
    mask: Annotated[
        str, typer.Option("--mask", "-m", help="A mask file (white = fill), or 'alpha' for the photo's own.")
    ],
    out: OutOpt = Path(),
    mask_polarity: Annotated[
        Literal["white-fills", "white-keeps"], typer.Option(help="What white means in a mask picture.")
    ] = "white-fills",
    observed: ObservedOpt = "posterior",
    calibrate: Annotated[
        bool,
        typer.Option("--calibrate", help="Hold out some known pixels, and scale the uncertainty by them."),
    ] = False,
    save: SaveOpt = "",
    fast: FastOpt = False,
    config: ConfigOpt = None,
    overwrite: OverwriteOpt = False,
    resume: ResumeOpt = False,
    as_json: JsonOpt = False,
    quiet: QuietOpt = False,
    *,
    options: dict[str, Any],
) -> None:
    """Fill the missing pixels of PHOTO, remove its noise, and map the uncertainty."""
    typed = {**options, "calibrate": True} if calibrate else options
    cfg = run_config(typed, config=config, save=save, observed=observed, fast=fast)
    from ..pipeline import Job, target_of

    source: Path | str = "alpha" if mask == "alpha" else Path(mask)
    job = Job(photo, source, target_of(photo, out), photo.name, mask_polarity)
    _run_one(job, cfg, overwrite=overwrite, resume=resume, as_json=as_json, quiet=quiet)


@with_run_options
def denoise(
    photo: PhotoArg,
    out: OutOpt = Path(),
    sigma: Annotated[
        float | None, typer.Option(help="The noise level on the [0, 1] scale, if known; else it is inferred.")
    ] = None,
    save: SaveOpt = "",
    fast: FastOpt = False,
    config: ConfigOpt = None,
    overwrite: OverwriteOpt = False,
    resume: ResumeOpt = False,
    as_json: JsonOpt = False,
    quiet: QuietOpt = False,
    *,
    options: dict[str, Any],
) -> None:
    """Remove noise of unknown strength from PHOTO, and map the uncertainty."""
    typed = options if sigma is None else {**options, "sigma": sigma}
    cfg = run_config(typed, config=config, save=save, observed="posterior", fast=fast)
    from ..pipeline import Job, target_of

    job = Job(photo, None, target_of(photo, out), photo.name)
    _run_one(job, cfg, overwrite=overwrite, resume=resume, as_json=as_json, quiet=quiet)


def _run_one(job: Job, cfg: RunConfig, *, overwrite: bool, resume: bool, as_json: bool, quiet: bool) -> None:
    """Restore one photograph, show how it goes, and print what was written."""
    from .. import pipeline
    from ..devices import pick_device, pick_precision
    from ..restoration import Control, open_prior

    pick_precision(cfg.precision, pick_device(cfg.device))
    if pipeline.is_finished(job.target) and not overwrite:
        render.note(f"{job.target.mean} is there already; --overwrite does it again")
        _show_finished(job, as_json)
        return
    talk = (_silent, _silent) if quiet else (render.note, render.warn)
    opened = pipeline.open_job(job, note=talk[0], warn=talk[1])
    prior = open_prior(cfg, announce=None if quiet else announce, bars=not quiet)
    with stopping() as stop:
        control = Control(stop=stop, note=talk[0])
        if not quiet:
            control = replace(control, wrap=render.Progress(job.photo.name))
        saved = pipeline.run(opened, cfg, prior=prior, control=control, resume=resume)
    if not quiet:
        render.summary(saved.record)
        warning = saved.outcome.convergence.warning()
        if saved.outcome.finished and warning:
            render.warn(warning)
    _show(saved, as_json)
    if not saved.outcome.finished:
        raise typer.Exit(130)


def _show(saved: Saved, as_json: bool) -> None:
    if as_json:
        render.as_json(saved.record)
    else:
        for written in saved.files:
            render.path(written)


def _show_finished(job: Job, as_json: bool) -> None:
    import json

    record = json.loads(job.target.file("json").read_text(encoding="utf-8"))
    if as_json:
        render.as_json(record)
    else:
        render.path(job.target.mean)


def _silent(text: str) -> None:
    """Say nothing."""
