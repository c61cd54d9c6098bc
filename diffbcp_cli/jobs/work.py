"""One photograph of many: restore it, and say in plain values what came of it."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch

from ..errors import DiffbcpError, MemoryLimitError
from ..methods.split_gibbs import Draw
from ..options import Given, Options, resolve
from ..priors import LoadedPrior
from ..run.outcome import Control, Wrap
from . import one as pipeline
from .one import Job
from .plan import Bad

Status = Literal["done", "skipped", "failed", "interrupted", "left"]
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Step:
    """How far a photograph has come; step 0 is its beginning."""

    name: str
    step: int
    total: int


@dataclass(frozen=True)
class Report:
    """What came of one photograph. Plain values only: it crosses processes and machines.

    disk_full: the failure is one that all others would meet too.
    """

    name: str
    photo: str
    mask: str | None
    status: Status
    files: tuple[str, ...] = ()
    width: int | None = None
    height: int | None = None
    channels: int | None = None
    missing_share: float | None = None
    noise_std: float | None = None
    mean_std: float | None = None
    iterations: int | None = None
    seconds: float | None = None
    error: str | None = None
    hint: str | None = None
    exit_code: int = 0
    notes: tuple[str, ...] = ()
    disk_full: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The report as it stands in summary.json."""
        found = asdict(self)
        return {name: found[name] for name in found if name != "disk_full"}


@dataclass(frozen=True)
class Task:
    """What is done to every photograph. resume: go on from its checkpoint, if there is one."""

    cfg: Given | Options
    resume: bool = False

    @property
    def usual(self) -> Options:
        """The options before the size of a photograph is known."""
        return resolve(self.cfg)


Tell = Callable[[Step], None]
Stopping = Callable[[], bool]


def restore_job(job: Job, task: Task, prior: LoadedPrior | None, *, tell: Tell, stopping: Stopping) -> Report:
    """Restore one photograph; whatever goes wrong with it becomes its report, and the rest go on."""
    notes: list[str] = []
    tell(Step(job.name, 0, task.usual.iterations))
    try:
        opened = pipeline.open_job(job, note=lambda text: None, warn=notes.append)
        control = Control(wrap=watched(job.name, tell), stop=stopping)
        saved = pipeline.run(opened, task.cfg, prior=prior, control=control, resume=task.resume)
    except KeyboardInterrupt:
        return _report(job, "interrupted", error="interrupted before its first iteration", exit_code=130)
    except Exception as error:  # reported, never hidden: one photograph must not end the others
        return failed(job, error)
    if not saved.outcome.finished:
        return _of_record(job, "interrupted", saved.record, notes, [str(path) for path in saved.files])
    notes += [text] if (text := saved.outcome.convergence.warning()) else []
    return _of_record(job, "done", saved.record, notes, [str(path) for path in saved.files])


def watched(name: str, tell: Tell) -> Wrap:
    """Stand around the draws of one photograph and tell of each."""

    def wrap(draws: Iterable[Draw], total: int) -> Iterator[Draw]:
        for count, draw in enumerate(draws, 1):
            tell(Step(name, count, total))
            yield draw

    return wrap


def explain(error: BaseException) -> DiffbcpError:
    """Say any failure in one sentence."""
    if isinstance(error, DiffbcpError):
        return error
    text = str(error).strip().split("\n")[0][:200]
    no_room = isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in text
    if no_room:
        return MemoryLimitError("it does not fit in memory", hint="a smaller --rank, or fewer --jobs")
    return DiffbcpError(
        f"unexpected {type(error).__name__}: {text}", hint="run it alone to see more, and report it"
    )


def failed(job: Job, error: Exception) -> Report:
    """The report of a job that failed."""
    said = explain(error)
    return _report(
        job,
        "failed",
        error=said.message,
        hint=said.hint,
        exit_code=said.exit_code,
        disk_full=isinstance(error.__cause__, OSError) and error.__cause__.errno in _FULL,
    )


def refused(bad: Bad) -> Report:
    """The report of a photograph that could not become a job."""
    error = bad.error
    return Report(
        bad.name,
        str(bad.photo),
        None,
        "failed",
        error=error.message,
        hint=error.hint,
        exit_code=error.exit_code,
    )


def skipped(job: Job) -> Report:
    """The report of a job whose results are there already, from the record beside them."""
    try:
        record = json.loads(job.target.file("json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return _report(job, "skipped")
    return _of_record(job, "skipped", record, [], [str(job.target.mean)])


def left(job: Job) -> Report:
    """The report of a job that was not begun."""
    return _report(job, "left")


def _report(job: Job, status: Status, **values: Any) -> Report:
    mask = None if job.mask is None else str(job.mask)
    return Report(job.name, str(job.photo), mask, status, **values)


def _of_record(job: Job, status: Status, record: Any, notes: list[str], files: list[str]) -> Report:
    def entry(value: Any, *keys: str | int) -> Any:
        """A number of the record, None where a foreign one has something else."""
        for key in keys:
            try:
                value = value[key]
            except (LookupError, TypeError):
                return None
        return value if isinstance(value, int | float) and math.isfinite(value) else None

    return _report(
        job,
        status,
        files=tuple(files),
        width=entry(record, "size", 0),
        height=entry(record, "size", 1),
        channels=entry(record, "size", 2),
        missing_share=entry(record, "missing_share"),
        noise_std=entry(record, "noise", "std"),
        mean_std=entry(record, "mean_std"),
        iterations=entry(record, "iterations"),
        seconds=entry(record, "seconds"),
        notes=tuple(notes),
        exit_code=130 if status == "interrupted" else 0,
    )
