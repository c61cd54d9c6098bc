"""`--watch FOLDER`: restore each photograph that appears in a folder, as a scanner saves them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import DiffbcpError
from ..options import Given
from . import render

if TYPE_CHECKING:
    from ..jobs.plan import Plan, Request

POLL = 1.0  # seconds between two looks; a file that has not changed in between is whole
_SLICE = 0.1
State = tuple[int, int]
"""Size and time of change of a file."""


class Arrivals:
    """The photographs of a folder that are new or have changed since they were last taken."""

    def __init__(self, folder: Path, apart_from: tuple[Path, ...]) -> None:
        self.folder, self.apart_from = folder, apart_from
        self.seen: dict[Path, State] = {}
        self.taken: dict[Path, State] = {}

    def look(self) -> list[Path]:
        """Those that are whole: as they were at the last look."""
        from ..photos.folders import images_in

        before, self.seen = self.seen, {}
        for path in images_in(self.folder, results=False, apart_from=self.apart_from):
            try:
                about = path.stat()
            except OSError:  # gone again
                continue
            self.seen[path] = about.st_size, about.st_mtime_ns
        return [
            path
            for path, state in self.seen.items()
            if before.get(path) == state and self.taken.get(path) != state
        ]

    def take(self, path: Path) -> None:
        """This one is dealt with, until it changes."""
        if path in self.seen:
            self.taken[path] = self.seen[path]


def plans(arrivals: Arrivals, request: Request, cfg: Given, stop: Callable[[], bool]) -> Iterator[Plan]:
    """What is to be done each time that something has arrived. What lacks its mask is looked at again."""
    from ..jobs.plan import make_plan

    said: set[str] = set()
    while not stop():
        new = arrivals.look()
        if new:
            listed = tuple(map(str, new))
            try:
                plan = make_plan(replace(request, inputs=("-",), listed=listed), cfg)
            except DiffbcpError as error:
                if error.message not in said:
                    render.failure(error)
                said.add(error.message)
            else:
                bad = [one for one in plan.bad if one.error.message not in said]
                said |= {one.error.message for one in bad}
                for path in {*new} - {one.photo for one in plan.bad}:
                    arrivals.take(path)
                yield replace(plan, bad=tuple(bad))
        until = time.monotonic() + POLL
        while not stop() and time.monotonic() < until:
            time.sleep(_SLICE)
