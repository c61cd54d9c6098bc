"""How a run speaks on stderr: to people, or in lines of JSON to a program; and what goes to a log file."""

from __future__ import annotations

import json
import os
import re
import sys
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from ..errors import UsageError
from ..watch import Progress

_EVERY = 0.2  # seconds between two lines about one stage
_PASSING = ("note", "warning", "detail", "progress", "report", "finished")  # what --quiet leaves out


@dataclass
class Voice:
    """quiet: errors only. lines: JSON, an object a line. verbose: details too. log: hears everything."""

    quiet: bool = False
    lines: bool = False
    verbose: bool = False
    log: TextIO | None = None

    def say(self, kind: str, text: str, *, shown: bool = True, **more: Any) -> bool:
        """Log and, in lines of JSON, say something; return whether it is still to be printed for people."""
        if self.log is not None:
            hint = f" ({more['hint']})" if more.get("hint") else ""
            self._write(f"{kind}: {text}{hint}")
        shown = shown and not (self.quiet and kind in _PASSING) and (self.verbose or kind != "detail")
        if self.lines:
            if shown:
                emit({"event": kind, "text": text, **more})
            return False
        return shown

    def trace(self, error: BaseException) -> None:
        """Log where an error came from."""
        if self.log is not None:
            self._write("".join(traceback.format_exception(error)).rstrip())

    def _write(self, text: str) -> None:
        """Write a line into the log. One that can no longer be written is given up: the work goes on."""
        if self.log is None:
            return
        try:
            self.log.write(f"{datetime.now().astimezone().isoformat(timespec='milliseconds')} {text}\n")
        except OSError as error:
            lost, self.log = self.log, None
            sys.stderr.write(f"the log ends here: {(error.strerror or str(error)).lower()}\n")
            with suppress(OSError):
                lost.close()


def emit(event: Mapping[str, Any]) -> None:
    """Write one object as a line on stderr; nothing else may be on that line."""
    sys.stderr.write(json.dumps(event, allow_nan=False) + "\n")
    sys.stderr.flush()


class Pace:
    """Progress in lines of JSON: stage, how far, seconds left, and the numbers of the latest step."""

    def __init__(self) -> None:
        self.stage, self.began, self.told = "", 0.0, 0.0

    def tell(self, name: str, at: Progress) -> None:
        """Write a line, unless the last one is fresh; the first and the last of a stage are always written."""
        now = time.monotonic()
        if at.stage != self.stage:
            self.stage, self.began, self.told = at.stage, now, 0.0
        if now - self.told < _EVERY and at.done < at.total:
            return
        self.told = now
        left = (now - self.began) / at.done * (at.total - at.done) if at.done else None
        head = {"event": "progress", "photo": name, "stage": at.stage, "done": at.done, "total": at.total}
        seconds = None if left is None else round(left, 1)
        emit({**head, "seconds_left": seconds, "numbers": _finite(at.numbers)})


def _finite(numbers: Mapping[str, float]) -> dict[str, float | None]:
    """JSON has no word for NaN."""
    return {name: value if abs(value) < float("inf") else None for name, value in numbers.items()}


voice = Voice()
"""The voice of the command that runs."""


def begin(*, quiet: bool, lines: bool, verbose: bool, log: Path | None) -> None:
    """Speak as the command was asked to."""
    voice.quiet, voice.lines, voice.verbose = quiet, lines, verbose
    if log is not None:
        try:
            voice.log = _opened(log)
        except OSError as error:
            raise UsageError(
                f"the log file {log} cannot be written: {(error.strerror or str(error)).lower()}",
                hint="name a file in a folder of your own",
            ) from error


def _opened(log: Path) -> TextIO:
    """Open a log to add lines to it: a new file, a log of ours, or a device; no other file is changed."""
    if log.is_file() and not _is_ours(log):
        raise UsageError(
            f"{log} is not a log that diffbcp wrote, and lines would be added to it",
            hint="name a new file: --log-file run.log",
        )
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(log, flags, 0o666)  # without a wait for someone who reads a pipe
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "a", encoding="utf-8", errors="backslashreplace", buffering=1)


def _is_ours(log: Path) -> bool:
    """Whether a file is empty, or begins with a time as every line of ours does."""
    with log.open("rb") as file:
        return re.match(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:|$", file.read(20)) is not None


def end() -> None:
    """Speak as before the command."""
    if voice.log is not None:
        with suppress(OSError):
            voice.log.close()
    voice.quiet, voice.lines, voice.verbose, voice.log = False, False, False, None
