"""Which photographs an argument means: a file, a folder, a pattern, or a list.

A photograph's name is its path in the folder that was given. The name fixes the seed and the place of the
results, so neither depends on the order, on other files, or on how the work is shared out.
"""

from __future__ import annotations

import glob
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import DiffbcpError, InputError, UsageError, typed
from ..photos.folders import images_in, is_image
from ..photos.targets import is_result

LONGEST_NUMBER = 9  # digits of a part


@dataclass(frozen=True)
class Found:
    """One photograph and its name, or one argument and why there is none."""

    path: Path
    name: str
    problem: DiffbcpError | None = None


@dataclass(frozen=True)
class Findings:
    """Photographs in the order of their names, and files that are named like results, which were left out."""

    photos: tuple[Found, ...]
    left_out: tuple[Path, ...] = ()


def is_one_file(text: str) -> bool:
    """Whether an argument means a single file, which may yet be missing."""
    return text != "-" and not Path(text).is_dir() and not _is_pattern(text)


def read_list(data: bytes, *, null: bool) -> list[str]:
    """File names from a list, one a line, or each ended by a NUL byte; any bytes may be in a name."""
    if not null and b"\0" in data:
        raise UsageError(
            "the names in the list end in NUL, not in new lines", hint="-0, as with find -print0"
        )
    parts = data.split(b"\0") if null else data.splitlines()
    return [os.fsdecode(part) for part in parts if part]


def find_photos(
    inputs: Sequence[str],
    *,
    listed: Sequence[str] = (),
    root: Path | None = None,
    apart_from: Iterable[Path] = (),
) -> Findings:
    """Find the photographs of all arguments, each file once.

    listed: the list that `-` stands for; its names are taken as they are. root: names are relative to it,
    instead of to each argument. apart_from: folders and files inside the inputs that hold no photographs.
    """
    skip = {os.path.realpath(path) for path in apart_from}
    seen: dict[tuple[str, str], Found] = {}
    left_out: list[Path] = []
    for text in (*(t for t in inputs if t != "-"), *(listed if "-" in inputs else ())):
        for found in _expand(text, skip, literal=text in listed):
            if found.problem is None and is_result(found.path):
                left_out.append(found.path)
                continue
            placed = found if root is None or found.problem else _under(root, found.path)
            seen.setdefault((placed.name, str(placed.path.absolute())), placed)
    photos = sorted(seen.values(), key=lambda found: os.fsencode(found.name))
    return Findings(tuple(photos), tuple(left_out))


def in_shard(name: str, shard: tuple[int, int]) -> bool:
    """Whether a name falls to part I of N: by a hash of the name, whatever other names there are."""
    part, count = shard
    digest = hashlib.sha256(os.fsencode(name)).digest()
    return int.from_bytes(digest[:8], "big") % count == part - 1


def parse_shard(text: str) -> tuple[int, int]:
    """Read I/N, 1 <= I <= N."""
    part, slash, count = text.partition("/")
    numbers = slash and all(one.isdecimal() and len(one) <= LONGEST_NUMBER for one in (part, count))
    if numbers and 1 <= int(part) <= int(count):
        return int(part), int(count)
    raise UsageError(f"--shard cannot be {text[:40]!r}", hint="--shard 1/4 is the first of four parts")


def _is_pattern(text: str) -> bool:
    return glob.has_magic(text) and not os.path.lexists(text)


def _expand(text: str, skip: set[str], *, literal: bool) -> Iterator[Found]:
    path = Path(text)
    if path.is_dir():
        yield from _in_folder(path, skip)
    elif _is_pattern(text) and not literal:
        yield from _matching(text, skip)
    else:
        yield Found(path, path.name)


def _in_folder(folder: Path, skip: set[str]) -> Iterator[Found]:
    """The images below a folder, by the rule of `photos.folders`, and the sub-folders that cannot be read."""
    problems: list[OSError] = []
    apart = [Path(path) for path in skip]
    paths = images_in(folder, results=True, apart_from=apart, on_error=problems.append)
    yield from (Found(path, path.relative_to(folder).as_posix()) for path in paths)
    for error in problems:
        where = Path(os.fsdecode(error.filename or folder))
        why = (error.strerror or str(error)).lower()
        yield Found(where, where.as_posix(), InputError(f"the folder {where} cannot be read: {why}"))
    if not paths and not problems:
        yield Found(
            folder, folder.as_posix(), InputError(f"{folder} holds no images", hint=f"ls {typed(folder)}")
        )


def _matching(pattern: str, skip: set[str]) -> Iterator[Found]:
    """Images that a pattern matches, named relative to its part without wildcards."""
    fixed = Path(pattern)
    while glob.has_magic(str(fixed)):
        fixed = fixed.parent
    empty = True
    for path in fixed.glob(str(Path(pattern).relative_to(fixed))):
        name = path.relative_to(fixed)
        hidden = any(part[0] == "." for part in name.parts)
        if is_image(path.name) and not hidden and not path.is_dir():
            empty = False
            if os.path.realpath(path) not in skip:
                yield Found(path, name.as_posix())
    if empty:
        hint = "** goes through sub-folders: 'photos/**/*.png'"
        yield Found(Path(pattern), pattern, InputError(f"no image matches {pattern}", hint=hint))


def _under(root: Path, path: Path) -> Found:
    """Name a file relative to `root`; one outside it has no place in the output."""
    name = os.path.relpath(path, root)
    if name.split(os.sep, 1)[0] == os.pardir:
        problem = InputError(f"{path} is not in {root}", hint="name a --root that holds every photograph")
        return Found(path, path.as_posix(), problem)
    return Found(path, Path(name).as_posix())
