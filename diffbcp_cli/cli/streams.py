"""Standard output and error that nobody reads, or that a full disk takes: the work goes on without them."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from ..errors import OutputError


class Talk:
    """A stream that never fails. After the first failure, what is written goes nowhere.

    lost: the failure, if what was written is missed by someone; a reader that went away misses nothing.
    """

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.lost: OutputError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    @property
    def buffer(self) -> Talk:
        """The stream of bytes, as forgiving; a failure of it is one of this stream."""
        return _Bytes(self.stream.buffer, self)

    def write(self, text: Any) -> int:
        """Write, or do as if."""
        try:
            count = self.stream.write(text)
            return len(text) if count is None else int(count)
        except OSError as error:
            self.give_up(error)
            return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush, or do as if."""
        try:
            self.stream.flush()
        except OSError as error:
            self.give_up(error)

    def give_up(self, error: OSError) -> None:
        """Send what is in the buffer, and all that follows, nowhere: it would fail again when the process ends."""
        if error.errno != errno.EPIPE and self.lost is None:
            reason = (error.strerror or str(error)).lower()
            self.lost = OutputError(f"the standard output could not be written: {reason}")
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)
            self.stream.flush()


class _Bytes(Talk):
    def __init__(self, stream: Any, text: Talk) -> None:
        super().__init__(stream)
        self.text = text

    def give_up(self, error: OSError) -> None:
        """Tell the stream of text, which reports it."""
        self.text.give_up(error)


@contextmanager
def forgiving() -> Iterator[Talk]:
    """Make both streams forgiving while the block runs; yield the output."""
    before: tuple[Any, Any] = sys.stdout, sys.stderr
    out, err = Talk(sys.stdout), Talk(sys.stderr)
    for stream in before:
        with suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="backslashreplace")  # a name may have any letters
    sys.stdout, sys.stderr = cast(TextIO, out), cast(TextIO, err)
    try:
        yield out
        out.flush()
        err.flush()
    finally:
        sys.stdout, sys.stderr = before
