"""One photograph to restore: its files, and where the results go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import DiffbcpError, MaskError, UsageError, typed
from ..options import Options
from ..photos import detect, files, masks, paint
from ..photos import photo as images
from ..photos.codecs.encode import JPEG
from ..photos.film import check_film
from ..photos.photo import Photo
from ..photos.results import read_record
from ..photos.targets import MASK, RECORD, Target, check_name
from ..units import Bools
from ..watch import Progress, Watch


@dataclass(frozen=True)
class Job:
    """One photograph to restore. mask: a path, "alpha", "auto" to find the damage, or None when nothing is missing.

    name: the relative path of the photograph, which with the seed fixes every draw. origin: where its file came
    from, - for stdin; None for a file of its own.
    """

    photo: Path
    mask: Path | str | None
    target: Target
    name: str
    polarity: masks.Polarity = "white-fills"
    max_pixels: int = images.MAX_PIXELS
    origin: str | None = None

    @property
    def command(self) -> str:
        """What is done: inpaint or denoise."""
        return "denoise" if self.mask is None else "inpaint"

    def as_named(self) -> tuple[str, str | None]:
        """Photograph and mask as the record names them: whole paths, or the word that was given."""
        own_file = self.inputs[1:]
        mask = own_file[0].absolute() if own_file else self.mask
        return self.origin or str(self.photo.absolute()), None if mask is None else str(mask)

    @property
    def inputs(self) -> list[Path]:
        """The files that the job reads, which no result may replace."""
        own_file = self.mask is not None and self.mask not in (masks.ALPHA, masks.AUTO)
        return [self.photo, Path(str(self.mask))] if own_file else [self.photo]


@dataclass(frozen=True)
class Bad:
    """A photograph that cannot become a job, and why."""

    name: str
    photo: Path
    error: DiffbcpError


@dataclass(frozen=True)
class Opened:
    """A job whose files have been read: the photograph, and which of its entries (H, W, C) are observed."""

    job: Job
    photo: Photo
    observed: Bools


class Warnings(Watch):
    """Keep the warnings and drop the notes; the rest goes on to another watch."""

    def __init__(self, inner: Watch) -> None:
        self.inner = inner
        self.heard: list[str] = []

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.heard.append(text)

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        self.inner.progress(progress)

    def cancelled(self) -> bool:
        """Ask the other watch."""
        return self.inner.cancelled()


def read_job(job: Job, watch: Watch) -> Opened:
    """Read the photograph and its mask, and see that they go together; nothing is written."""
    check_name(job.target, job.photo)
    photo = images.read_photo(job.photo, max_pixels=job.max_pixels)
    for text in photo.notes:
        watch.note(f"{photo.name}: {text}")
    return Opened(job, photo, _observed(job, photo, watch))


def check_outputs(opened: Opened, options: Options, watch: Watch) -> None:
    """See that results can be written, and over no input, before anything is computed."""
    job, photo, save = opened.job, opened.photo, options.save
    check_film(save)
    finds = job.mask == masks.AUTO
    outputs = job.target.files_for(save, floats=photo.depth == "float32", finds=finds)
    files.refuse_inputs(outputs, files.inodes(job.inputs))
    chosen = job.target.mean != job.target.file(
        "mean.png"
    )  # -o file.png: the user's own word, and may be a link
    derived = [path for path in outputs if not chosen or path != job.target.mean]
    files.refuse_links_out(derived, job.target.folder)
    images.check_side(job.target.mean, photo)
    files.refuse_places(outputs)
    if finds:
        _refuse_mask_of_theirs(job.target)
    files.ensure_writable(job.target.folder)
    for loss in images.losses(job.target.mean, photo):
        watch.note(f"{job.target.mean.name}: {loss}")
    if options.observed != "posterior" and job.mask is not None and job.target.mean.suffix.lower() in JPEG:
        watch.note(f"{job.target.mean.name}: JPEG changes known pixels a little; PNG keeps them as they are")


def mask_digest(job: Job) -> str | None:
    """SHA-256 of the mask's file; None if there is none."""
    own_file = len(job.inputs) > 1
    return images.digest(images.read_bytes(job.inputs[1])) if own_file else None


def _refuse_mask_of_theirs(target: Target) -> None:
    """A mask that the user made is not replaced by one that was found."""
    path, record = target.file(MASK), read_record(target.file(RECORD))
    if path.exists() and path.name not in (record or {}).get("files", []):
        raise UsageError(
            f"{path} is there already, and the mask that is found would replace it",
            hint=f"use it: --mask {typed(path)}, or name another folder with -o",
        )


def _found(job: Job, photo: Photo, watch: Watch) -> Bools:
    """Find the damage (H, W, C); a photograph without any is an error: there is nothing to fill."""
    found = detect.detect(photo.pixels, detect.Settings())
    said = ", ".join(f"{kind} {count}" for kind, count in found.counts.items() if count)
    watch.note(f"{photo.name}: found {said or 'nothing'}")
    if found.observed.all():
        raise MaskError(
            f"nothing was found in {photo.name} that looks damaged",
            hint=f"diffbcp mask detect {typed(job.origin or photo.path)} --sensitivity 2 -o mask.png finds more",
        )
    return np.ascontiguousarray(np.broadcast_to(found.observed, photo.pixels.shape))


def _observed(job: Job, photo: Photo, watch: Watch) -> Bools:
    """Read the mask (H, W, C), True = observed, and say what it will do."""
    if job.mask is None:
        observed = np.ones(photo.pixels.shape, bool)
    else:
        if job.mask == masks.AUTO:
            observed = _found(job, photo, watch)
        else:
            observed = masks.read_mask(job.mask, photo, polarity=job.polarity, max_pixels=job.max_pixels)
        watch.note(f"{photo.name}: {100 * masks.missing_share(observed):.1f} % will be filled")
        for doubt in (masks.looks_inverted(observed, photo), paint.left_beside(photo, observed)):
            if doubt:
                watch.warn(doubt)
    masks.check_finite(photo, observed)
    return observed
