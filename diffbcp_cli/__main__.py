"""The console entry point, `diffbcp` and ``python -m diffbcp_cli``: signals and open streams before anything else."""

from __future__ import annotations

import gc
import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command line. A signal during the first imports ends the process; nothing has been begun by then."""
    _open_streams()
    signals = [signal.SIGINT, signal.SIGTERM, *_hang_up()]
    for number in signals:
        signal.signal(number, _leave)
    gc.disable()  # nothing of the imports is ever freed
    from .cli.app import run  # half a second

    gc.enable()
    for number in signals:
        signal.signal(number, signal.default_int_handler)
    try:
        code = run()
    except KeyboardInterrupt:
        code = 130
    for number in signals:
        signal.signal(number, signal.SIG_IGN)  # the work is done; what is left is to end
    sys.exit(code)


def _hang_up() -> list[signal.Signals]:
    """SIGHUP, unless it does not exist or is ignored, as nohup asks."""
    number = getattr(signal, "SIGHUP", None)
    return [] if number is None or signal.getsignal(number) == signal.SIG_IGN else [number]


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(130)


def _open_streams() -> None:
    """Give standard streams that are closed a place to go: the next file to be opened would take theirs."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if descriptor == 0 else "w", encoding="utf-8"))  # noqa: SIM115, PTH123


if __name__ == "__main__":
    main()
