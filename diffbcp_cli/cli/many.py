"""Many photographs on the screen: a live overview, a table at the end, paths or one JSON document on stdout."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table

from ..errors import DiffbcpError
from ..options import Given, resolve
from . import render
from .common import Common
from .interrupt import Stop
from .models import announce

if TYPE_CHECKING:
    from ..jobs.plan import Plan, Request
    from ..jobs.pool import Told
    from ..jobs.report import Report

MAX_ROWS = 40
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
    _announce(plan, common.quiet)
    files.ensure_writable(request.out)
    session = Session(cfg, resume=common.resume, overwrite=common.overwrite, wait=common.wait)
    started = time.perf_counter()
    stop.check()
    if plan.jobs:
        fetch_prior(cfg, common.quiet)
    reports: list[Report] = []
    names = {job.name for job in plan.jobs}
    with Overview(names, quiet=common.quiet, paths=not common.as_json) as overview:
        sharing = run.Sharing(common.jobs, common.engine, common.address)
        for report in run.run(plan, session, sharing, tell=overview.tell, stopping=stop):
            reports.append(report)
            overview.add(report)
    seconds = time.perf_counter() - started
    document = summary.document(reports, cfg, seconds=seconds, shard=request.shard)
    _save_summary(request, document)
    if not common.quiet:
        show_table(reports, document)
    if common.as_json:
        render.as_json(document)
    raise typer.Exit(130 if stop() else int(document["failed"] + document["left"] > 0))


def _announce(plan: Plan, quiet: bool) -> None:
    if quiet:
        return
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
        weights.fetch(weights.find(prior), announce=None if quiet else announce, bars=not quiet)


def _save_summary(request: Request, document: dict[str, Any]) -> None:
    """Write the summary. If that fails, say so and go on: the results are there."""
    from ..jobs import summary

    try:
        summary.save(request.out, document)
    except DiffbcpError as error:
        render.failure(error)


class Overview:
    """The live overview of a batch: counts, the photographs in progress, throughput and time left.

    names: of what is to be done. paths: print what was written.
    """

    def __init__(self, names: set[str], *, quiet: bool, paths: bool) -> None:
        self.names = names
        self.total = len(names)
        self.counts: Counter[str] = Counter()
        self.paths, self.quiet = paths, quiet
        self.started = time.perf_counter()
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[text]}"),
        )
        self.bar = Progress(*columns, console=render.err, disable=quiet or not self.total, transient=True)
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
        if told.name not in self.rows:
            shown = escape(render.printable(told.name))
            self.rows[told.name] = self.bar.add_task(shown, total=at.total, text="")
        text = f"{at.done:g}/{at.total:g}" if at.stage == "sampling" else at.stage
        self.bar.update(self.rows[told.name], completed=at.done, total=at.total, text=text)

    def add(self, report: Report) -> None:
        """Count a report, print the paths it wrote, and say why it failed if it did."""
        if report.name in self.rows:
            self.bar.remove_task(self.rows.pop(report.name))
        if report.status in ("done", "failed", "interrupted") and report.name in self.names:
            self.counts[report.status] += 1
            self.bar.update(self.all, advance=1, text=self._state())
        for text in () if self.quiet else report.notes:
            render.warn(f"{report.name}: {text}")
        if report.error is not None:
            render.failure(DiffbcpError(report.error, hint=report.hint), about=report.name)
        if self.paths and report.status != "left":
            for path in report.files:
                render.path(path)

    def _state(self) -> str:
        finished = self.counts.total()
        left = self.total - finished
        text = f"{self.counts['done']} done, {self.counts['failed']} failed, {left} left"
        if not finished:
            return text
        pace = finished / (time.perf_counter() - self.started)
        return f"{text}, {60 * pace:.3g} a minute, {render.clock(left / pace)} to go"


def show_table(reports: list[Report], document: dict[str, Any]) -> None:
    """Show a row for each photograph, failures first, and the counts."""
    table = Table(
        "photograph", "", "size", "filled", "noise", "uncertainty", "time", box=None, pad_edge=False
    )
    ordered = sorted(reports, key=lambda r: (r.status in ("done", "skipped"), r.name))
    for report in ordered[:MAX_ROWS]:
        colour = _COLOURS[report.status]
        table.add_row(
            escape(render.printable(report.name)),
            f"[{colour}]{report.status}[/{colour}]",
            f"{report.width} x {report.height}" if report.width else "",
            _number(report.missing_share, "{:.1%}"),
            _number(report.noise_std, "{:.4f}"),
            _number(report.mean_std, "{:.4f}"),
            _number(report.seconds, "{:.1f} s"),
        )
    render.err.print(table)
    if len(ordered) > MAX_ROWS:
        render.note(f"and {len(ordered) - MAX_ROWS} more, all in summary.csv")
    counts = ", ".join(f"{document[s]} {s}" for s in _COLOURS if document[s])
    pace = document["images_per_minute"]
    speed = f", {pace:.3g} a minute" if pace else ""
    render.err.print(f"{document['images']} photographs: {counts} in {document['seconds']:.1f} s{speed}")


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)
