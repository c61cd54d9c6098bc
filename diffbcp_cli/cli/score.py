"""`diffbcp eval`: measure results against the truth, check their uncertainty, and show both."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..errors import InputError, ModelError, UsageError
from . import render
from .mask import PolarityOpt
from .score_table import show

if TYPE_CHECKING:
    from ..priors import Download
    from ..scoring.document import Results
    from ..scoring.lpips import LpipsNetwork
    from ..scoring.score import Settings


LpipsChoice = Literal["auto", "vgg", "alex", "standard", "paper", "none"]
PathsArg = Annotated[
    list[Path], typer.Argument(help="RESULTS TRUTH, two files or two folders; with --truth, results only.")
]
TruthOpt = Annotated[Path | None, typer.Option(help="The truth, to compare several folders of results.")]
MaskOpt = Annotated[
    Path | None,
    typer.Option(help="Score the filled and the observed region too: one mask, a folder of them, or alpha."),
]
LpipsOpt = Annotated[
    LpipsChoice,
    typer.Option(
        help="Features of vgg (553 MB, fetched once) or alex (needs its file); paper: vgg fed [0, 1]; standard: vgg."
    ),
]
TrunkOpt = Annotated[
    Path | None,
    typer.Option("--lpips-trunk", help="A safetensors file with its weights, instead of the Hub's."),
]
JsonOpt = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
CsvOpt = Annotated[Path | None, typer.Option(help="Write one row per image to this file.")]
MarkdownOpt = Annotated[Path | None, typer.Option(help="Write the tables as Markdown to this file.")]
HtmlOpt = Annotated[
    Path | None, typer.Option(help="Write a report page to this file; it needs no other file.")
]
PicturesOpt = Annotated[
    int, typer.Option("--html-images", min=0, help="Most images in the page, worst to best.")
]
SeedOpt = Annotated[int, typer.Option(min=0, help="Seed of the bootstrap intervals.")]
QuietOpt = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no notes.")]


def evaluate(
    paths: PathsArg,
    truth: TruthOpt = None,
    mask: MaskOpt = None,
    mask_polarity: PolarityOpt = "white-fills",
    lpips: LpipsOpt = "auto",
    lpips_trunk: TrunkOpt = None,
    as_json: JsonOpt = False,
    csv: CsvOpt = None,
    markdown: MarkdownOpt = None,
    html: HtmlOpt = None,
    html_images: PicturesOpt = 24,
    seed: SeedOpt = 0,
    quiet: QuietOpt = False,
) -> None:
    """Measure results against the truth: fidelity, and whether the uncertainty can be believed."""
    from ..scoring.document import document as make_document  # heavy: torch
    from ..scoring.score import Settings

    if truth is None and len(paths) == 1 and html is not None:
        return _without_truth(paths[0], html, html_images, quiet=quiet)
    folders, truth = _results_and_truth(paths, truth)
    network, not_computed = lpips_network(lpips, lpips_trunk, quiet=quiet)
    settings = Settings.of(network, lpips, mask_polarity=mask_polarity, seed=seed)
    _refuse_inputs([path for path in (csv, markdown, html) if path is not None], folders, truth, mask)
    sets = _score(folders, truth, mask, settings, network, quiet=quiet)
    document = make_document(sets, settings, not_computed)
    _write(
        document, sets, settings, csv=csv, markdown=markdown, html=html, html_images=html_images, quiet=quiet
    )
    if as_json:
        render.as_json(document)
    else:
        show(document)
    if any(found.failures for found in sets.values()):
        raise typer.Exit(1)


def _without_truth(results: Path, html: Path, most: int, *, quiet: bool) -> None:
    """Write the page that shows before and after."""
    from ..photos import files
    from ..photos.before_after import page
    from ..scoring.without_truth import before_after

    if html.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"--html {html} does not end in .html", hint="--html page.html")
    files.write_bytes(html, page(before_after(results, most=most)).encode())
    if not quiet:
        render.note(f"no truth, no scores: {html} shows before and after")


def _refuse_inputs(outputs: list[Path], folders: list[Path], truth: Path, mask: Path | None) -> None:
    """Refuse to write a table or a page over anything that is read for a score."""
    from ..photos import files
    from ..scoring.pairs import match

    for folder in folders if outputs else ():
        pairs = match(folder, truth, mask=mask).pairs
        read = [
            path
            for one in pairs
            for path in (one.result, one.truth, one.std, one.samples, one.run, one.mask)
            if path
        ]
        files.refuse_inputs(outputs, files.inodes(read))


def _results_and_truth(paths: list[Path], truth: Path | None) -> tuple[list[Path], Path]:
    if truth is not None:
        return paths, truth
    if len(paths) != 2:
        raise UsageError(
            f"{len(paths)} path{'s' if len(paths) != 1 else ''} given, RESULTS and TRUTH are needed",
            hint="diffbcp eval out/ truth/, or diffbcp eval a/ b/ --truth truth/; without a truth: --html page.html",
        )
    return paths[:1], paths[1]


def lpips_network(
    choice: LpipsChoice, trunk: Path | None, *, quiet: bool
) -> tuple[LpipsNetwork | None, dict[str, str]]:
    """Return the LPIPS network, or None and the reason. If it was asked for by name, a failure is an error."""
    from ..scoring.lpips import load_lpips

    if choice == "none":
        return None, {"lpips": "not asked for: --lpips none"}
    by_name = choice != "auto" or trunk is not None

    def announce(download: Download) -> None:
        size = f"{download.size / 1e6:.0f} MB, " if download.size else ""
        render.note(f"LPIPS: downloading its VGG16 trunk from {download.source.repo} ({size}once)")

    try:
        network = load_lpips(
            net="alex" if choice == "alex" else "vgg",
            trunk_file=trunk,
            download=by_name,
            announce=None if quiet else announce,
            bars=not quiet,
        )
        return network, {}
    except ModelError as error:
        if by_name:
            raise
        reason = f"{error.message}; {error.hint}" if error.hint else error.message
        if not quiet:
            render.warn(f"LPIPS was not computed: {reason}")
        return None, {"lpips": reason}


def _score(
    folders: list[Path],
    truth: Path,
    mask: Path | None,
    settings: Settings,
    network: LpipsNetwork | None,
    *,
    quiet: bool,
) -> dict[str, Results]:
    """Score all sets and report the pairs that failed. A set without a single score is an error."""
    from ..scoring.document import Results
    from ..scoring.pairs import match
    from ..scoring.score import Failure, Score, score_all

    matched = {name: match(folder, truth, mask=mask) for name, folder in _named(folders).items()}
    sets = {}
    with _progress(sum(len(found.pairs) for found in matched.values()), quiet=quiet) as progress:
        bar = progress.task_ids[0]
        for name, found in matched.items():
            scores: list[Score] = []
            failures = [Failure(bad, error) for bad, error in found.problems.items()]
            for outcome in score_all(found.pairs, settings, network):
                progress.advance(bar)
                if isinstance(outcome, Failure):
                    failures.append(outcome)
                else:
                    scores.append(outcome)
            sets[name] = Results(found, scores, failures)
    for scored in sets.values():
        _remark(scored, quiet=quiet)
    return sets


def _remark(scored: Results, *, quiet: bool) -> None:
    """Say what could not be scored. If nothing could, stop."""
    if not scored.scores and len(scored.failures) == 1:
        raise scored.failures[0].error
    for failure in scored.failures:
        render.failure(failure.error, about=failure.name)
    if not scored.scores:
        raise InputError("no pair could be scored")
    if quiet:
        return
    if scored.matches.lone_results:
        render.warn(f"no truth for {_some(scored.matches.lone_results)}")
    if scored.matches.lone_truths:
        render.note(f"no result for {_some(scored.matches.lone_truths)}")
    gaps = [gap for score in scored.scores for gap in score.record["not_computed"].items()]
    for key, reason in dict(reversed(gaps)).items():
        count = sum(other == key for other, _ in gaps)
        render.note(f"{key} not computed for {count} of {len(scored.scores)}: {reason}")


def _named(folders: list[Path]) -> dict[str, Path]:
    """Sets by the name of their folder, or by the whole path where names clash."""
    names = [folder.resolve().name for folder in folders]
    named = {
        name if names.count(name) == 1 else str(folder): folder
        for name, folder in zip(names, folders, strict=True)
    }
    if len(named) < len(folders):
        raise UsageError("the same results are given twice")
    return named


def _progress(total: int, *, quiet: bool) -> Progress:
    columns = (TextColumn("scoring"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    disable = quiet or not render.err.is_terminal
    progress = Progress(*columns, console=render.err, transient=True, disable=disable)
    progress.add_task("score", total=total)
    return progress


def _some(names: tuple[str, ...]) -> str:
    rest = len(names) - 3
    return ", ".join(names[:3]) + (f" and {rest} more" if rest > 0 else "")


def _write(
    document: Mapping[str, Any],
    sets: Mapping[str, Results],
    settings: Settings,
    *,
    csv: Path | None,
    markdown: Path | None,
    html: Path | None,
    html_images: int,
    quiet: bool,
) -> None:
    from ..photos import files
    from ..scoring.report import csv_text, markdown_text, page, side_for, views

    if csv is not None:
        files.write_bytes(csv, csv_text(document).encode("utf-8", "surrogateescape"))
    if markdown is not None:
        files.write_bytes(markdown, markdown_text(document).encode("utf-8", "surrogateescape"))
    if html is not None:
        pictures = views(sets, settings, limit=html_images)
        side = side_for(html_images * (1 + len(sets)))
        files.write_bytes(html, page(document, pictures, side=side).encode("utf-8", "backslashreplace"))
    for path in (csv, markdown, html):
        if path is not None and not quiet:
            render.note(f"wrote {path}")
