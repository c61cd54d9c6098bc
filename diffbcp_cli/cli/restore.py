"""`diffbcp inpaint` and `diffbcp denoise`: one photograph, or many."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import UsageError
from ..options import Options, Recipe, resolve, to_toml
from . import render
from .interrupt import stopping
from .models import announce
from .options import Common, with_options

if TYPE_CHECKING:
    from ..jobs.one import Job, Saved
    from ..jobs.plan import Request
    from ..photos.masks import Polarity

    MaskChoice = tuple[Path | str | None, Polarity]

PhotosArg = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PHOTO...",
        help="Photographs (PNG, JPEG, WebP, TIFF, BMP or .npy), folders, quoted patterns, or - for a list on stdin.",
        show_default=False,
    ),
]


@with_options
def inpaint(photos: PhotosArg = None, *, recipe: Recipe, common: Common) -> None:
    """Fill the missing pixels of PHOTO, remove its noise, and map the uncertainty."""
    _run(recipe, common, photos, lambda: _mask(common, recipe))


@with_options
def denoise(photos: PhotosArg = None, *, recipe: Recipe, common: Common) -> None:
    """Remove noise of unknown strength from PHOTO, and map the uncertainty."""
    _run(recipe, common, photos, lambda: (None, "white-fills"))


def _mask(common: Common, recipe: Recipe) -> MaskChoice:
    """The mask that was typed, or that of the record that was given back."""
    source = common.mask if common.mask is not None else recipe.record.get("mask")
    if not isinstance(source, str):
        raise UsageError("--mask is missing", hint="--mask mask.png, --mask masks/ or --mask alpha")
    recorded = recipe.record.get("mask_polarity")
    meant = common.mask_polarity or ("white-keeps" if recorded == "white-keeps" else "white-fills")
    return source if source == "alpha" else Path(source), meant


def _run(recipe: Recipe, common: Common, photos: list[str] | None, choose: Callable[[], MaskChoice]) -> None:
    """Do one photograph by itself, and several as a batch; or only say what would be done."""
    if common.print_config:
        sys.stdout.write(to_toml(recipe.given))
        return
    from ..jobs import find as inputs

    mask, polarity = choose()
    request = _request(common, photos or _photo_of(recipe), mask, polarity)
    _check_device(resolve(recipe.given))
    alone = len(request.inputs) == 1 and inputs.is_one_file(request.inputs[0])
    one = alone and request.shard is None and common.engine == "local"
    if common.dry_run:
        from .dry import show_plan

        show_plan([_job(request, recipe)] if one else request, recipe.given, common)
    elif one:
        _run_one(request, recipe, common)
    else:
        from .many import run_many

        run_many(request, recipe.given, common)


def _request(common: Common, named: list[str], mask: Path | str | None, polarity: Polarity) -> Request:
    from ..jobs import find as inputs
    from ..jobs.plan import Request

    return Request(
        inputs=tuple(named),
        out=common.out,
        mask=mask,
        polarity=polarity,
        listed=tuple(_listed(common)) if "-" in named else (),
        root=common.root,
        overwrite=common.overwrite,
        shard=inputs.parse_shard(common.shard) if common.shard else None,
        max_pixels=common.max_pixels,
    )


def _photo_of(recipe: Recipe) -> list[str]:
    photo = recipe.record.get("photo")
    if not isinstance(photo, str):
        raise UsageError("there is no photograph to restore", hint="diffbcp denoise photo.png -o out/")
    return [photo]


def _listed(common: Common) -> list[str]:
    from ..jobs import find as inputs

    return inputs.read_list(sys.stdin.buffer.read(), null=common.null)


def _check_device(cfg: Options) -> None:
    from ..devices import pick_device, pick_precision

    pick_precision(cfg.precision, pick_device(cfg.device))


def _job(request: Request, recipe: Recipe) -> Job:
    """The single photograph's job; a record that is given back also gives the name, which fixes the draws."""
    from ..jobs.one import Job, target_of

    photo = Path(request.inputs[0])
    name = recipe.record.get("name")
    return Job(
        photo,
        request.mask,
        target_of(photo, request.out),
        name if isinstance(name, str) else photo.name,
        request.polarity,
        max_pixels=request.max_pixels,
    )


def _run_one(request: Request, recipe: Recipe, common: Common) -> None:
    """Restore one photograph, show how it goes, and print what was written."""
    from ..devices import use_threads
    from ..jobs import one as pipeline
    from ..jobs.session import open_prior
    from ..photos import lock
    from ..run.outcome import Control

    job, quiet = _job(request, recipe), common.quiet
    if pipeline.is_finished(job.target) and not common.overwrite:
        render.note(f"{job.target.mean} is there already; --overwrite does it again")
        _show_finished(job, common.as_json)
        return
    cfg = {**recipe.given, "threads": use_threads(recipe.given.get("threads", 0))}
    talk = (_silent, _silent) if quiet else (render.note, render.warn)
    opened = pipeline.open_job(job, note=talk[0], warn=talk[1])
    prior = open_prior(cfg, announce=None if quiet else announce, bars=not quiet)
    waiting = render.waiting if common.wait else None
    with lock.part_of_folder(job.target.folder, job.target.stem, waiting=waiting), stopping() as stop:
        control = Control(stop=stop, note=talk[0])
        if not quiet:
            progress = render.Progress(job.photo.name)
            control = replace(control, wrap=progress, finishing=progress.finishing)
        saved = pipeline.run(opened, cfg, prior=prior, control=control, resume=common.resume)
    _show(saved, common)
    if not saved.outcome.finished:
        raise typer.Exit(130)


def _show(saved: Saved, common: Common) -> None:
    if not common.quiet:
        render.summary(saved.record)
        warning = saved.outcome.convergence.warning()
        if saved.outcome.finished and warning:
            render.warn(warning)
    if common.as_json:
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
