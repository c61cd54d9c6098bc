"""The runs of a comparison: each kind of damage by each method, every run through the one door for photographs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from ...options import resolve
from .. import run
from ..plan import Request, make_plan
from ..pool import Stopping, Tell, Told
from ..report import Report
from ..session import Session
from .cell import Cell
from .damage import Damage, Wanted
from .entries import Entry

RUNS = "runs"  # the folder of the results


def cells(
    damages: Sequence[Damage], entries: Sequence[Entry], wanted: Wanted, out: Path, *, overwrite: bool = False
) -> tuple[Cell, ...]:
    """Plan every cell, damage by damage. The same command again finds what is finished."""
    made = []
    for damage in damages:
        for entry in entries:
            request = Request(
                inputs=damage.inputs,
                out=out / RUNS / damage.name / entry.folder,
                mask=damage.mask,
                polarity="white-fills" if wanted.simulated else wanted.polarity,
                overwrite=overwrite,
            )
            given = run.settle({**entry.given, "save": ("mean", "std")})
            made.append(Cell(damage, entry, given, make_plan(request, given)))
    return tuple(made)


@dataclass(frozen=True)
class Ways:
    """How the runs are done. resume: go on from checkpoints. wait: for another run on the same photograph."""

    sharing: run.Sharing
    resume: bool = False
    overwrite: bool = False
    wait: bool = False


def run_cells(
    grid: Sequence[Cell], ways: Ways, *, tell: Tell, stopping: Stopping
) -> Iterator[tuple[Cell, Report]]:
    """Restore every photograph of every cell; reports come as they finish, until a stop is asked for.

    Each cell works in processes of its own, so that the memory of one method is not counted in the next; on Ray all
    cells share one cluster and its processes.
    """
    todo = [cell for cell in grid if cell.plan.jobs]
    with run.one_cluster(ways.sharing, resolve(todo[0].given)) if todo else nullcontext():
        yield from _run_cells(grid, ways, tell, stopping)


def _run_cells(
    grid: Sequence[Cell], ways: Ways, tell: Tell, stopping: Stopping
) -> Iterator[tuple[Cell, Report]]:
    sharing = replace(ways.sharing, apart=True)
    for cell in grid:
        session = Session(cell.given, resume=ways.resume, overwrite=ways.overwrite, wait=ways.wait)
        here = _telling(cell, tell)
        for report in run.run(cell.plan, session, sharing, tell=here, stopping=stopping):
            yield cell, report
        if stopping():
            return


def _telling(cell: Cell, tell: Tell) -> Callable[[Told], None]:
    return lambda told: tell(Told(f"{cell.name}: {told.name}", told.progress))
