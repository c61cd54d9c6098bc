"""Ctrl-C, SIGTERM and SIGHUP: the first lets the iteration finish, the second does not wait."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from . import render


def signals() -> tuple[signal.Signals, ...]:
    """Those that ask for an end; not a SIGHUP that is ignored, as nohup asks."""
    found = [signal.SIGINT, signal.SIGTERM]
    hang_up: signal.Signals | None = getattr(signal, "SIGHUP", None)
    if hang_up is not None and signal.getsignal(hang_up) != signal.SIG_IGN:
        found.append(hang_up)
    return tuple(found)


class Stop:
    """Whether the user has asked to stop."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self) -> bool:
        """Return True after the first signal."""
        return self.asked

    def check(self) -> None:
        """End here if the user has asked to stop."""
        if self.asked:
            raise KeyboardInterrupt

    def hear(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal: the first asks for a stop, the second interrupts."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        render.answer("stopping as soon as the present step is done; press Ctrl-C again to stop at once")


@contextmanager
def stopping() -> Iterator[Stop]:
    """Yield a `Stop` that hears the signals while the block runs."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop.hear) for number in signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
