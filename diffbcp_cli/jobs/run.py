"""Do the work of a plan: first what failed or is there already, then every job, and last what was left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Event
from typing import Literal

from ..devices import free_memory, pick_device, usable_cores
from ..options import Given, Options
from ..photos import lock
from . import at_once
from . import pool as local
from .earlier import mean_of
from .job import Job
from .plan import Plan
from .pool import Stopping, Tell
from .report import Report, left, of_record, refused
from .session import Session

EngineName = Literal["local", "ray"]
Engine = Callable[[Sequence[Job], Session], Iterator[Report]]


@dataclass(frozen=True)
class Sharing:
    """How the work is shared out. jobs: photographs at a time, 0 to choose. address: of a Ray cluster.

    apart: never in this process, so that the memory of one run is not counted in the next.
    """

    jobs: int = 0
    engine: EngineName = "local"
    address: str | None = None
    apart: bool = False


def settle(given: Given) -> Given:
    """One thread for each of several photographs, unless asked otherwise.

    The number of threads shapes a result's last bits, so it must not follow from how the work is shared out.
    """
    return {**given, "threads": given.get("threads") or 1}


def run(
    plan: Plan, session: Session, sharing: Sharing, *, tell: Tell, stopping: Stopping
) -> Iterator[Report]:
    """Yield a report for every photograph of the plan, as they come.

    A photograph that another run works on is put off. At the end it is waited for, if so asked. When the disk is
    full, those that are being worked on end in good order, and the rest are left.
    """
    full = Event()

    def ending() -> bool:
        return full.is_set() or stopping()

    yield from (refused(bad) for bad in plan.bad)
    for job, record in plan.finished:
        lock.remove_stale(job.target.folder, job.target.stem)
        yield of_record(job, "skipped", record, files=[mean_of(record, job.target)])
    waiting = {job.name: job for job in plan.jobs}
    engine = _engine(plan, session.usual, sharing, tell, ending)
    busy: dict[str, Report] = {}
    for report in engine(plan.jobs, replace(session, wait=False)) if plan.jobs else ():
        if report.busy:
            busy[report.name] = report
            continue
        del waiting[report.name]
        yield report
        if report.disk_full:
            full.set()
    if not full.is_set():
        put_off = [waiting[name] for name in busy]
        again = engine(put_off, session) if put_off and session.wait and not stopping() else busy.values()
        for report in again:
            del waiting[report.name]
            yield report
    yield from (left(job) for job in waiting.values())


def _engine(plan: Plan, options: Options, sharing: Sharing, tell: Tell, stopping: Stopping) -> Engine:
    if sharing.engine == "ray":
        from .ray import run_cluster

        return lambda jobs, session: run_cluster(
            jobs, session, address=sharing.address, at_once=sharing.jobs, tell=tell, stopping=stopping
        )
    gpus = count_gpus(options)
    if gpus == 1 and sharing.jobs != 1 and not sharing.apart:
        return lambda jobs, session: _on_one_gpu(jobs, session, sharing.jobs, tell=tell, stopping=stopping)
    count = sharing.jobs or choose_jobs(options, gpus)
    if min(count, len(plan.jobs)) <= 1 and not sharing.apart:
        return lambda jobs, session: local.run_here(jobs, session, tell=tell, stopping=stopping)
    return lambda jobs, session: local.run_processes(
        jobs, session, count, gpus=gpus, tell=tell, stopping=stopping
    )


def _on_one_gpu(
    jobs: Sequence[Job], session: Session, asked: int, *, tell: Tell, stopping: Stopping
) -> Iterator[Report]:
    """Small photographs several at a time in this process, the others one by one or in processes if so asked.

    One that another run works on is waited for on its own, so that it holds up no other.
    """
    few = [] if session.wait else at_once.small(jobs, session.usual)
    if few:
        count = at_once.how_many(few, session.usual, asked)
        yield from at_once.run_at_once(few, session, count, tell=tell, stopping=stopping)
    names = {job.name for job in few}
    others = [job for job in jobs if job.name not in names]
    if min(asked, len(others)) > 1:
        yield from local.run_processes(others, session, asked, gpus=1, tell=tell, stopping=stopping)
    else:
        yield from local.run_here(others, session, tell=tell, stopping=stopping)


@contextmanager
def one_cluster(sharing: Sharing, options: Options) -> Iterator[None]:
    """Keep one Ray cluster for all runs inside; without Ray there is nothing to keep."""
    if sharing.engine != "ray":
        yield
        return
    from .ray import connected

    with connected(sharing.address, sharing.jobs, options):
        yield


def count_gpus(cfg: Options) -> int:
    """How many GPUs the work may be dealt out to: all, unless one is named."""
    import torch

    device = str(pick_device(cfg.device))
    return torch.cuda.device_count() if device == "cuda" else int(device != "cpu")


def choose_jobs(cfg: Options, gpus: int) -> int:
    """One process for each GPU; without one, as many as there are cores and memory budgets."""
    if gpus > 0:
        return gpus
    return max(1, min(usable_cores() // max(1, cfg.threads), free_memory() // cfg.memory_budget))
