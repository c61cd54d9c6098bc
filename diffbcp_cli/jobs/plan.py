"""From arguments to jobs: each photograph with its mask and the place of its results."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DiffbcpError, InputError, MaskError, UsageError
from ..photos.masks import ALPHA, Polarity
from ..photos.photo import MAX_PIXELS, SUFFIXES
from ..scoring.pairs import images_in
from .find import Found, find_photos, in_shard
from .one import Job, Target, is_finished

SUMMARY = "summary"  # summary.json and summary.csv are the batch's own
ENDINGS = ("json", "mean.png", "mean.tiff", "std.png", "std.tiff")


@dataclass(frozen=True)
class Request:
    """What was asked for. mask: a file for all, a folder, "alpha", or None when nothing is missing."""

    inputs: tuple[str, ...]
    out: Path
    mask: Path | str | None = None
    polarity: Polarity = "white-fills"
    listed: tuple[str, ...] = ()
    root: Path | None = None
    overwrite: bool = False
    shard: tuple[int, int] | None = None
    max_pixels: int = MAX_PIXELS


@dataclass(frozen=True)
class Bad:
    """A photograph that cannot become a job, and why."""

    name: str
    photo: Path
    error: DiffbcpError


@dataclass(frozen=True)
class Plan:
    """jobs: to be done. finished: whose results are there already. bad: that cannot be done."""

    jobs: tuple[Job, ...]
    finished: tuple[Job, ...]
    bad: tuple[Bad, ...]
    left_out: int = 0


def make_plan(request: Request) -> Plan:
    """Find the photographs, match masks, and see that every result has a place of its own in the output."""
    _check(request)
    mask = request.mask
    apart = [request.out] if mask is None or mask == ALPHA else [request.out, Path(mask)]
    arguments = {os.path.realpath(text) for text in request.inputs}
    found = find_photos(
        request.inputs,
        listed=request.listed,
        root=request.root,
        apart_from=[path for path in apart if os.path.realpath(path) not in arguments],
    )
    if len(found.photos) == 1 and (only := found.photos[0]).problem is not None:
        raise only.problem
    if not found.photos:
        raise InputError("there is no photograph to restore", hint="name files, folders or patterns")
    mine = [f for f in found.photos if request.shard is None or in_shard(f.name, request.shard)]
    masks = Masks(mask)
    made = [_job(one, request, masks) for one in mine]
    placed = _apart_from_each_other([item for item in made if isinstance(item, Job)])
    bad = [item for item in (*made, *placed) if isinstance(item, Bad)]
    jobs = [item for item in placed if isinstance(item, Job)]
    finished = [] if request.overwrite else [job for job in jobs if is_finished(job.target)]
    return Plan(
        tuple(job for job in jobs if job not in finished), tuple(finished), tuple(bad), found.left_out
    )


def _check(request: Request) -> None:
    out, mask = request.out, request.mask
    if out.suffix.lower() in SUFFIXES and not out.is_dir():
        raise UsageError(f"several photographs cannot all be written to {out}", hint="name a folder: -o out/")
    if mask is not None and mask != ALPHA and not Path(mask).exists():
        raise InputError(f"the mask {mask} does not exist", hint="a file for all, a folder, or alpha")


class Masks:
    """Find a photograph's mask: one for all, or in a folder by relative path, or by its stem at the top."""

    def __init__(self, source: Path | str | None) -> None:
        self.source = source
        self.folder = Path(source) if source is not None and Path(source).is_dir() else None
        self.table: defaultdict[str, list[Path]] = defaultdict(list)
        for path in images_in(self.folder) if self.folder is not None else ():
            key = path.relative_to(self.folder).as_posix() if self.folder else ""
            self.table[key].append(path)
            self.table[key.removesuffix(path.suffix)].append(path)

    def find(self, photo: Path, name: str) -> Path | str | None:
        """The mask of a photograph; none or several in the folder is an error."""
        if self.folder is None:
            return self.source
        stem = name.removesuffix(Path(name).suffix)
        for key in (f"{stem}.mask", name, stem, Path(stem).name):
            candidates = [path for path in self.table.get(key, ()) if not _same(path, photo)]
            if len(candidates) == 1:
                return candidates[0]
            if candidates:
                listed = ", ".join(path.name for path in candidates[:3])
                raise MaskError(f"{name} has more than one mask: {listed}", hint="rename all but one")
        raise MaskError(
            f"{name} has no mask in {self.folder}", hint=f"name it {stem}.png, or give one file for all"
        )


def _job(found: Found, request: Request, masks: Masks) -> Job | Bad:
    try:
        if found.problem is not None:
            raise found.problem
        target = _target(found.name, request.out)
        mask = masks.find(found.path, found.name)
        return Job(found.path, mask, target, found.name, request.polarity, max_pixels=request.max_pixels)
    except DiffbcpError as error:
        return Bad(found.name, found.path, error)


def _target(name: str, out: Path) -> Target:
    """The place of one photograph's results: as deep in the output as the photograph in its folder."""
    relative = Path(name)
    folder = out / relative.parent
    target = Target(folder, relative.stem, folder / f"{relative.stem}.mean.png")
    if relative.is_absolute() or os.pardir in relative.parts or not relative.stem:
        raise InputError(f"the results of {name} would be outside {out}", hint="rename the photograph")
    home = os.path.realpath(out)
    for path in (folder, target.mean, *(target.file(ending) for ending in ENDINGS)):
        if os.path.commonpath([home, os.path.realpath(path)]) != home:
            raise InputError(
                f"{path} is a link that leads out of {out}",
                hint="remove the link, or name another folder with -o",
            )
    if target.file("json") == out / f"{SUMMARY}.json":
        raise InputError(f"{name} would be written to {SUMMARY}.json, the batch's own file", hint="rename it")
    return target


def _apart_from_each_other(jobs: Sequence[Job]) -> list[Job | Bad]:
    """Photographs whose results would have the same names are all refused: none is lost unnoticed."""
    places: defaultdict[Path, list[Job]] = defaultdict(list)
    for job in jobs:
        places[job.target.mean].append(job)
    made: list[Job | Bad] = []
    for job in jobs:
        others = [str(other.photo) for other in places[job.target.mean] if other is not job]
        if not others:
            made.append(job)
            continue
        error = InputError(
            f"its results would have the names of those of {others[0]}", hint="rename one, or use --root"
        )
        made.append(Bad(job.name, job.photo, error))
    return made


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
