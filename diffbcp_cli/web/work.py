"""The queue: one run after the other, in a thread of its own, through the same door as the command line."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DiffbcpError
from ..photos.photo import Floats
from ..watch import Progress, Watch
from .store import Run, Store

if TYPE_CHECKING:
    from torch import Tensor

PREVIEW_EVERY = 2.0  # seconds between two previews


@dataclass
class Live:
    """What is known of the run that is going on. left: seconds, by what the stage took so far."""

    stage: str = "waiting"
    done: float = 0.0
    total: float = 0.0
    numbers: Mapping[str, float] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    stage_started: float = field(default_factory=time.monotonic)
    notes: list[str] = field(default_factory=list)
    preview: Floats | None = None
    preview_version: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For the page."""
        now = time.monotonic()
        share = self.done / self.total if self.total else 0.0
        left = (now - self.stage_started) * (1 - share) / share if share > 0.02 else None
        return {
            "stage": self.stage,
            "done": self.done,
            "total": self.total,
            "noise": self.numbers.get("noise_std"),
            "seconds": now - self.started,
            "left": left,
            "notes": self.notes[-3:],
            "preview": self.preview_version,
        }


class Listening(Watch):
    """Keeps the latest of what a run says, and asks for a stop."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.live, self.stop = Live(), threading.Event()
        self.size, self.drawn = size, 0.0

    def note(self, text: str) -> None:
        """Keep a note."""
        self.live.notes.append(text)

    def warn(self, text: str) -> None:
        """Keep a warning."""
        self.live.notes.append(text)

    def progress(self, progress: Progress) -> None:
        """Keep how far it is."""
        if progress.stage != self.live.stage:
            self.live.stage_started = time.monotonic()
        self.live.stage, self.live.done, self.live.total = progress.stage, progress.done, progress.total
        self.live.numbers = dict(progress.numbers) or self.live.numbers

    def drew(self, image: Tensor) -> None:
        """Keep a copy every few seconds, unless it is that of a window."""
        from ..units import to_unit

        if tuple(image.shape[1:]) == self.size:
            self._show(lambda: to_unit(image))

    def pieced(self, picture: Callable[[], Floats]) -> None:
        """Keep the picture with the windows so far, as often."""
        self._show(picture)

    def _show(self, picture: Callable[[], Floats]) -> None:
        now = time.monotonic()
        if now - self.drawn >= PREVIEW_EVERY:
            self.live.preview, self.drawn = picture(), now
            self.live.preview_version += 1

    def cancelled(self) -> bool:
        """Whether somebody pressed cancel."""
        return self.stop.is_set()


class Worker:
    """Does what is queued. A run of an earlier server that waited is queued again."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.waiting: queue.Queue[str | None] = queue.Queue()
        self.watches: dict[str, Listening] = {}
        for run in store.runs.values():
            if run.status == "queued":
                self.add(run)
        self.thread = threading.Thread(target=self._work, name="restore", daemon=True)
        self.thread.start()

    def add(self, run: Run) -> None:
        """Queue a run."""
        item = self.store.item(run.item)
        run.status, run.message, run.hint = "queued", "", ""
        self.watches[run.id] = Listening((item.height, item.width))
        self.store.save()
        self.waiting.put(run.id)

    def cancel(self, run: Run) -> None:
        """Stop a run after its present step, or take it out of the queue."""
        if run.id in self.watches:
            self.watches[run.id].stop.set()
        if run.status == "queued":
            run.status, run.message = "interrupted", "cancelled before it began"
            self.store.save()

    def live(self, run: Run) -> Live | None:
        """What is known of a run that has not ended."""
        watch = self.watches.get(run.id)
        return None if watch is None else watch.live

    def close(self) -> None:
        """Stop after the present step, leave the rest queued, and wait for that."""
        for watch in self.watches.values():
            watch.stop.set()
        self.waiting.put(None)
        self.thread.join(timeout=60)

    def _work(self) -> None:
        while True:
            key = self.waiting.get()
            if key is None:
                return
            run = self.store.runs.get(key)
            if run is not None and run.status == "queued" and not self.watches[key].stop.is_set():
                self._restore(run, self.watches[key])
            self.watches.pop(key, None)

    def _restore(self, run: Run, watch: Listening) -> None:
        """Whatever goes wrong becomes the run's message; the next one goes on."""
        run.status, watch.live = "running", Live("starting")
        self.store.save()
        try:
            self._restore_photo(run, watch)
        except KeyboardInterrupt:
            run.status, run.message = "interrupted", "cancelled before its first draw"
        except DiffbcpError as error:
            run.status, run.message, run.hint = "failed", error.message, error.hint or ""
        except Exception as error:
            from ..jobs.report import explain

            said = explain(error)
            run.status, run.message, run.hint = "failed", said.message, said.hint or ""
        self.store.save()

    def _restore_photo(self, run: Run, watch: Listening) -> None:
        from ..jobs.job import Job
        from ..jobs.one import restore_photo
        from ..jobs.session import Session
        from ..options import check

        item = self.store.item(run.item)
        photo = Path(item.photo)
        mask = None if run.mask is None else Path(run.mask)
        job = Job(photo, mask, self.store.target(run), photo.name, max_pixels=self.store.max_pixels)
        saved = restore_photo(job, Session(check(run.options), resume=True, wait=True), watch)
        run.record = {key: saved.record.get(key) for key in ("noise", "seconds", "iterations", "mean_std")}
        run.warnings = list(saved.warnings)
        run.has_std = self.store.target(run).file("std.tiff").exists()
        run.status = "interrupted" if saved.status == "interrupted" else "done"
        if run.status == "interrupted":
            run.message = "cancelled: this is what was drawn so far"
