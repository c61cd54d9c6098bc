"""`diffbcp inpaint` and `diffbcp denoise`: one photograph, or many."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import UsageError
from ..options import Options, Recipe, resolve, to_toml
from . import render, voice
from .common import Common
from .interrupt import Stop, stopping
from .models import announce
from .options import with_options
from .pipes import STDIO, Taken, taken, write_out

if TYPE_CHECKING:
    from ..jobs.job import Job
    from ..jobs.plan import Request
    from ..jobs.report import Saved
    from ..photos.masks import Polarity

    MaskChoice = tuple[Path | str | None, Polarity]

PhotosArg = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PHOTO...",
        help="Photographs (PNG, JPEG, WebP, TIFF, BMP, HEIC, AVIF, .npy), folders, quoted patterns, or - for stdin.",
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
    """The mask that was typed, or that of the record given with --config."""
    source = common.mask if common.mask is not None else recipe.record.get("mask")
    if not isinstance(source, str):
        raise UsageError(
            "--mask is missing", hint="--mask mask.png, --mask masks/, --mask alpha or --mask auto"
        )
    recorded = recipe.record.get("mask_polarity")
    meant = common.mask_polarity or ("white-keeps" if recorded == "white-keeps" else "white-fills")
    return source if source in ("alpha", "auto") else Path(source), meant


def _run(recipe: Recipe, common: Common, photos: list[str] | None, choose: Callable[[], MaskChoice]) -> None:
    """Restore one photograph alone or several as a batch, or only show the plan."""
    if common.print_config:
        sys.stdout.write(to_toml(recipe.given))
        return
    if common.quiet and common.verbose:
        raise UsageError("--quiet and --verbose ask for opposite things", hint="give one of them")
    lines = common.progress == "json"
    voice.begin(quiet=common.quiet, lines=lines, verbose=common.verbose, log=common.log_file)
    with stopping() as stop:  # from here on: a stop in the imports, which take seconds, would be a traceback
        _run_with(recipe, common, photos, choose, stop)


def _run_with(
    recipe: Recipe, common: Common, photos: list[str] | None, choose: Callable[[], MaskChoice], stop: Stop
) -> None:
    mask, polarity = choose()
    _say_details(recipe)
    if common.watch is not None:
        from .many import watch_folder

        if photos or common.dry_run or common.out == STDIO or common.shard:
            raise UsageError("--watch takes its photographs from its folder, and needs one for results")
        request = _request(Taken((), (), common), mask, polarity)
        watch_folder(common.watch, request, recipe.given, common, stop)
    with taken(photos or _photo_of(recipe), common) as found:
        request = _request(found, mask, polarity)
        _check_device(resolve(recipe.given))
        stop.check()
        _carry_out(request, recipe, found, stop)


def _carry_out(request: Request, recipe: Recipe, found: Taken, stop: Stop) -> None:
    from ..jobs import find as inputs

    common = found.common
    alone = len(request.inputs) == 1 and inputs.is_one_file(request.inputs[0])
    one = alone and request.shard is None and common.engine == "local"
    if common.dry_run:
        from .dry import show_plan

        show_plan([_job(request, recipe, found)] if one else request, recipe.given, common)
    elif one:
        _run_one(_job(request, recipe, found), recipe, found, stop)
    else:
        from .many import run_many

        run_many(request, recipe.given, common, stop)


def _request(found: Taken, mask: Path | str | None, polarity: Polarity) -> Request:
    from ..jobs import find as inputs
    from ..jobs.plan import Request

    common = found.common
    return Request(
        inputs=found.inputs,
        out=common.out,
        mask=mask,
        polarity=polarity,
        listed=found.listed,
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


def _check_device(cfg: Options) -> None:
    from ..devices import pick_device, pick_precision

    pick_precision(cfg.precision, pick_device(cfg.device))


def _job(request: Request, recipe: Recipe, found: Taken) -> Job:
    """The job of a single photograph. A record given with --config also gives the name, which fixes the draws."""
    from ..jobs.job import Job
    from ..photos.targets import target_of

    photo = Path(request.inputs[0])
    name = recipe.record.get("name")
    own_name = photo.stem if found.from_stdin else photo.name
    return Job(
        photo,
        request.mask,
        target_of(photo, request.out),
        name if isinstance(name, str) else own_name,
        request.polarity,
        max_pixels=request.max_pixels,
        origin="-" if found.from_stdin else None,
    )


def _run_one(job: Job, recipe: Recipe, found: Taken, stop: Stop) -> None:
    """Restore one photograph with a progress bar, and print the paths that were written, or the picture itself."""
    from ..jobs.earlier import earlier_result, mean_of
    from ..jobs.one import restore_photo
    from ..jobs.session import Session

    common, quiet = found.common, found.common.quiet
    earlier = earlier_result(job, recipe.given, overwrite=common.overwrite)
    if earlier is not None and earlier.changed is None:
        there = mean_of(earlier.record, job.target)
        render.answer(f"{there} is there already; --overwrite does it again")
        _show(dict(earlier.record), [there], common)
        return
    session = Session(
        recipe.given,
        resume=common.resume,
        overwrite=common.overwrite,
        wait=common.wait,
        announce=announce,
        bars=not quiet and common.progress == "bar",
    )
    with render.Bar(job.photo.name, stop, quiet=quiet, bars=common.progress == "bar") as bar:
        saved = restore_photo(job, session, bar)
    if found.to_stdout and saved.status == "interrupted":
        raise KeyboardInterrupt  # nothing can go on from a pipe
    if not (quiet or voice.voice.lines):
        render.summary(dict(saved.record))
    for text in saved.warnings:
        render.warn(text)
    _say_result(saved)
    if found.to_stdout:
        write_out(job.target.mean)
    else:
        _show(dict(saved.record), saved.files, common)
    if saved.status == "interrupted":
        raise typer.Exit(130)


def _say_details(recipe: Recipe) -> None:
    """What a report of a problem needs."""
    import platform

    import torch

    from .. import __version__

    given = ", ".join(f"{name} {value}" for name, value in recipe.given.items()) or "all at their defaults"
    render.detail(f"diffbcp {__version__}, python {platform.python_version()}, torch {torch.__version__}")
    render.detail(f"options: {given}")


def _say_result(saved: Saved) -> None:
    record = saved.record
    where = f"{record.get('device')}, network in {record.get('precision')}, {record.get('threads')} threads"
    render.detail(f"computed on {where}; {record.get('peak_memory', 0) / 1e9:.2f} GB at most")
    files = [str(path) for path in saved.files]
    voice.voice.say("finished", saved.status, files=files, seconds=record["seconds"])


def _show(record: dict[str, Any], files: Sequence[Path], common: Common) -> None:
    if common.as_json:
        render.as_json(record)
    else:
        for written in files:
            render.path(written)
