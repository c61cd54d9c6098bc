"""`diffbcp mask`: make masks, simulate damage, take masks from photographs, look at them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from ..errors import MaskError, UsageError
from . import render
from .help import Help

if TYPE_CHECKING:
    from ..photos.masks import Bools
    from ..photos.photo import Photo

app = typer.Typer(help="Make masks, simulate damage, and look at both.", no_args_is_help=True)


Kind = Literal["uniform", "stripe", "irregular", "box", "text", "scratch"]
Recipe = Literal["paper-uniform-0.9", "paper-uniform-0.7", "paper-stripe", "paper-irregular"]
Per = Literal["entry", "pixel"]
Polarity = Literal["white-fills", "white-keeps"]

COLOUR = "Fill what has this colour: magenta, ivory, '#ff00ff'. May be given several times."
ORIGINAL = "The photograph before it was painted: finds soft strokes whole."
TOLERANCE = "How far a colour may be off, as the eye sees it."
PhotoArg = Annotated[Path, typer.Argument(help="A photograph: PNG, JPEG, WebP, TIFF, BMP or .npy.")]
MaskOpt = Annotated[
    str, typer.Option("--mask", "-m", help="A mask file, or 'alpha' for the photo's own transparency.")
]
PolarityOpt = Annotated[Polarity, typer.Option("--mask-polarity", help="What white means in a mask picture.")]
OutOpt = Annotated[Path, typer.Option("--output", "-o", help="The file to write.")]
SeedOpt = Annotated[int, typer.Option(min=0, help="The same seed gives the same file.")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print JSON.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the path.")]


@app.command(cls=Help)
def make(
    out: OutOpt,
    kind: Annotated[Kind | None, typer.Option(help="What the damage looks like.")] = None,
    recipe: Annotated[
        Recipe | None, typer.Option(help="One of the paper's masks, in place of --kind.")
    ] = None,
    missing: Annotated[float | None, typer.Option(help="Share to lose, between 0 and 1.")] = None,
    per: Annotated[
        Per | None,
        typer.Option(help="For uniform: lose single entries or whole pixels.", show_default="entry"),
    ] = None,
    like: Annotated[Path | None, typer.Option(help="Take size and channels from this photograph.")] = None,
    size: Annotated[
        str | None, typer.Option(metavar="WxH", help="Size of the mask, for an RGB photograph.")
    ] = None,
    seed: SeedOpt = 0,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Make a mask: white is to be filled, black is kept."""
    _one_of(("--kind", kind), ("--recipe", recipe))
    if recipe is not None and (missing is not None or per is not None):
        raise UsageError(
            "a recipe has its own share",
            hint=f"leave out --missing and --per, or use --kind {_kind_of(recipe)}",
        )
    if per is not None and kind != "uniform":
        raise UsageError("--per is for --kind uniform only", hint="leave it out")
    _one_of(("--like", like), ("--size", size))
    import numpy as np

    from ..photos import mask_kinds, masks
    from ..photos import photo as images

    shape = images.read_photo(like).pixels.shape if like is not None else (*_parse_size(str(size)), 3)
    prepare(out, like)
    rng = np.random.Generator(np.random.PCG64(seed))
    if recipe is not None:
        observed = mask_kinds.recipe(recipe, shape, rng=rng)
    else:
        observed = mask_kinds.make(str(kind), shape, missing=missing, per=per or "entry", rng=rng)
    masks.write_mask(out, observed)
    made = {"recipe": recipe} if recipe else {"kind": str(kind)}
    report(out, observed, {**made, "seed": seed}, json=json, quiet=quiet)


