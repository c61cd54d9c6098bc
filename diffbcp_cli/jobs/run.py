"""Do the work of a plan: what failed or was there already first, then every job, and what was left at last."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..devices import pick_device
from ..options import Given, Options, resolve
from . import pool as local
from .one import Job
from .plan import Plan
from .work import Report, Stopping, Task, Tell, left, refused, skipped

EngineName = Literal["local", "ray"]
Engine = Callable[[Sequence[Job]], Iterator[Report]]


@dataclass(frozen=True)
class Spread:
    """How the work is spread. jobs: photographs at a time, 0 to choose. address: of a Ray cluster.

    resume: go on from checkpoints where there are some.
    """

    jobs: int = 0
    engine: EngineName = "local"
    address: str | None = None
    resume: bool = False


def settle(cfg: Given) -> Given:
    """One thread for each of several photographs, unless asked otherwise.

    The number of threads shapes a result's last bits, so it must not follow from how the work is spread.
    """
    return {**cfg, "threads": cfg.get("threads") or 1}


def run(
    plan: Plan, cfg: Given | Options, spread: Spread, *, tell: Tell, stopping: Stopping
) -> Iterator[Report]:
    """Yield a report for every photograph of the plan, as they come."""
    yield from (refused(bad) for bad in plan.bad)
    yield from (skipped(job) for job in plan.finished)
    waiting = {job.name: job for job in plan.jobs}
    reports = _engine(plan, cfg, spread, tell, stopping)(plan.jobs) if plan.jobs else iter(())
    for report in reports:
        del waiting[report.name]
        yield report
        if report.disk_full:
            break
    yield from (left(job) for job in waiting.values())


def _engine(plan: Plan, cfg: Given | Options, spread: Spread, tell: Tell, stopping: Stopping) -> Engine:
    task = Task(cfg, spread.resume)
    if spread.engine == "ray":
        from .ray import run_cluster

        return lambda jobs: run_cluster(
            jobs, task, address=spread.address, at_once=spread.jobs, tell=tell, stopping=stopping
        )
    gpus = count_gpus(resolve(cfg))
    count = spread.jobs or choose_jobs(resolve(cfg), gpus)
    if min(count, len(plan.jobs)) == 1:
        return lambda jobs: local.run_here(jobs, task, tell=tell, stopping=stopping)
    return lambda jobs: local.run_processes(jobs, task, count, gpus=gpus, tell=tell, stopping=stopping)


def count_gpus(cfg: Options) -> int:
    """How many GPUs the work may be dealt out to: all, unless one is named."""
    import torch

    device = str(pick_device(cfg.device))
    return torch.cuda.device_count() if device == "cuda" else int(device != "cpu")


def choose_jobs(cfg: Options, gpus: int) -> int:
    """One process for each GPU; without one, as many as there are cores and memory budgets."""
    if gpus > 0:
        return gpus
    ours = getattr(os, "sched_getaffinity", None)  # not every system can say which cores are ours
    cores = len(ours(0)) if ours is not None else os.cpu_count() or 1
    return max(1, min(cores // max(1, cfg.threads), _free_memory() // cfg.memory_budget))


def _free_memory() -> int:
    """Bytes that a new process could have."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123
            sizes = dict(line.split(":", 1) for line in file)
        return int(sizes["MemAvailable"].split()[0]) * 1024
    except (OSError, LookupError, ValueError):
        return 8 * 2**30
