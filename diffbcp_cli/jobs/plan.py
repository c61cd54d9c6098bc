"""From arguments to jobs: each photograph with its mask and the place of its results."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DiffbcpError, InputError, MaskError, UsageError
from ..options import Given, Options, resolve
from ..photos import files
from ..photos.film import check_film
from ..photos.folders import images_in
from ..photos.masks import ALPHA, AUTO, Polarity
from ..photos.photo import MAX_PIXELS, SUFFIXES
from ..photos.results import Record, read_record
from ..photos.targets import CHECKPOINT, RECORD, Target
from .earlier import earlier_result
from .find import Findings, Found, find_photos, in_shard
from .job import Bad, Job

SUMMARY = "summary"  # summary.json and summary.csv are the batch's own


@dataclass(frozen=True)
class Request:
    """What was asked for. mask: a file for all, a folder, "alpha", "auto", or None when nothing is missing."""

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
class Plan:
    """jobs: to be done. finished: whose results are there already, with their records. bad: that cannot be done.

    again: why some jobs are done although a result is there, by name. left_out: results among the inputs.
    """

    jobs: tuple[Job, ...]
    finished: tuple[tuple[Job, Record], ...]
    bad: tuple[Bad, ...]
    again: Mapping[str, str]
    left_out: int = 0


def make_plan(request: Request, given: Given | Options | None = None) -> Plan:
    """Find the photographs, match masks, and see that every result has a place of its own in the output.

    Names that clash are looked for among all photographs, whichever part of them is done here.
    """
    _check(request)
    found, given = _find(request), given or {}
    check_film(resolve(given).save)
    masks = Masks(request.mask)
    made = [_job(one, request, masks) for one in found.photos]
    inputs = files.inodes(path for item in made if isinstance(item, Job) for path in item.inputs)
    if not request.overwrite:
        inputs |= files.inodes(path for path in found.left_out if not _has_record(path))
    placed = _apart_from_each_other([item for item in made if isinstance(item, Job)])
    placed = [_apart_from_inputs(item, resolve(given).save, inputs) for item in placed]
    bad = [item for item in (*made, *placed) if isinstance(item, Bad)]
    jobs = [item for item in placed if isinstance(item, Job)]
    if request.shard is not None:
        bad = [one for one in bad if in_shard(one.name, request.shard)]
        jobs = [job for job in jobs if in_shard(job.name, request.shard)]
    return _without_finished(jobs, bad, request, given, len(found.left_out))


def _find(request: Request) -> Findings:
    mask = request.mask
    apart = [request.out] if mask in (None, ALPHA, AUTO) else [request.out, Path(str(mask))]
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
    return found


def _without_finished(
    jobs: Sequence[Job], bad: list[Bad], request: Request, given: Given | Options, left_out: int
) -> Plan:
    """Set apart the jobs whose results are there already, of the same inputs and options."""
    todo, finished, again = [], [], {}
    for job in jobs:
        try:
            earlier = earlier_result(job, given, overwrite=request.overwrite)
        except DiffbcpError as error:
            bad.append(Bad(job.name, job.photo, error))
            continue
        same = earlier is not None and earlier.changed is None
        if earlier is not None and same and not job.target.file(CHECKPOINT).exists():
            finished.append((job, earlier.record))
            continue
        todo.append(job)
        if earlier is not None and earlier.changed is not None:
            again[job.name] = earlier.changed
    return Plan(tuple(todo), tuple(finished), tuple(bad), again, left_out)


def _check(request: Request) -> None:
    out, mask = request.out, request.mask
    if out.suffix.lower() in SUFFIXES and not out.is_dir():
        raise UsageError(f"several photographs cannot all be written to {out}", hint="name a folder: -o out/")
    if mask not in (None, ALPHA, AUTO) and not Path(str(mask)).exists():
        raise InputError(f"the mask {mask} does not exist", hint="a file for all, a folder, alpha or auto")


class Masks:
    """Find a photograph's mask: one for all, or in a folder by relative path, or by its stem at the top."""

    def __init__(self, source: Path | str | None) -> None:
        self.source = source
        self.folder = Path(source) if source is not None and Path(source).is_dir() else None
        self.table: defaultdict[str, list[Path]] = defaultdict(list)
        for path in images_in(self.folder, results=True) if self.folder is not None else ():
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
    files.refuse_links_out((folder, *target.every_file()), out)
    if target.file("json") == out / f"{SUMMARY}.json":
        raise InputError(f"{name} would be written to {SUMMARY}.json, the batch's own file", hint="rename it")
    return target


def _has_record(path: Path) -> bool:
    """Whether a run made this file, which is named like a result: its record stands beside it."""
    stem = path.stem.rpartition(".")[0]
    return read_record(path.with_name(f"{stem}.{RECORD}")) is not None


def _apart_from_each_other(jobs: Sequence[Job]) -> list[Job | Bad]:
    """Refuse all photographs whose results would have the same names: otherwise one would replace the other."""
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


def _apart_from_inputs(
    item: Job | Bad, save: Sequence[str], inputs: Mapping[tuple[int, int], Path]
) -> Job | Bad:
    """Refuse a photograph whose results would be written over any photograph or mask of the batch."""
    if isinstance(item, Bad):
        return item
    try:
        finds = item.mask == AUTO
        files.refuse_inputs(item.target.files_for(save, floats=True, finds=finds), inputs)
    except UsageError as error:
        return Bad(item.name, item.photo, error)
    return item


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