@app.command(cls=Help)
def apply(
    photo: PhotoArg,
    out: OutOpt,
    mask: Annotated[
        str | None, typer.Option("--mask", "-m", help="A mask file, or 'alpha'; none adds noise only.")
    ] = None,
    polarity: PolarityOpt = "white-fills",
    noise: Annotated[
        float, typer.Option(min=0, help="Standard deviation of the noise on the [0, 1] scale.")
    ] = 0.0,
    fill: Annotated[
        str, typer.Option(help="What missing pixels become: black, ivory, nan, '#rrggbb'.")
    ] = "black",
    seed: SeedOpt = 0,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Simulate damage: add noise to PHOTO and blank what the mask marks.

    TIFF and .npy files are written as floats, unclipped; the other formats at the depth of the photograph.
    """
    if mask is None and noise == 0:
        raise UsageError("there is no damage to do", hint="give --mask mask.png, --noise 0.025, or both")
    import numpy as np

    from ..photos import damage, masks
    from ..photos import photo as images

    source = read(photo, quiet=quiet)
    suffix = images.check_suffix(out)
    if fill == "nan" and suffix not in (".tif", ".tiff", ".npy"):
        raise UsageError(f"{suffix} cannot hold NaN", hint="write to a .tiff or .npy file")
    prepare(out, photo, mask)
    if mask is None:
        observed: Bools = np.ones(source.pixels.shape, bool)
    else:
        observed = masks.read_mask(mask, source, polarity=polarity)
    rng = np.random.Generator(np.random.PCG64(seed))
    result = damage.damaged(source, observed, noise_std=noise, fill=fill, rng=rng)
    result = damage.stored_as(result, out)
    for loss in images.losses(out, result):
        render.warn(loss)
    images.write_photo(out, result.pixels, result)
    report(out, observed, {"noise": noise, "seed": seed}, json=json, quiet=quiet)


@app.command("from", cls=Help)
def from_photo(
    photo: PhotoArg,
    out: OutOpt,
    alpha: Annotated[bool, typer.Option("--alpha", help="Fill what is mostly transparent.")] = False,
    nan: Annotated[bool, typer.Option("--nan", help="Fill what is NaN or infinite.")] = False,
    color: Annotated[list[str] | None, typer.Option(help=COLOUR)] = None,
    tolerance: Annotated[
        float | None, typer.Option(min=0, max=100, help=TOLERANCE, show_default="10")
    ] = None,
    original: Annotated[Path | None, typer.Option("--photo", help=ORIGINAL)] = None,
    grow: Annotated[
        float | None, typer.Option(min=0, max=100, help="Grow painted places.", show_default="2")
    ] = None,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Take the mask from PHOTO itself: from its transparency, its NaN pixels, or the colours of paint."""
    _one_of(("--alpha", alpha or None), ("--nan", nan or None), ("--color", color or None))
    for name, value in (("--tolerance", tolerance), ("--photo", original), ("--grow", grow)):
        if value is not None and not color:
            raise UsageError(f"{name} is for --color only", hint="leave it out")
    from ..photos import masks

    source = read(photo, quiet=quiet)
    if alpha:
        observed, what = masks.observed_by_alpha(source), "transparent"
    elif nan:
        observed, what = masks.observed_by_finite(source), "NaN or infinite"
    else:
        before = None if original is None else read(original, quiet=quiet)
        observed = _painted(source, color or [], tolerance, before, 2.0 if grow is None else grow)
        what = f"of the colour {', '.join(color or [])}"
    _check_some(observed, source, what, color)
    prepare(out, photo, original)
    masks.write_mask(out, observed)
    report(out, observed, {}, json=json, quiet=quiet)


def _check_some(observed: Bools, source: Photo, what: str, colours: list[str] | None) -> None:
    """Refuse a mask that fills nothing or everything."""
    if observed.all() or not observed.any():
        count = "no" if observed.all() else "every"
        other = "look at the picture's transparency and values"
        hint = "allow for a difference: --tolerance 25" if colours else other
        raise MaskError(f"{count} pixel of {source.name} is {what}", hint=hint)


def _painted(
    source: Photo, colours: list[str], tolerance: float | None, before: Photo | None, grow: float
) -> Bools:
    """The pixels without paint, that of all colours, (H, W, 1)."""
    from ..photos import mask_edit, paint

    if before is not None and before.pixels.shape[:2] != source.pixels.shape[:2]:
        raise MaskError(
            f"{source.name} is {source.width}x{source.height} but {before.name} is {before.width}x{before.height}",
            hint="paint on a copy of the same size",
        )
    observed = paint.observed_by_colours(
        source,
        [one for text in colours for one in paint.parse_colours(text)],
        tolerance=paint.TOLERANCE if tolerance is None else tolerance,
        original=before,
    )
    return mask_edit.grow(observed, grow) if grow and not observed.all() else observed


@app.command(cls=Help)
def show(
    photo: PhotoArg,
    mask: MaskOpt,
    out: OutOpt,
    polarity: PolarityOpt = "white-fills",
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Draw what will be filled over PHOTO."""
    if out.suffix.lower() != ".png":
        raise UsageError(f"the overlay cannot be written to {out}", hint="name it .png")
    from ..photos import files, masks, pictures

    source = read(photo, quiet=quiet)
    prepare(out, photo, mask)
    observed = masks.read_mask(mask, source, polarity=polarity)
    doubt = masks.looks_inverted(observed, source)
    if doubt:
        render.warn(doubt)
    files.write_bytes(out, pictures.overlay(source.pixels, observed))
    report(out, observed, {"looks_inverted": doubt is not None}, json=json, quiet=quiet)


def read(path: Path, *, quiet: bool) -> Photo:
    """Read a photograph and say what was changed on reading."""
    from ..photos import photo as images

    photo = images.read_photo(path)
    if not quiet:
        for text in photo.notes:
            render.note(f"{photo.name}: {text}")
    return photo


def report(out: Path, observed: Bools, facts: dict[str, Any], *, json: bool, quiet: bool) -> None:
    """Print what a mask fills and where it is."""
    from ..photos import masks

    if not quiet and not observed.all():
        render.note(f"mask: {masks.describe(observed)}")
    if json:
        height, width, channels = observed.shape
        size = {"width": width, "height": height, "channels": channels}
        render.as_json({"path": str(out), "missing_share": masks.missing_share(observed), **size, **facts})
    else:
        render.path(out)


def _one_of(*options: tuple[str, object]) -> None:
    given = [name for name, value in options if value is not None]
    if len(given) != 1:
        names = " or ".join(name for name, _ in options)
        raise UsageError(f"{'two' if given else 'none'} of {names} given", hint=f"give one: {names}")


def _kind_of(recipe: Recipe) -> str:
    return recipe.removeprefix("paper-").split("-")[0]


def _parse_size(text: str) -> tuple[int, int]:
    """Return (H, W) from WxH."""
    match = re.fullmatch(r"(\d{1,6})[xX×](\d{1,6})", text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size", hint="write width x height: --size 640x480")
    width, height = int(match[1]), int(match[2])
    if min(width, height) < 16 or width * height > 300_000_000:
        raise UsageError(f"{width}x{height} is out of range", hint="16x16 is the smallest size")
    return height, width


def prepare(out: Path, *sources: Path | str | None) -> None:
    """Check that `out` can be written and is none of its own sources."""
    from ..photos import files

    for source in sources:
        if source is not None and out.exists() and Path(source).exists() and out.samefile(source):
            raise UsageError(f"{out} would be written over itself", hint="name another file with -o")
    files.ensure_writable(out.parent)
