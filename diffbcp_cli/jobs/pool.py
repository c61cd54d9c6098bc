"""Work on this machine, in this process or in several."""

from __future__ import annotations

import os
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from ..errors import DiffbcpError
from ..watch import Progress, Watch
from .job import Job
from .one import report_photo
from .report import Report, failed, interrupted
from .session import Session

VISIBLE = "CUDA_VISIBLE_DEVICES"
ATTEMPTS = 2  # of a photograph whose process died
_LOOK = 0.2  # seconds between looks at the stop flag


@dataclass(frozen=True)
class Told:
    """How far the photograph of this name has come; a message of a worker."""

    name: str
    progress: Progress


Tell = Callable[[Told], None]
Stopping = Callable[[], bool]


class Telling(Watch):
    """The watch over one photograph of many."""

    def __init__(self, name: str, tell: Tell, stopping: Stopping) -> None:
        self.name, self.tell = name, tell
        self.stopping = stopping

    def progress(self, progress: Progress) -> None:
        """Pass it on, with the photograph's name."""
        self.tell(Told(self.name, progress))

    def cancelled(self) -> bool:
        """Whether all are to stop."""
        return self.stopping()


def run_here(jobs: Sequence[Job], session: Session, *, tell: Tell, stopping: Stopping) -> Iterator[Report]:
    """Restore one photograph after another in this process, with one prior for all."""
    if jobs:
        _ = session.prior  # one that cannot be loaded ends the run, not each photograph
    for job in jobs:
        if stopping():
            return
        yield report_photo(job, session, Telling(job.name, tell, stopping))


def run_processes(
    jobs: Sequence[Job], session: Session, count: int, *, gpus: int = 0, tell: Tell, stopping: Stopping
) -> Iterator[Report]:
    """Restore `count` photographs at a time, each in a process of its own; reports come as they finish.

    When a process dies, its photograph is tried once more in a new one; the others are not affected. gpus: if
    there are several, processes are dealt out to them in turn.
    """
    pool = _Pool(deque(jobs), session, min(count, len(jobs)), gpus)
    try:
        yield from pool.run(tell, stopping)
    finally:
        pool.close()


@dataclass
class _Worker:
    """One process, the pipe to it, and the photograph it works on."""

    process: SpawnProcess
    pipe: Connection
    seat: int
    job: Job


@dataclass
class _Pool:
    waiting: deque[Job]
    session: Session
    count: int
    gpus: int
    workers: list[_Worker] = field(default_factory=list)
    deaths: Counter[str] = field(default_factory=Counter)
    stopped: bool = False

    def run(self, tell: Tell, stopping: Stopping) -> Iterator[Report]:
        while self.waiting or self.workers:
            if stopping() and not self.stopped:
                self.stopped = True
                self.waiting.clear()
                for worker in self.workers:
                    _send(worker.pipe, None)
            self._hire()
            ready = wait([worker.pipe for worker in self.workers], timeout=_LOOK)
            for worker in [w for w in self.workers if w.pipe in ready]:
                report = self._listen(worker, tell)
                if report is not None:
                    yield report

    def _hire(self) -> None:
        while self.waiting and len(self.workers) < self.count:
            seat = min(set(range(self.count)) - {worker.seat for worker in self.workers})
            job = self.waiting.popleft()
            ours, theirs = get_context("spawn").Pipe()
            gpu = gpu_of(seat, self.gpus, os.environ.get(VISIBLE)) if self.gpus > 1 else None
            process = get_context("spawn").Process(
                target=_serve, args=(theirs, self.session, gpu), daemon=True
            )
            with _deaf_to_signals():
                process.start()
            theirs.close()
            _send(ours, job)
            self.workers.append(_Worker(process, ours, seat, job))

    def _listen(self, worker: _Worker, tell: Tell) -> Report | None:
        """Take one message; a report frees the worker for the next photograph."""
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._bury(worker)
        if isinstance(message, Told):
            tell(message)
            return None
        if isinstance(message, DiffbcpError):
            raise message
        if self.waiting:
            worker.job = self.waiting.popleft()
            _send(worker.pipe, worker.job)
        else:
            self._dismiss(worker)
        assert isinstance(message, Report)
        return message

    def _bury(self, worker: _Worker) -> Report | None:
        """A process died: try its photograph once more, then report it."""
        self._dismiss(worker)
        job, code = worker.job, worker.process.exitcode
        if self.stopped:
            return interrupted(job)
        self.deaths[job.name] += 1
        if self.deaths[job.name] < ATTEMPTS:
            self.waiting.appendleft(job)
            return None
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        hint = "if memory ran out: fewer --jobs, or a smaller --rank"
        return failed(job, DiffbcpError(f"its process {how}, {ATTEMPTS} times", hint=hint))

    def _dismiss(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.pipe.close()
        worker.process.join()

    def close(self) -> None:
        """End whatever still runs: after a second Ctrl-C, or when the caller stops listening."""
        for worker in self.workers:
            worker.process.kill()
        for worker in list(self.workers):
            self._dismiss(worker)


def _signals() -> list[signal.Signals]:
    hang_up = getattr(signal, "SIGHUP", None)
    return [signal.SIGINT, signal.SIGTERM, *([] if hang_up is None else [hang_up])]


@contextmanager
def _deaf_to_signals() -> Iterator[None]:
    """Block the signals that ask for a stop; a process that starts meanwhile keeps them blocked.

    Ctrl-C goes to all processes of a terminal. A worker takes seconds to start, and until it has said what it does
    about signals it would die of one with a traceback. This process gets those that come, at the end of the block.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # multiprocessing would start it in the block, and unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send(pipe: Connection, message: Job | None) -> None:
    """Send to a worker. If it has died, `_listen` will notice."""
    with suppress(OSError):
        pipe.send(message)


class _Orders:
    """What a worker hears: photographs, and None to stop. When its parent ends it stops too."""

    def __init__(self, pipe: Connection) -> None:
        self.pipe = pipe
        self.stopped = False

    def stopping(self) -> bool:
        """Whether to stop; asked between two iterations, when no photograph can be in the pipe."""
        if not self.stopped and self.pipe.poll():
            self.next()
        return self.stopped

    def next(self) -> Job | None:
        """Wait for the next photograph; None at the end."""
        try:
            job: Job | None = None if self.stopped else self.pipe.recv()
        except (EOFError, OSError):
            job = None
        self.stopped = self.stopped or job is None
        return job


def gpu_of(seat: int, gpus: int, visible: str | None) -> str:
    """The GPU of one worker, as CUDA_VISIBLE_DEVICES names it.

    gpus: how many torch sees. visible: the user's own list, if there is one; its entries are dealt out as they
    are, so that `2,3` stays on those two and names such as GPU-8f2c work too.
    """
    entries = visible.split(",") if visible is not None else [str(number) for number in range(gpus)]
    return entries[seat % gpus].strip()


def _serve(pipe: Connection, session: Session, gpu: str | None) -> None:
    """A worker's life. Signals are for the parent, which passes them on through the pipe."""
    for number in _signals():
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _signals())  # those that came meanwhile are dropped
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    orders = _Orders(pipe)
    try:
        _ = session.prior
    except DiffbcpError as error:
        pipe.send(error)
        return
    while (job := orders.next()) is not None:
        pipe.send(report_photo(job, session, Telling(job.name, pipe.send, orders.stopping)))
