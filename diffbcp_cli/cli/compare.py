"""`diffbcp compare`: photographs x damage x methods, in one table and one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from ..errors import DiffbcpError
from ..options import Given, check, read_setting, resolve
from . import render
from .interrupt import Stop, stopping
from .many import Overview, fetch_prior
from .mask import PolarityOpt
from .score import LpipsChoice, TrunkOpt, lpips_network

if TYPE_CHECKING:
    from ..jobs.comparison.cell import Cell
    from ..jobs.comparison.damage import Wanted
    from ..jobs.comparison.document import Scored
    from ..jobs.comparison.grid import Ways
    from ..scoring.score import Settings

PhotosArg = Annotated[
    list[str],
    typer.Argument(metavar="PHOTO...", help="Photographs, folders or quoted patterns.", show_default=False),
]
MethodsOpt = Annotated[
    str,
    typer.Option(
        help="Methods with commas, the first is what others are compared with; NAME:OPTION=VALUE for a variant."
    ),
]
MaskOpt = Annotated[
    list[str] | None,
    typer.Option("--mask", "-m", help="A mask, a folder of masks, or alpha; may be repeated."),
]
RecipeOpt = Annotated[
    list[str] | None,
    typer.Option(help="Damage clean photographs like the paper: paper-stripe, ...; may be repeated."),
]
NoiseOpt = Annotated[
    float | None,
    typer.Option(min=0, max=1, help="Add noise of this std, on the [0, 1] scale, to clean photographs."),
]
TruthOpt = Annotated[Path | None, typer.Option(help="The clean photographs, if those given are damaged.")]
OutOpt = Annotated[Path, typer.Option("--output", "-o", help="Folder for everything.")]
PriorOpt = Annotated[str | None, typer.Option(help="The prior of methods that take one.")]
SigmaOpt = Annotated[float | None, typer.Option(help="Tell all methods this noise level.")]
SetOpt = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any option of inpaint, for the methods that take it; may be repeated.",
    ),
]
JobsOpt = Annotated[int, typer.Option("--jobs", "-j", min=0, help="Photographs at a time.")]
EngineOpt = Annotated[Literal["local", "ray"], typer.Option(help="Work here, or on a Ray cluster.")]
PicturesOpt = Annotated[
    int, typer.Option("--html-images", min=0, help="Most photographs in the page, for each kind of damage.")
]


SeedOpt = Annotated[int, typer.Option(min=0, help="Of damage, runs and intervals.")]
LpipsOpt = Annotated[LpipsChoice, typer.Option(help="As in diffbcp eval.")]
AddressOpt = Annotated[str | None, typer.Option(help="Address of the Ray cluster.")]
OverwriteOpt = Annotated[bool, typer.Option("--overwrite", help="Restore again what is there.")]
ResumeOpt = Annotated[bool, typer.Option("--resume", help="Go on from checkpoints.")]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]


def compare(
    photos: PhotosArg,
    out: OutOpt,
    methods: MethodsOpt = "diffbcp,bcp,tctv,telea",
    mask: MaskOpt = None,
    recipe: RecipeOpt = None,
    noise: NoiseOpt = None,
    truth: TruthOpt = None,
    mask_polarity: PolarityOpt = "white-fills",
    prior: PriorOpt = None,
    sigma: SigmaOpt = None,
    settings: SetOpt = None,
    seed: SeedOpt = 0,
    lpips: LpipsOpt = "auto",
    lpips_trunk: TrunkOpt = None,
    jobs: JobsOpt = 0,
    engine: EngineOpt = "local",
    address: AddressOpt = None,
    overwrite: OverwriteOpt = False,
    resume: ResumeOpt = False,
    html_images: PicturesOpt = 4,
    json: JsonOpt = False,
    quiet: QuietOpt = False,
) -> None:
    """Restore PHOTO by several methods and compare them: scores, time, memory, and the pictures side by side.

    With --recipe or --noise the photographs are clean, and are damaged here. The same command again skips what is
    finished.
    """
    from ..jobs.comparison.damage import Wanted
    from ..jobs.comparison.grid import Ways
    from ..jobs.run import Sharing

    shared = dict(read_setting(one) for one in settings or ())
    shared |= {key: value for key, value in {"prior": prior, "sigma": sigma}.items() if value is not None}
    masks, recipes = tuple(mask or ()), tuple(recipe or ())
    wanted = Wanted(tuple(photos), masks, recipes, noise, truth, mask_polarity, seed)
    ways = Ways(Sharing(jobs, engine, address), resume=resume, overwrite=overwrite)
    shown = _Shown(lpips, lpips_trunk, html_images, as_json=json, quiet=quiet)
    with stopping() as stop:
        _compare(wanted, methods.split(","), check({**shared, "seed": seed}), out, ways, shown, stop)


@dataclass(frozen=True)
class _Shown:
    """How the results are shown."""

    lpips: LpipsChoice
    lpips_trunk: Path | None
    html_images: int
    as_json: bool
    quiet: bool


def _compare(
    wanted: Wanted, methods: list[str], shared: Given, out: Path, ways: Ways, shown: _Shown, stop: Stop
) -> None:
    """Check everything, restore, score, write."""
    from ..devices import pick_device
    from ..jobs.comparison.damage import check_wanted, damages
    from ..jobs.comparison.document import document
    from ..jobs.comparison.entries import entries
    from ..jobs.comparison.files import refuse_foreign, write_all
    from ..jobs.comparison.grid import cells
    from ..photos import files
    from ..scoring.score import Settings

    check_wanted(wanted)
    named = entries([text.strip() for text in methods if text.strip()], shared)
    network, not_computed = lpips_network(shown.lpips, shown.lpips_trunk, quiet=shown.quiet)
    settings = Settings.of(network, shown.lpips, mask_polarity=wanted.polarity, seed=wanted.seed)
    for one in named:
        pick_device(resolve(one.given).device)
        fetch_prior(one.given, shown.quiet)
    refuse_foreign(out)
    files.ensure_writable(out)
    grid = cells(damages(wanted, out), named, wanted, out, overwrite=ways.overwrite)
    stop.check()
    failed = _run(grid, ways, stop, quiet=shown.quiet)
    if stop():
        render.note("the same command goes on from here")
        raise typer.Exit(130)
    scored = _score(grid, failed, settings, network)
    _say_unscored(scored, failed)
    found = document(scored, settings, not_computed, seed=wanted.seed)
    written = write_all(out, found, scored, limit=shown.html_images)
    if shown.as_json:
        render.as_json(found)
    else:
        show(found)
        for path in written:
            render.path(path)
    raise typer.Exit(int(any(one.failed for one in scored)))


def _run(grid: Sequence[Cell], ways: Ways, stop: Stop, *, quiet: bool) -> dict[str, dict[str, DiffbcpError]]:
    """Do the runs, with progress over the whole grid; by cell and photograph, why some failed."""
    from ..jobs.comparison.grid import run_cells

    done = sum(len(cell.plan.finished) for cell in grid)
    names = {f"{cell.name}: {job.name}" for cell in grid for job in cell.plan.jobs}
    if done and not quiet:
        render.note(f"{done} of {done + len(names)} runs are there already; --overwrite does them again")
    failed: dict[str, dict[str, DiffbcpError]] = {cell.name: {} for cell in grid}
    with Overview(names, quiet=quiet, paths=False) as overview:
        for cell, report in run_cells(grid, ways, tell=overview.tell, stopping=stop):
            overview.add(replace(report, name=f"{cell.name}: {report.name}"))
            if report.error is not None:
                failed[cell.name][report.name] = DiffbcpError(report.error, hint=report.hint)
    return failed


def _score(
    grid: Sequence[Cell], failed: Mapping[str, Mapping[str, DiffbcpError]], settings: Settings, network: Any
) -> list[Scored]:
    from ..jobs.comparison.document import score_cell

    return [score_cell(cell, failed[cell.name], settings, network) for cell in grid]


def _say_unscored(scored: Sequence[Scored], failed: Mapping[str, Mapping[str, DiffbcpError]]) -> None:
    """Say why photographs that were restored have no scores; for the others it has been said."""
    for one in scored:
        for name, error in one.failed.items():
            if name not in failed[one.cell.name]:
                render.failure(error, about=f"{one.cell.name}: {name}")


def show(document: Mapping[str, Any]) -> None:
    """Print a table for each kind of damage."""
    from ..jobs.comparison.tables import columns_of, rows_of

    for name, damage in document["damages"].items():
        table = Table(box=None, pad_edge=False, header_style="bold", title=escape(name), title_justify="left")
        table.add_column("method", no_wrap=True)
        for label in (*(column.label for column in columns_of(damage)), "PSNR from first", "p"):
            table.add_column(label, justify="right")
        for row in rows_of(damage):
            cells = [f"[bold]{cell.text}[/bold]" if cell.best else cell.text for cell in row.cells]
            table.add_row(escape(row.name), *cells, row.gap.text, row.p)
        render.out.print(table)
