"""`--dry-run` on the screen: what would be done, and what it would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from rich.markup import escape
from rich.table import Table

from ..options import Given, resolve
from . import render
from .common import Common

if TYPE_CHECKING:
    from ..jobs.estimate import Look, NeededPrior
    from ..jobs.job import Job
    from ..jobs.plan import Request

MAX_ROWS = 60


def show_plan(work: list[Job] | Request, cfg: Given, common: Common) -> None:
    """Read everything, write nothing, and show what a run would do. The exit code is 1 if some would fail.

    work: the job of a single photograph, whose failure is that of the command, or a request for many.
    """
    from ..jobs import estimate, run
    from ..jobs.earlier import earlier_result
    from ..jobs.plan import make_plan

    prior = estimate.needed_prior(cfg)
    if isinstance(work, list):
        found = [(job, earlier_result(job, cfg, overwrite=common.overwrite)) for job in work]
        finished = [job for job, earlier in found if earlier is not None and earlier.changed is None]
        looks = [] if finished else [*estimate.look(work, cfg, prior)]
        for look in looks:
            if look.error is not None:
                raise look.error
        there, at_once = len(finished), 1
    else:
        cfg, plan = run.settle(cfg), make_plan(work, run.settle(cfg))
        looks = [*estimate.look(plan.jobs, cfg, prior)]
        looks += [estimate.Look(bad.name, error=bad.error) for bad in plan.bad]
        there = len(plan.finished)
        at_once = min(
            common.jobs or run.choose_jobs(resolve(cfg), run.count_gpus(resolve(cfg))), max(1, len(plan.jobs))
        )
    can = sum(look.error is None for look in looks)
    document = _document(looks, prior, there, min(at_once, max(1, can)), common)
    if common.as_json:
        render.as_json(document)
    else:
        _show(looks, document)
    raise typer.Exit(int(any(look.error is not None for look in looks)))


def _document(
    looks: list[Look], prior: NeededPrior | None, there: int, at_once: int, common: Common
) -> dict[str, Any]:
    good = [look for look in looks if look.error is None]
    largest = sorted((look.memory for look in good), reverse=True)[:at_once]
    return {
        "output": str(common.out),
        "images": len(looks) + there,
        "finished": there,
        "jobs": at_once,
        "seconds": round(sum(look.seconds for look in good) / at_once, 1),
        "memory": round(sum(largest)),
        "prior": None if prior is None else prior.name,
        "download": 0 if prior is None else prior.download,
        "results": [look.as_dict() for look in looks],
    }


def _show(looks: list[Look], document: dict[str, Any]) -> None:
    table = Table("photograph", "size", "to fill", "time", "memory", box=None, pad_edge=False)
    for look in looks[:MAX_ROWS]:
        name = escape(render.printable(look.name))
        if look.error is not None:
            table.add_row(name, "[bold red]cannot be restored[/bold red]")
            continue
        size = f"{look.width} x {look.height}"
        time = f"{look.seconds:.0f} s"
        table.add_row(name, size, f"{look.missing_share:.1%}", time, f"{look.memory / 1e9:.2f} GB")
    render.out.print(table)
    if len(looks) > MAX_ROWS:
        render.out.print(f"and {len(looks) - MAX_ROWS} more; --json lists all")
    for look in looks:
        for text in look.notes:
            render.warn(f"{look.name}: {text}")
        if look.error is not None:
            render.failure(look.error, about=look.name)
    _show_totals(document)


def _show_totals(document: dict[str, Any]) -> None:
    failing = sum("error" in one and one["error"] is not None for one in document["results"])
    todo = document["images"] - document["finished"] - failing
    done = f" ({document['finished']} more are finished)" if document["finished"] else ""
    done += f" ({failing} cannot be restored)" if failing else ""
    render.out.print(f"{todo} to do{done}, {document['jobs']} at a time, into {escape(document['output'])}")
    size = document["download"]
    what = "nothing" if size == 0 else f"{size / 1e6:,.0f} MB" if size else "a prior of unknown size"
    render.out.print(
        f"about {document['seconds']:,.0f} s, {document['memory'] / 1e9:.1f} GB of memory; "
        f"to download: {what}"
    )
