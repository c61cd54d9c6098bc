"""Writing files: whole or not at all, and never over an input."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from ..errors import InputError, OutputError, UsageError

MOST_OWN = 2**28  # bytes of a record; one with long traces is the largest
LONGEST_NAME = 220  # bytes of a name that a temporary file keeps; file systems take 255
_NEARLY_FULL = 2**20  # bytes that are left
_group: ContextVar[list[tuple[Path, Path]] | None] = ContextVar("group", default=None)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a temporary file beside `path` that takes its place when the block ends well.

    The content is on the disk before the rename. On any failure, Ctrl-C among them, the temporary file is
    removed and what stood at `path` is left as it was.
    """
    target = Path(os.path.realpath(path))  # write through a symbolic link rather than over it
    short = os.fsdecode(os.fsencode(target.name)[:LONGEST_NAME])
    temporary = target.with_name(f".{short}.{secrets.token_hex(4)}.tmp")
    try:
        _refuse_special(target)
        try:
            yield temporary
            _flush(temporary)
            group = _group.get()
            if group is None:
                temporary.replace(target)
            else:
                group.append((temporary, target))
        except BaseException:
            with suppress(OSError):
                temporary.unlink()
            raise
    except OSError as error:
        known = _named(error, target.parent)
        raise OutputError(f"cannot write {path}: {_reason(known)}", hint=_advice(known)) from known


@contextmanager
def together(marker: Path) -> Iterator[None]:
    """Let the files that are written in the block take their places at its end, all of them or none.

    marker: the file that says that the others are complete. It is removed before the first of them changes and
    must be written last, so it never stands beside files that are not its own.
    """
    group: list[tuple[Path, Path]] = []
    token = _group.set(group)
    try:
        yield
        marker.unlink(missing_ok=True)
        for temporary, target in group:
            temporary.replace(target)
    except OSError as error:
        raise OutputError(f"cannot write {marker.parent}: {_reason(error)}", hint=_advice(error)) from error
    finally:
        _group.reset(token)
        for temporary, _ in group:
            with suppress(OSError):
                temporary.unlink()


def write_bytes(path: Path, data: bytes) -> Path:
    """Write `data` to `path`, whole or not at all, and return `path`."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)
    return path


def remove_leftovers(folder: Path, stem: str, kinds: Iterable[str]) -> None:
    """Remove the temporary files and folders that a killed run has left of the results of `stem`.

    Hold the lock of these results: a running process has such files too. kinds: what may stand between the stem
    and the suffix. A file of the stem `a.b` is none of the stem `a`.
    """
    ours = re.compile(
        rf"\.({re.escape(stem)}\.(({'|'.join(kinds)}|checkpoint)\.)?[a-z]+|diffbcp)\.[0-9a-f]{{8}}\.tmp"
    )
    for path in folder.iterdir():
        if ours.fullmatch(path.name):
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


def inodes(paths: Iterable[Path]) -> dict[tuple[int, int], Path]:
    """Files by device and inode, through links; those that do not exist are left out."""
    found: dict[tuple[int, int], Path] = {}
    for path in paths:
        try:
            about = path.stat()
        except (OSError, ValueError):
            continue
        found[about.st_dev, about.st_ino] = path
    return found


def refuse_inputs(outputs: Iterable[Path], inputs: Mapping[tuple[int, int], Path]) -> None:
    """Refuse to write over an input, whatever its name there. inputs: as `inodes` gives them."""
    for place, path in inodes(outputs).items():
        if place in inputs:
            same = "" if path == inputs[place] else f", which is the input {inputs[place]}"
            raise UsageError(f"a result would be written over {path}{same}", hint="name a folder: -o out/")


def refuse_links_out(outputs: Iterable[Path], folder: Path) -> None:
    """Refuse a result that a link would take out of its folder."""
    home = os.path.realpath(folder)
    for path in outputs:
        if os.path.commonpath([home, os.path.realpath(path)]) != home:
            raise InputError(
                f"{path} is a link that leads out of {folder}",
                hint="remove the link, or name another folder with -o",
            )


def refuse_places(outputs: Iterable[Path]) -> None:
    """Refuse a result whose name is that of a folder, a pipe or a device."""
    for path in outputs:
        if path.exists() and not path.is_file():
            what = "a folder" if path.is_dir() else "not a regular file"
            raise UsageError(
                f"{path} is {what}, and a result would have its name",
                hint="move it away, or name another folder with -o",
            )


def read_own(path: Path, most: int = MOST_OWN) -> bytes:
    """The content of a file that a run of ours may have written; an OSError if it is none.

    Whoever can write to the folder may have put a pipe in its place, or a link to /dev/zero, whose end never comes.
    """
    require_regular(path, most)
    return path.read_bytes()


def require_regular(path: Path, most: int | None = None) -> None:
    """Raise an OSError for a pipe, a device, or more bytes than `most`."""
    about = path.stat()
    if not stat.S_ISREG(about.st_mode):
        raise OSError("it is not a regular file")
    if most is not None and about.st_size > most:
        raise OSError(f"it has {about.st_size:,} bytes")


def ensure_writable(folder: Path) -> Path:
    """Create `folder` if need be and see that files can be made in it; return it."""
    probe = folder / f".diffbcp.{secrets.token_hex(4)}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe.touch(exist_ok=False)
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise UsageError(
            f"the output folder {folder} cannot be written: {_reason(error)}",
            hint="name a folder of your own: -o out/",
        ) from error
    return folder


def harmless(value: Any) -> Any:
    """A cell of a CSV file that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _refuse_special(path: Path) -> None:
    """A rename over a folder fails late, and one over /dev/null would succeed."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(0, "it is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(0, "it is not a regular file")


def _named(error: OSError, folder: Path) -> OSError:
    """The same error with its number. NumPy has none for a full disk: '4096 requested and 0 written'."""
    if error.errno is not None:
        return error
    with suppress(OSError):
        if shutil.disk_usage(folder).free < _NEARLY_FULL:
            return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return error


def _reason(error: OSError) -> str:
    text = error.strerror or str(error) or type(error).__name__
    return text[0].lower() + text[1:]


def _advice(error: OSError) -> str:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return "make the folder first, or name another with -o"
    if isinstance(error, PermissionError):
        return "name a folder that you may write to with -o"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "free some space, or name another place with -o"
    return "name another place"
