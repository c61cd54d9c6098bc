"""Pictures through pipes: `-` is one on stdin, or a list of names; `-o -` writes the mean to stdout."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ..errors import InputError, UsageError
from .common import Common

STDIO = Path("-")
_BINARY = {*range(1, 9), *range(14, 32)}  # control characters that no name of a file has
_NOT_IN_PIPES = ("as_json", "resume", "print_config", "shard", "root")


@dataclass(frozen=True)
class Taken:
    """What the arguments stand for. inputs: files, folders and patterns, and - for the list.

    listed: the names of the list. from_stdin: the only input is a file that holds the picture of stdin. to_stdout:
    the mean goes there in the end. common: with -o as a place for files.
    """

    inputs: tuple[str, ...]
    listed: tuple[str, ...]
    common: Common
    from_stdin: bool = False
    to_stdout: bool = False


def write_out(picture: Path) -> None:
    """Write the bytes of a file to stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(picture.read_bytes())
    sys.stdout.buffer.flush()


@contextmanager
def taken(named: Sequence[str], common: Common) -> Iterator[Taken]:
    """Read stdin if it is named, and give what goes through pipes a file while the block runs."""
    _check(named, common)
    with tempfile.TemporaryDirectory(prefix="diffbcp-") as made:
        folder = Path(made)
        found = _read(named, common, folder) if "-" in named else Taken(tuple(named), (), common)
        if common.out == STDIO:
            mean = folder / "out" / f"mean.{_format(found, common)}"
            found = replace(found, common=replace(common, out=mean), to_stdout=True)
        yield found


def _check(named: Sequence[str], common: Common) -> None:
    from ..jobs.find import is_one_file

    if common.out != STDIO:
        if common.format is not None:
            raise UsageError("--format is for a picture on stdout", hint=f"-o photo.{common.format}, or -o -")
        return
    if not (len(named) == 1 and (named[0] == "-" or is_one_file(named[0]))):
        raise UsageError("-o - writes one picture, and there are several", hint="name a folder: -o out/")
    for name in _NOT_IN_PIPES:
        if getattr(common, name):
            flag = "--json" if name == "as_json" else f"--{name.replace('_', '-')}"
            raise UsageError(
                f"{flag} does not go with -o -, which leaves the picture alone", hint="-o out/ writes files"
            )
    if sys.stdout.isatty() and not common.dry_run:
        raise UsageError("-o - would write a picture to the terminal", hint="-o - > restored.png")


def _read(named: Sequence[str], common: Common, folder: Path) -> Taken:
    """Tell a picture on stdin from a list of names by its first bytes."""
    from ..jobs.find import read_list
    from ..photos.codecs.signatures import suffix_of

    data = sys.stdin.buffer.read()
    if not data.strip():
        raise InputError("nothing came in on stdin", hint="cat photo.png | diffbcp denoise - -o out/")
    suffix = None if common.null else suffix_of(data)
    if suffix is None:
        _check_text(data)
        listed = tuple(read_list(data, null=common.null))
        if common.out != STDIO:
            return Taken(tuple(named), listed, common)
        if len(listed) > 1:
            raise UsageError("-o - writes one picture, and stdin lists several", hint="-o out/")
        return Taken(listed, (), common)
    if len(named) > 1:
        raise UsageError("a picture on stdin is restored alone", hint="name the others in another command")
    photo = folder / f"stdin{suffix}"
    photo.write_bytes(data)
    return Taken((str(photo),), (), common, from_stdin=True)


def _check_text(data: bytes) -> None:
    """Refuse bytes that no list of names holds; names end in new lines, or in NUL."""
    if b"\0" in data and not _BINARY.isdisjoint(data[:4096]):
        raise InputError(
            "stdin is neither a picture of a known format nor a list of names", hint="convert it to PNG first"
        )


def _format(found: Taken, common: Common) -> str:
    """The suffix of what goes to stdout: as asked for, or of the input's format if it can be written."""
    from ..photos.codecs.signatures import LONGEST, suffix_of
    from ..photos.photo import SUFFIXES

    if common.format is not None:
        return common.format
    try:
        with Path(found.inputs[0]).open("rb") as file:
            suffix = suffix_of(file.read(LONGEST))
    except OSError:  # said when the photograph is read
        suffix = None
    return (suffix if suffix in SUFFIXES else ".png").removeprefix(".")
