"""A stack is restored page by page: each page is a photograph of its own, and the results make a stack again.

The pages lie in a hidden folder beside the results until all are done, so a run that was interrupted goes on with the
page it had reached.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..options import Options
from ..photos import files, lock, stacks
from ..photos import photo as images
from ..photos.results import Record, finite
from ..photos.stacks import Stack
from ..photos.targets import RECORD, Target, check_name
from ..watch import Progress, Watch
from .earlier import earlier_result, mean_of, plain_options
from .job import Job, mask_digest
from .report import Saved
from .session import Session

One = Callable[[Job, Session, Watch], Saved]
"""How a single photograph is restored."""
_OF_A_PAGE = (
    "size",
    "missing_share",
    "noise",
    "mean_std",
    "iterations",
    "seconds",
    "rank",
    "diagnostics",
    "notes",
)
_OF_ALL = ("device", "precision", "threads", "versions", "prior", "options", "seed", "size")


class _OfPage(Watch):
    """The watch over a page: its progress goes on under the number of the page, and each note once."""

    def __init__(self, inner: Watch, number: int, count: int, heard: set[str]) -> None:
        self.inner, self.where, self.heard = inner, f"page {number + 1} of {count}", heard

    def note(self, text: str) -> None:
        """Leave out what is said of every page."""

    def warn(self, text: str) -> None:
        """Pass a warning on if it is a new one."""
        if text not in self.heard:
            self.heard.add(text)
            self.inner.warn(f"{self.where}: {text}")

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        stage = self.where if progress.stage == "sampling" else f"{self.where}, {progress.stage}"
        self.inner.progress(replace(progress, stage=stage))

    def cancelled(self) -> bool:
        """Ask the other watch."""
        return self.inner.cancelled()


@dataclass(frozen=True)
class _Work:
    """A stack, and the places of its results and, until then, of its pages."""

    job: Job
    stack: Stack
    mean: Path
    std: Path
    pages: Path

    @property
    def record(self) -> Path:
        """The record of the whole stack."""
        return self.job.target.file(RECORD)

    def page(self, number: int) -> Job:
        """The job of one page. Its name has its number, so each page has draws of its own."""
        name = f"{number:05}"
        page = stacks.photo_of_page(self.stack, number, self.pages / f"{name}.tiff")
        photo = images.write_photo(page.path, page.pixels, page)
        mask = self.job.mask
        if len(self.job.inputs) > 1:
            place, polarity = self.pages / name, self.job.polarity
            mask = stacks.mask_of_page(self.job.inputs[1], self.stack, number, place, polarity=polarity)
        target = Target(self.pages, name, self.pages / f"{name}.mean.tiff")
        return replace(self.job, photo=photo, mask=mask, target=target, name=f"{self.job.name}#{number}")


def restore_stack(job: Job, stack: Stack, session: Session, watch: Watch, one: One) -> Saved:
    """Restore every page of a stack; one: restores a photograph."""
    work = _prepared(job, stack)
    axes = f" along {stack.outer}" if stack.axes else ""
    watch.note(f"{job.photo.name}: {len(stack.pages)} pictures{axes}, restored one by one")
    for text in stack.notes:
        watch.note(f"{job.photo.name}: {text}")
    if set(session.usual.save) - {"mean", "std"}:
        watch.warn("of a stack only mean and standard deviation are saved")
    with lock.results_of(job.target.folder, job.target.stem, stop=watch.cancelled):
        earlier = earlier_result(job, session.given, overwrite=session.overwrite)
        if earlier is not None and earlier.changed is None:
            return Saved("skipped", [mean_of(earlier.record, job.target)], earlier.record)
        if session.overwrite:
            shutil.rmtree(work.pages, ignore_errors=True)
        work.pages.mkdir(exist_ok=True)
        done = _restore_pages(work, session, watch, one)
        record = _record(work, session, done)
        if not record["finished"]:
            return Saved("interrupted", [], record)
        written = _save(work, record)
        shutil.rmtree(work.pages, ignore_errors=True)
    return Saved(
        "done", written, record, tuple(dict.fromkeys(text for page in done for text in page.warnings))
    )


def _prepared(job: Job, stack: Stack) -> _Work:
    """See that results can be written, and over no input."""
    target, suffix = job.target, stacks.suffix_for(stack)
    check_name(target, job.photo)
    typed = target.mean != target.file("mean.png")
    if typed:
        stacks.check_place(target.mean, stack)
    mean = target.mean if typed else target.file(f"mean{suffix}")
    work = _Work(job, stack, mean, target.file(f"std{suffix}"), target.folder / f".{target.stem}.pages")
    results = (work.mean, work.std, work.record)
    files.refuse_inputs(results, files.inodes(job.inputs))
    files.refuse_links_out((work.std, work.record, work.pages), target.folder)
    files.refuse_places(results)
    files.ensure_writable(target.folder)
    return work


def _restore_pages(work: _Work, session: Session, watch: Watch, one: One) -> list[Saved]:
    """Restore the pages in turn, up to one that is interrupted; those that are done already are not done again."""
    given, plain = session.given, {"save": ("mean", "std")}
    given = replace(given, save=plain["save"]) if isinstance(given, Options) else {**given, **plain}
    inner = replace(session, given=given, overwrite=False)
    vars(inner)["prior"] = session.prior  # loaded once
    heard: set[str] = set()
    done: list[Saved] = []
    for number in range(len(work.stack.pages)):
        listening = _OfPage(watch, number, len(work.stack.pages), heard)
        done.append(one(work.page(number), inner, listening))
        if done[-1].status == "interrupted":
            break
    return done


def _record(work: _Work, session: Session, done: Sequence[Saved]) -> Record:
    """One record: what holds for all pages, and what was found in each."""
    job, stack, first = work.job, work.stack, done[0].record
    named, mask = job.as_named()
    stds = [page.record["mean_std"] for page in done if page.record["mean_std"] is not None]
    pages = [
        {"place": stack.place(i), **{key: page.record[key] for key in _OF_A_PAGE if key in page.record}}  # type: ignore[literal-required]
        for i, page in enumerate(done)
    ]
    record: dict[str, Any] = {
        **{key: first[key] for key in _OF_ALL},  # type: ignore[literal-required]
        **{"command": job.command, "photo": named, "mask": mask, "mask_polarity": job.polarity},
        "name": job.name,
        "depth": str(stack.pages[0].samples.dtype),
        "digest": {"photo": images.digest(images.read_bytes(job.photo)), "mask": mask_digest(job)},
        "missing_share": first["missing_share"],
        "given": plain_options(session.given),
        "mean_std": float(np.mean(stds)) if stds else None,
        "iterations": first["iterations"],
        "finished": len(done) == len(stack.pages) and done[-1].status != "interrupted",
        "seconds": round(sum(page.record["seconds"] for page in done), 3),
        "trace": {},
        "notes": list(stack.notes),
        "stack": {"axes": stack.axes, "shape": list(stack.shape), "white": stack.top, "pages": pages},
    }
    record["options"] = {**first["options"], "save": list(session.usual.save)}
    return finite(record)  # type: ignore[no-any-return]


def _save(work: _Work, record: Record) -> list[Path]:
    """Put the pages together, in the layout of the input."""
    means = [images.read_photo(path).pixels for path in sorted(work.pages.glob("*.mean.tiff"))]
    stds = [images.read_photo(path, bounded=False).pixels for path in sorted(work.pages.glob("*.std.tiff"))]
    with files.together(marker=work.record):
        written = [stacks.encode_stack(work.mean, means, work.stack, std=False)]
        if len(stds) == len(means):
            written.append(stacks.encode_stack(work.std, stds, work.stack, std=True))
        record["files"] = [path.name for path in written]
        text = json.dumps(record, indent=2, allow_nan=False) + "\n"
        written.append(files.write_bytes(work.record, text.encode()))
    return written
