"""Many photographs on the screen: a live overview, a table at the end, paths or one JSON document on stdout."""

from __future__ import annotations

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, ProgressColumn, TaskID, TextColumn
from rich.table import Column, Table

from ..errors import DiffbcpError, UsageError
from ..options import Given, resolve
from . import render
from .common import Common
from .interrupt import Stop
from .models import announce
from .voice import Pace, voice
from .watching import Arrivals, plans

if TYPE_CHECKING:
    from ..jobs.plan import Plan, Request
    from ..jobs.pool import Told
    from ..jobs.report import Report

MAX_ROWS = 40
NARROW, BARS = 76, 100  # columns of a terminal below which numbers are left out, and bars
_COLOURS = {
    "done": "green",
    "failed": "bold red",
    "interrupted": "yellow",
    "left": "yellow",
    "skipped": "dim",
}


def run_many(request: Request, cfg: Given, common: Common, stop: Stop) -> None:
    """Restore every photograph of the request; exit with 1 if some failed, 130 after an interruption."""
    from ..jobs import run, summary
    from ..jobs.plan import make_plan
    from ..jobs.session import Session
    from ..photos import files

    cfg = run.settle(cfg)
    plan = make_plan(request, cfg)
    summary.refuse_foreign(request.out, request.shard)
    _announce(plan)
    files.ensure_writable(request.out)
    session = Session(cfg, resume=common.resume, overwrite=common.overwrite, wait=common.wait)
    started = time.perf_counter()
    stop.check()
    if plan.jobs:
        fetch_prior(cfg, common.quiet)
    reports: list[Report] = []
    with overview_of(plan, common) as overview:
        sharing = run.Sharing(common.jobs, common.engine, common.address)
        for report in run.run(plan, session, sharing, tell=overview.tell, stopping=stop):
            reports.append(report)
            overview.add(report)
    seconds = time.perf_counter() - started
    document = summary.document(reports, cfg, seconds=seconds, shard=request.shard)
    save_summary(request, document)
    if not common.quiet:
        show_table(reports, document)
    if common.as_json:
        render.as_json(document)
    raise typer.Exit(130 if stop() else int(document["failed"] + document["left"] > 0))


def watch_folder(
    folder: Path, request: Request, cfg: Given, common: Common, stop: Callable[[], bool]
) -> None:
    """Restore what appears until the user stops; the exit code is 1 if some failed, 130 if some were not finished."""
    from ..jobs import run, summary
    from ..jobs.session import Session
    from ..photos import files

    if not folder.is_dir():
        raise UsageError(
            f"--watch {folder}: there is no such folder", hint="make it first, or check the name"
        )
    summary.refuse_foreign(request.out, None)
    files.ensure_writable(request.out)
    cfg = run.settle(cfg)
    fetch_prior(cfg, common.quiet)
    session = Session(cfg, resume=common.resume, overwrite=common.overwrite, wait=common.wait)
    apart = (request.out, *([Path(request.mask)] if request.mask not in (None, "alpha", "auto") else []))
    render.note(f"watching {folder} for photographs; Ctrl-C ends")
    sharing = run.Sharing(common.jobs, common.engine, common.address)
    reports: dict[str, Report] = {}
    started = time.perf_counter()
    for plan in plans(Arrivals(folder, apart), replace(request, root=folder), cfg, stop):
        with overview_of(plan, common) as overview:
            for report in run.run(plan, session, sharing, tell=overview.tell, stopping=stop):
                overview.add(report)
                reports[report.name] = report
    found = list(reports.values())
    if found:
        document = summary.document(found, cfg, seconds=time.perf_counter() - started, shard=None)
        save_summary(request, document)
        if not common.quiet:
            show_table(found, document)
    states = {report.status for report in found}
    raise typer.Exit(130 if states & {"interrupted", "left"} else int("failed" in states))


def _announce(plan: Plan) -> None:
    if plan.left_out:
        render.note(f"{plan.left_out} results of earlier runs among the inputs were left out")
    if plan.finished:
        render.note(f"{len(plan.finished)} of {_total(plan)} are there already; --overwrite does them again")
    for reason, count in Counter(plan.again.values()).items():
        render.note(f"{count} of {_total(plan)} are restored again: {reason}")


def _total(plan: Plan) -> int:
    return len(plan.jobs) + len(plan.finished) + len(plan.bad)


def fetch_prior(cfg: Given, quiet: bool) -> None:
    """Download the prior before any worker needs it."""
    from .. import priors as weights

    if (prior := resolve(cfg).prior) != "none":
        bars = not (quiet or voice.lines)
        weights.fetch(weights.find(prior), announce=None if quiet else announce, bars=bars)


def save_summary(request: Request, document: dict[str, Any]) -> None:
    """Write the summary. If that fails, say so and go on: the results are there."""
    from ..jobs import summary

    try:
        summary.save(request.out, document)
    except DiffbcpError as error:
        render.failure(error)


