"""What came of one photograph, in plain values that cross processes and machines."""

from __future__ import annotations

import errno
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from ..devices import is_out_of_memory
from ..errors import DiffbcpError, MemoryLimitError
from ..photos.lock import BusyError
from ..photos.results import Record
from .job import Bad, Job

Status = Literal["done", "skipped", "failed", "interrupted", "left"]
_FULL = (errno.ENOSPC, errno.EDQUOT)
_INTERNAL = ("disk_full", "busy")


@dataclass(frozen=True)
class Saved:
    """What came of a job. files: those that were written, or the mean that was there already.

    warnings: what the user should look at.
    """

    status: Status
    files: list[Path]
    record: Record
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """What came of one photograph.

    disk_full: the failure is one that all others would meet too. busy: another run has its lock.
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
    busy: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The report as it stands in summary.json."""
        return {name: value for name, value in asdict(self).items() if name not in _INTERNAL}


def of_record(
    job: Job, status: Status, record: Record, *, notes: Sequence[str] = (), files: Sequence[Path] = ()
) -> Report:
    """The report of a job with the numbers of its record; one from a disk may lack some or hold others."""

    def number(*keys: str | int) -> Any:
        value: Any = record
        for key in keys:
            try:
                value = value[key]
            except (LookupError, TypeError):
                return None
        return value if isinstance(value, int | float) and math.isfinite(value) else None

    return _report(
        job,
        status,
        files=tuple(str(path) for path in files),
        width=number("size", 0),
        height=number("size", 1),
        channels=number("size", 2),
        missing_share=number("missing_share"),
        noise_std=number("noise", "std"),
        mean_std=number("mean_std"),
        iterations=number("iterations"),
        seconds=number("seconds"),
        notes=tuple(notes),
        exit_code=130 if status == "interrupted" else 0,
    )


def explain(error: BaseException) -> DiffbcpError:
    """Say any failure in one sentence."""
    if isinstance(error, DiffbcpError):
        return error
    text = str(error).strip().split("\n")[0][:200]
    if is_out_of_memory(error):
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
        disk_full=any(isinstance(one, OSError) and one.errno in _FULL for one in _chain(error)),
        busy=isinstance(error, BusyError),
    )


def _chain(error: BaseException) -> list[BaseException]:
    """An error and what led to it, by cause or by context."""
    found: list[BaseException] = []
    one: BaseException | None = error
    while one is not None and one not in found:
        found.append(one)
        one = one.__cause__ or one.__context__
    return found


def interrupted(job: Job) -> Report:
    """The report of a job that was stopped with nothing drawn."""
    return _report(job, "interrupted", error="interrupted before its first iteration", exit_code=130)


def left(job: Job) -> Report:
    """The report of a job that was not begun."""
    return _report(job, "left")


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


def _report(job: Job, status: Status, **values: Any) -> Report:
    mask = None if job.mask is None else str(job.mask)
    return Report(job.name, str(job.photo), mask, status, **values)
