"""The one door from files to files: read a photograph and its mask, restore it, write what was asked for."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from .. import __version__
from ..devices import pick_device, use_threads
from ..errors import DiffbcpError, OutputError
from ..options import Given, Options, to_mapping
from ..photos import checkpoints, files, lock, masks, results, stacks
from ..photos.results import Record
from ..photos.targets import CHECKPOINT, KINDS
from ..priors import LoadedPrior
from ..problem import Restoration, Trace
from ..watch import Watch
from .checkpoint import identity, start_from
from .earlier import earlier_result, plain_options
from .job import Job, Opened, Warnings, check_outputs, mask_digest, read_job
from .peak import PeakMemory
from .report import Report, Saved, Status, failed, interrupted, of_record
from .session import Checkpoint, Resume, Session, resolved, restore
from .stack import restore_stack


def restore_photo(job: Job, session: Session, watch: Watch | None = None) -> Saved:
    """Restore one photograph and write its results.

    Everything is read and checked before anything is computed. What an earlier run left is looked at, and
    removed, only while the lock of these results is held: another run may be working on them. A result that is
    there already, of the same inputs and options, is left as it is.
    """
    watch = watch or Watch()
    stack = stacks.open_stack(job.photo, max_pixels=job.max_pixels)
    if stack is not None:
        return restore_stack(job, stack, session, watch, restore_photo)
    opened = read_job(job, watch)
    check_outputs(opened, session.usual, watch)
    waiting = _say_waiting(watch) if session.wait else None
    with lock.results_of(job.target.folder, job.target.stem, waiting=waiting, stop=watch.cancelled):
        earlier = earlier_result(job, session.given, overwrite=session.overwrite)
        if earlier is not None and earlier.changed is None:
            _remove_traces(job)
            return Saved("skipped", [job.target.mean], earlier.record)
        if earlier is not None:
            watch.note(f"{job.name} is restored again: {earlier.changed}")
        files.remove_leftovers(job.target.folder, job.target.stem, KINDS)
        return _restore_and_save(opened, session, watch)


def _remove_traces(job: Job) -> None:
    """Remove what a run that was killed after its record was written has left beside a finished result."""
    files.remove_leftovers(job.target.folder, job.target.stem, KINDS)
    job.target.file(CHECKPOINT).unlink(missing_ok=True)


def report_photo(job: Job, session: Session, watch: Watch) -> Report:
    """Restore one photograph of many: whatever goes wrong with it becomes its report, and the rest go on."""
    listening = Warnings(watch)
    try:
        saved = restore_photo(job, session, listening)
    except KeyboardInterrupt:
        return interrupted(job)
    except Exception as error:  # reported, never hidden: one photograph must not end the others
        return failed(job, error)
    notes = [*listening.heard, *saved.warnings]
    return of_record(job, saved.status, saved.record, notes=notes, files=saved.files)


def _say_waiting(watch: Watch) -> Callable[[str], None]:
    return lambda owner: watch.note(f"waiting for another run ({owner})")


def _restore_and_save(opened: Opened, session: Session, watch: Watch) -> Saved:
    """The work itself, with the lock held. A finished run leaves no checkpoint."""
    job, prior = opened.job, session.prior
    if watch.cancelled():  # while files were read, or a prior downloaded
        raise KeyboardInterrupt
    options = resolved(session.given, opened.observed)
    options = replace(options, threads=use_threads(options.threads))
    path, belongs = job.target.file(CHECKPOINT), identity(opened, options, prior)
    start = start_from(path, belongs, watch) if session.resume else None

    def save(checkpoint: Checkpoint) -> None:
        tensors, plain = checkpoint
        try:
            checkpoints.write(path, tensors, {**plain, **belongs})
        except OutputError as error:  # hours of work are worth more than the chance to go on with them later
            watch.note(f"{error.message}; the run goes on, but could not be resumed")

    pixels, resume = opened.photo.pixels, Resume(start, save)
    with PeakMemory() as peak:
        found = restore(
            pixels,
            opened.observed,
            options,
            prior=prior,
            name=job.name,
            watch=watch,
            resume=resume,
            jpeg=opened.photo.jpeg,
        )
    record: Record = results.finite(_record(opened, session.given, options.threads, prior, found))
    record["peak_memory"], record["peak_gpu_memory"] = peak.bytes, peak.gpu
    if session.at_once > 1:
        record["at_once"] = session.at_once
    written = _save(opened, found, record)
    if found.finished:
        path.unlink(missing_ok=True)
    status: Status = "done" if found.finished else "interrupted"
    return Saved(status, written, record, found.warnings if found.finished else ())


def _save(opened: Opened, found: Restoration, record: Record) -> list[Path]:
    """Write the results. Whatever goes wrong, the checkpoint stays: hours of work may be in it."""
    try:
        return results.save(opened.job.target, opened.photo, opened.observed, found, record)
    except (DiffbcpError, MemoryError):
        raise
    except Exception as error:  # an encoder may raise anything
        raise OutputError(
            f"the results could not be written: {type(error).__name__}: {error}",
            hint="--resume goes on from the checkpoint, with -o in another format",
        ) from error


def _record(
    opened: Opened, given: Given | Options, threads: int, prior: LoadedPrior | None, found: Restoration
) -> Record:
    """What the JSON file says."""
    job, photo, options = opened.job, opened.photo, found.options
    named, mask = job.as_named()
    trace = found.traces[0] if found.traces else Trace()
    record: Record = {
        "command": job.command,
        "photo": named,
        "mask": mask,
        "mask_polarity": job.polarity,
        "name": job.name,
        "digest": {"photo": photo.digest, "mask": mask_digest(job)},
        "size": [photo.width, photo.height, photo.channels],
        "depth": photo.depth,
        "missing_share": masks.missing_share(opened.observed),
        "seed": options.seed,
        "given": plain_options(given),
        "options": to_mapping(options),
        "threads": threads,
        "device": str(pick_device(options.device)),
        "precision": None if prior is None else str(prior.dtype).removeprefix("torch."),
        "versions": versions(),
        "prior": None if prior is None else prior.identity.as_dict(),
        "noise": None if found.noise is None else dict(found.noise),
        "mean_std": None if found.std is None else float(found.std.mean()),
        "iterations": trace.steps,
        "finished": found.finished,
        "seconds": round(found.seconds, 3),
        "trace": dict(trace),
        "notes": list(photo.notes),
    }
    record |= found.numbers  # type: ignore[typeddict-item]  # keys of the record, by the method's own account
    if len(found.traces) > 1:
        record["traces"] = [dict(trace) for trace in found.traces]
    return record


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {
        "diffbcp": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
