"""`diffbcp mask grow`, `shrink` and `combine`: masks from masks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from ..errors import MaskError, UsageError
from . import render
from .mask import JsonOpt, OutOpt, PolarityOpt, QuietOpt, prepare, report

if TYPE_CHECKING:
    from ..photos.mask_edit import How
    from ..photos.masks import Bools, Polarity

MaskArg = Annotated[Path, typer.Argument(help="A mask: a picture, or a .npy array.")]
MasksArg = Annotated[list[Path], typer.Argument(help="Masks of one photograph.")]
PixelsOpt = Annotated[float, typer.Option("--pixels", "-p", min=0, max=1000, help="How far.")]


def grow(
    mask: MaskArg,
    out: OutOpt,
    pixels: PixelsOpt = 2.0,
    polarity: PolarityOpt = "white-fills",
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Fill what lies within some pixels of the damage, too; -o may be the mask itself."""
    from ..photos import mask_edit

    _write(out, mask_edit.grow(_alone(mask, polarity), pixels), {"pixels": pixels}, json=json, quiet=quiet)


def shrink(
    mask: MaskArg,
    out: OutOpt,
    pixels: PixelsOpt = 2.0,
    polarity: PolarityOpt = "white-fills",
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Keep what lies within some pixels of what is kept; -o may be the mask itself."""
    from ..photos import mask_edit

    _write(out, mask_edit.shrink(_alone(mask, polarity), pixels), {"pixels": pixels}, json=json, quiet=quiet)


def combine(
    masks: MasksArg,
    out: OutOpt,
    how: Annotated[
        Literal["union", "intersection", "difference"],
        typer.Option(help="Fill what any mask fills, what all fill, or what only the first fills."),
    ] = "union",
    polarity: PolarityOpt = "white-fills",
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Make one mask of several."""
    from ..photos import mask_edit

    if len(masks) < 2:
        raise UsageError("there is one mask only", hint="name two: diffbcp mask combine a.png b.png -o c.png")
    prepare(out, *masks)
    found = [_alone(path, polarity) for path in masks]
    way: How = how
    _write(out, mask_edit.combine(found, way), {"how": how}, json=json, quiet=quiet)


def _alone(path: Path, polarity: Polarity) -> Bools:
    from ..photos.masks import read_alone

    return read_alone(path, polarity=polarity)


def _write(out: Path, observed: Bools, facts: dict[str, object], *, json: bool, quiet: bool) -> None:
    """Write a mask that may take the place of its source: that was read whole."""
    from ..photos import files, masks

    if not observed.any():
        raise MaskError("the mask would mark every pixel", hint="give a smaller number: --pixels 1")
    files.ensure_writable(out.parent)
    masks.write_mask(out, observed)
    if observed.all() and not quiet:
        render.warn("nothing is left of the mask")
    report(out, observed, facts, json=json, quiet=quiet)