class Overview:
    """The live overview of a batch: counts, the photographs in progress, throughput and time left.

    names: of what is to be done. failed: how many cannot be done.
    """

    def __init__(self, names: set[str], *, quiet: bool, paths: bool, failed: int = 0) -> None:
        self.names = names
        self.total = len(names) + failed
        self.counts: Counter[str] = Counter()
        self.paths = paths
        self.started = time.perf_counter()
        self.narrow = render.err.width < NARROW
        self.bar = Progress(
            *_columns(bars=render.err.width >= BARS),
            console=render.err,
            disable=quiet or not self.total or not render.err.is_terminal,  # an empty line elsewhere
            transient=True,
            expand=True,
        )
        self.paces: defaultdict[str, Pace] = defaultdict(Pace)
        self.all = self.bar.add_task("all", total=self.total, text=self._state())
        self.rows: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self.bar.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self.bar.stop()

    def tell(self, told: Told) -> None:
        """Show how far one photograph is."""
        at = told.progress
        if voice.lines and not voice.quiet:
            self.paces[told.name].tell(told.name, at)
        if told.name not in self.rows:
            shown = escape(render.printable(told.name))
            self.rows[told.name] = self.bar.add_task(shown, total=at.total, text="")
        sampling = at.stage == "sampling" and at.done < at.total
        text = (
            f"{at.done:g}/{at.total:g}" if sampling else "summing up" if at.stage == "sampling" else at.stage
        )
        self.bar.update(self.rows[told.name], completed=at.done, total=at.total, text=text)

    def add(self, report: Report) -> None:
        """Count a report, print the paths it wrote, and say why it failed if it did."""
        if report.name in self.rows:
            self.bar.remove_task(self.rows.pop(report.name))
        if report.status == "failed" or (
            report.status in ("done", "interrupted") and report.name in self.names
        ):
            self.counts[report.status] += 1
            self.bar.update(self.all, advance=1, text=self._state())
        voice.say("report", f"{report.name}: {report.status}", **report.as_dict())
        for text in report.notes:
            render.warn(f"{report.name}: {text}")
        if report.error is not None:
            render.failure(DiffbcpError(report.error, hint=report.hint), about=report.name)
        if self.paths and report.status != "left":
            for path in report.files:
                self._path(path)

    def _path(self, path: str) -> None:
        """Print a path. On a terminal above the live bars, which would otherwise be on its line."""
        if self.bar.live.is_started and sys.stdout.isatty():
            render.err.print(escape(render.printable(path)))
        else:
            render.path(path)

    def _state(self) -> str:
        finished = self.counts.total()
        left = self.total - finished
        text = f"{self.counts['done']} done, {self.counts['failed']} failed, {left} left"
        if not finished or self.narrow:
            return text
        pace = finished / (time.perf_counter() - self.started)
        return f"{text}, {60 * pace:.3g} a minute, {render.clock(left / pace)} to go"


def overview_of(plan: Plan, common: Common) -> Overview:
    """The overview of a plan; without bars if the progress is not to be shown by them."""
    names = {job.name for job in plan.jobs}
    hidden = common.quiet or common.progress != "bar"
    return Overview(names, quiet=hidden, paths=not common.as_json, failed=len(plan.bad))


def show_table(reports: list[Report], document: dict[str, Any]) -> None:
    """Show a row for each photograph, failures first, and the counts."""
    if voice.lines:
        return
    ordered = sorted(reports, key=lambda r: (r.status in ("done", "skipped"), r.name))
    render.err.print(_table(ordered[:MAX_ROWS], render.err.width))
    if len(ordered) > MAX_ROWS:
        render.note(f"and {len(ordered) - MAX_ROWS} more, all in summary.csv")
    counts = ", ".join(f"{document[s]} {s}" for s in _COLOURS if document[s])
    pace = document["images_per_minute"]
    speed = f", {pace:.3g} a minute" if pace else ""
    render.err.print(f"{document['images']} photographs: {counts} in {document['seconds']:.1f} s{speed}")


def _table(reports: list[Report], width: int) -> Table:
    """A row for each photograph. On a narrow terminal there are fewer numbers, and all columns can be read."""
    rows = [
        (
            escape(render.printable(report.name)),
            f"[{_COLOURS[report.status]}]{report.status}[/{_COLOURS[report.status]}]",
            _number(report.seconds, "{:.1f} s"),
            f"{report.width} x {report.height}" if report.width else "",
            _number(report.missing_share, "{:.1%}"),
            _number(report.noise_std, "{:.4f}"),
            _number(report.mean_std, "{:.4f}"),
        )
        for report in reports
    ]
    heads = ("photograph", "", "time", "size", "filled", "noise", "uncertainty")
    kept = len(heads) if width >= NARROW else 5 if width >= 60 else 3
    table = Table(box=None, pad_edge=False)
    for index, head in enumerate(heads[:kept]):
        table.add_column(head, no_wrap=index > 0, overflow="fold")
    for row in rows:
        table.add_row(*row[:kept])
    return table


def _columns(*, bars: bool) -> list[ProgressColumn]:
    """What the live overview shows of each photograph; names are shortened before numbers are."""
    name = Column(ratio=1, no_wrap=True, overflow="ellipsis")
    text = TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True))
    middle: list[ProgressColumn] = [BarColumn(bar_width=24)] if bars else []
    return [TextColumn("{task.description}", table_column=name), *middle, text]


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
