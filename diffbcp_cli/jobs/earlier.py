"""Results of an earlier run: whether they are what this run would make."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DiffbcpError, UsageError
from ..options import Given, Options, check, resolve, to_mapping
from ..photos import files, masks
from ..photos import photo as images
from ..photos.results import Record, read_record
from ..photos.targets import RECORD, Target
from .job import Job, mask_digest

# options that say how a result is computed, not what it is
_HOW = ("threads", "device", "compile", "checkpoint_every", "preset", "size_defaults")


@dataclass(frozen=True)
class Earlier:
    """A finished result. changed: why this run would make another one; None if it would not."""

    record: Record
    changed: str | None


def earlier_result(job: Job, given: Given | Options, *, overwrite: bool = False) -> Earlier | None:
    """The finished result that stands in the place of this job's; None if there is none, or with `overwrite`.

    Its JSON file must be a record of this photograph: one of another program is never replaced, and one of
    another photograph only with `overwrite`.
    """
    path = job.target.file(RECORD)
    record = read_record(path)
    if record is None:
        if path.exists():
            raise UsageError(
                f"{path} is not a record that diffbcp wrote, and the result would replace it",
                hint="move it away, or name another folder with -o",
            )
        return None
    if overwrite:
        return None
    if not _same_photograph(record, job):
        raise UsageError(
            f"{path} is the record of {record['photo']}, not of {job.photo}",
            hint="name another folder with -o; --overwrite replaces the result",
        )
    if not record["finished"] or not mean_of(record, job.target).exists():
        return None
    return Earlier(record, _changed(record, job, given))


def mean_of(record: Record, target: Target) -> Path:
    """The file of the mean: that of a stack has the suffix of the stack."""
    first = next(iter(record.get("files") or ()), None)
    stack = "stack" in record and isinstance(first, str)
    return target.folder / Path(str(first)).name if stack else target.mean


def changed_options(then: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str]) -> list[str]:
    """Which options differ, each in a few words. free: those that may."""
    return [
        f"--{name.replace('_', '-')} was {_shown(then.get(name))}, now {_shown(value)}"
        for name, value in now.items()
        if name not in free and then.get(name) != value
    ]


def _shown(value: Any) -> str:
    return (
        "not set" if value is None else ",".join(map(str, value)) if isinstance(value, list) else str(value)
    )


def _same_photograph(record: Record, job: Job) -> bool:
    """By its name, or by its file wherever the run was started."""
    return record["name"] == job.name or bool(
        files.inodes([job.photo]).keys() & files.inodes([Path(record["photo"])]).keys()
    )


def _changed(record: Record, job: Job, given: Given | Options) -> str | None:
    """What differs between the record and the job, None if nothing that shapes the result does."""
    digest = record.get("digest")
    if not isinstance(digest, dict) or not isinstance(record.get("given"), dict):
        return "its record is of an older version"
    if record.get("command") != job.command:
        return f"it was made by {record.get('command')}"
    if record["name"] != job.name:
        return f"its name was {record['name']}, now {job.name}"
    if digest.get("photo") != images.digest(images.read_bytes(job.photo)):
        return "the photograph has changed"
    swapped = any((record.get("mask") == word) != (job.mask == word) for word in (masks.ALPHA, masks.AUTO))
    if swapped or digest.get("mask") != mask_digest(job):
        return "the mask has changed"
    if record.get("mask_polarity") != job.polarity:
        return f"--mask-polarity was {record.get('mask_polarity')}, now {job.polarity}"
    try:
        changes = _option_changes(record, given)
    except (LookupError, TypeError, ValueError, DiffbcpError):
        return "its record is damaged"
    return changes[0] if changes else None


def _option_changes(record: Record, given: Given | Options) -> list[str]:
    """Options that are neither those that were used nor those that were asked for.

    Both are compared because a time budget chooses other numbers than were asked for.
    """
    (width, height, _), known = record["size"], 1 - record["missing_share"]

    def resolved(options: Given | Options) -> dict[str, Any]:
        return to_mapping(resolve(options, height=height, width=width, known=known))

    now, used, asked = resolved(given), record["options"], resolved(check(record["given"]))
    free = [*_HOW]
    if set(now["save"]) <= set(used["save"]):  # more than was asked for is there
        free.append("save")
    if not now.get("until_converged"):
        free.append("max_iterations")
    return changed_options(used, now, free) and changed_options(asked, now, free)


def plain_options(given: Given | Options) -> dict[str, Any]:
    """The options that were set, as plain values for the record."""
    found = to_mapping(given) if isinstance(given, Options) else given
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}
