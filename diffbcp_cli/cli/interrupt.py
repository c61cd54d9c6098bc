"""Ctrl-C and SIGTERM: the first lets the iteration finish, the second does not wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from . import render


class Stop:
    """Whether the user has asked to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Return True after the first signal."""
        return self.asked

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first asks for a stop, the second interrupts."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        render.note("stopping after this iteration; press Ctrl-C again to stop at once")


@contextmanager
def stopping() -> Iterator[Stop]:
    """Yield a `Stop` that hears SIGINT and SIGTERM while the block runs."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
