"""One run at a time in an output folder: a lock file that says who has it and never goes stale.

The lock is the operating system's (flock), which ends with its process, so a file that a killed run left
behind locks nothing. What is written in the file is only for the message. On a disk that has no locks, runs
are not kept apart.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from ..errors import OutputError, UsageError

FOLDER_LOCK = ".diffbcp.lock"
_BUSY = (errno.EWOULDBLOCK, errno.EACCES)
_LOOK = 0.3  # seconds between two looks at a lock that is waited for


@contextmanager
def whole_folder(folder: Path, *, waiting: Callable[[str], None] | None = None) -> Iterator[None]:
    """Have the folder for oneself. waiting: if given, wait for others and first call it with who they are."""
    with _held(folder / FOLDER_LOCK, shared=False, waiting=waiting):
        yield


@contextmanager
def part_of_folder(
    folder: Path, part: str, *, waiting: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Have one part of the folder; others may have other parts at the same time, but nobody the whole."""
    with ExitStack() as stack:
        stack.enter_context(_held(folder / FOLDER_LOCK, shared=True, waiting=waiting))
        name = hashlib.sha256(os.fsencode(part)).hexdigest()[:16]
        stack.enter_context(_held(folder / f".{name}{FOLDER_LOCK}", shared=False, waiting=waiting))
        yield


@contextmanager
def _held(path: Path, *, shared: bool, waiting: Callable[[str], None] | None) -> Iterator[None]:
    said = False
    while (descriptor := _try(path, shared=shared)) is None:
        owner = _owner(path)
        if waiting is None:
            raise UsageError(
                f"another run ({owner}) is writing to {path.parent}",
                hint="wait for it with --wait, or name another folder with -o",
            )
        if not said:
            waiting(owner)
            said = True
        time.sleep(_LOOK)
    try:
        yield
    finally:
        _release(path, descriptor)


def _try(path: Path, *, shared: bool) -> int | None:
    """Take the lock and return its file descriptor, or None if another run has it."""
    import fcntl

    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        except OSError as error:
            raise OutputError(
                f"cannot make the lock {path}: {(error.strerror or str(error)).lower()}"
            ) from error
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _BUSY:
                os.close(descriptor)
                return None
            # a disk without locks: files are still written whole, so go on
        if _is_at(path, descriptor):
            _sign(descriptor)
            return descriptor
        os.close(descriptor)  # its last owner removed it meanwhile


def _release(path: Path, descriptor: int) -> None:
    """Remove the file if nobody else holds it, and let go."""
    import fcntl

    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(path, descriptor):
            path.unlink()
    os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _sign(descriptor: int) -> None:
    text = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%FT%T%z")})
    with suppress(OSError):  # a full disk: the lock holds all the same
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)


def _owner(path: Path) -> str:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return f"process {int(found['pid'])} on {found['host']} since {found['since']}"
    except (OSError, ValueError, LookupError, TypeError):
        return "of unknown owner"
