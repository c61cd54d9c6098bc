"""`diffbcp mask detect`: find dust, scratches, folds and stamps."""

from __future__ import annotations

from typing import Annotated

import typer

from ..errors import UsageError
from . import render
from .mask import JsonOpt, OutOpt, PhotoArg, QuietOpt, prepare, read, report


def detect(
    photo: PhotoArg,
    out: OutOpt,
    kind: Annotated[
        str | None,
        typer.Option(help="What to look for, with commas: dust, scratch, fold, text.", show_default="all"),
    ] = None,
    sensitivity: Annotated[
        float, typer.Option(min=0.1, max=10, help="Above 1 finds more, and more that is no damage.")
    ] = 1.0,
    min_size: Annotated[
        float, typer.Option("--min-size", min=0, help="Leave out places with fewer pixels than this.")
    ] = 0.0,
    grow: Annotated[float, typer.Option(min=0, max=100, help="Grow what is found by so many pixels.")] = 1.0,
    detector: Annotated[str, typer.Option(help="Who looks: classical, or a plugin's name.")] = "classical",
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Find the damage of a scan: dust, scratches, folds, date stamps. A clean photograph gives an empty mask."""
    from ..photos import detect as finding
    from ..photos import masks

    source = read(photo, quiet=quiet)
    wanted = finding.KINDS if kind is None else tuple(one.strip() for one in kind.split(","))
    unknown = [one for one in wanted if one not in finding.KINDS]
    if unknown:
        raise UsageError(f"{unknown[0]!r} is no kind of damage", hint=f"--kind {','.join(finding.KINDS)}")
    prepare(out, photo)
    settings = finding.Settings(wanted, sensitivity, min_size, grow)
    found = finding.detect(source.pixels, settings, detector=detector)
    masks.write_mask(out, found.observed)
    if found.observed.all() and not quiet:
        render.note("nothing found: the mask is empty")
    for name, count in found.counts.items():
        if count and not quiet:
            render.note(f"{name}: {count} {'place' if count == 1 else 'places'}")
    facts = {"found": dict(found.counts), "sensitivity": sensitivity, "detector": detector}
    report(out, found.observed, facts, json=json, quiet=quiet)
