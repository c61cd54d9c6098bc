"""One run at a time for the results of each photograph.

The lock belongs to the operating system and ends with its process, so the file that a killed run leaves behind
locks nothing. The text in the file is only for the message to others. On a disk that knows no locks, runs are not
kept apart.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from ..errors import OutputError, UsageError

SUFFIX = ".diffbcp.lock"
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}  # what a disk without locks says
_TEXT_AT = 1  # Windows locks the first byte against reading too
_LOOK = 0.3  # seconds between two tries


class BusyError(UsageError):
    """Another run has the lock."""


def lock_of(folder: Path, stem: str) -> Path:
    """The lock file of the results in `folder` whose names start with `stem`."""
    return folder / f".{hashlib.sha256(os.fsencode(stem)).hexdigest()[:16]}{SUFFIX}"


@contextmanager
def results_of(
    folder: Path, stem: str, *, waiting: Callable[[str], None] | None = None, stop: Callable[[], bool] = bool
) -> Iterator[None]:
    """Have the results of one photograph to oneself.

    waiting: if given, wait for another run, and first call it with who that is. stop: asked meanwhile;
    True ends the waiting like Ctrl-C.
    """
    path = lock_of(folder, stem)
    lock = FileLock(path, timeout=0, fallback_to_soft=False, on_acquired=_sign)
    said = False
    while not _taken(lock, path):
        owner = _owner(path)
        if stop():
            raise KeyboardInterrupt
        if waiting is None:
            raise BusyError(
                f"another run ({owner}) is working on {folder / stem}",
                hint="wait for it with --wait, or use another -o",
            )
        if not said:
            waiting(owner)
            said = True
        time.sleep(_LOOK)
    try:
        yield
    finally:
        _release(lock, path)


def remove_stale(folder: Path, stem: str) -> None:
    """Remove the lock file that a killed run has left beside finished results; one that a run holds stays."""
    if lock_of(folder, stem).exists():
        with suppress(BusyError, OutputError), results_of(folder, stem):
            pass  # whoever lets go of a lock removes its file


def _taken(lock: FileLock, path: Path) -> bool:
    """Try to take the lock once. True on a disk without locks: files are still written whole."""
    try:
        lock.acquire()
    except Timeout:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            reason = (error.strerror or str(error)).lower()
            raise OutputError(f"cannot make the lock {path}: {reason}") from error
        with suppress(OSError):
            path.unlink()
    return True


def _release(lock: FileLock, path: Path) -> None:
    """Remove the file and let go; in this order, so that nobody's lock is removed."""
    if not lock.is_locked:
        return
    with suppress(OSError):  # Windows removes no file that is open
        path.unlink()
    lock.release()


def _sign(descriptor: int) -> None:
    """Write who has the lock."""
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%FT%T%z")})
    with suppress(OSError):  # a full disk: the lock holds all the same
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, _TEXT_AT, os.SEEK_SET)
        os.write(descriptor, text.encode())


def _owner(path: Path) -> str:
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(_TEXT_AT)
            found = json.loads(file.read())
        return f"process {int(found['pid'])} on {found['host']} since {found['since']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "of unknown owner"
