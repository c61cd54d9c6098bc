"""Work on this machine: in this process, or in several that live and die by themselves."""

from __future__ import annotations

import os
import signal
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from ..devices import use_threads
from ..errors import DiffbcpError
from .one import Job
from .session import open_prior
from .work import Report, Step, Stopping, Task, Tell, failed, restore_job

VISIBLE = "CUDA_VISIBLE_DEVICES"
ATTEMPTS = 2  # of a photograph whose process died
_LOOK = 0.2  # seconds between looks at the stop flag


def run_here(jobs: Sequence[Job], task: Task, *, tell: Tell, stopping: Stopping) -> Iterator[Report]:
    """Restore one photograph after another in this process, with one prior for all."""
    if not jobs:
        return
    use_threads(task.usual.threads)
    prior = open_prior(task.cfg)
    for job in jobs:
        if stopping():
            return
        yield restore_job(job, task, prior, tell=tell, stopping=stopping)


def run_processes(
    jobs: Sequence[Job], task: Task, count: int, *, gpus: int = 0, tell: Tell, stopping: Stopping
) -> Iterator[Report]:
    """Restore `count` photographs at a time, each in a process of its own; reports come as they finish.

    A process that dies takes nothing with it: its photograph is tried once more in a new one. gpus: if more
    than one, processes are dealt out to them in turn.
    """
    pool = _Pool(deque(jobs), task, min(count, len(jobs)), gpus)
    try:
        yield from pool.run(tell, stopping)
    finally:
        pool.close()


@dataclass
class _Worker:
    """One process, the pipe to it, and what it is at."""

    process: SpawnProcess
    pipe: Connection
    seat: int
    job: Job


@dataclass
class _Pool:
    waiting: deque[Job]
    task: Task
    count: int
    gpus: int
    workers: list[_Worker] = field(default_factory=list)
    deaths: Counter[str] = field(default_factory=Counter)

    def run(self, tell: Tell, stopping: Stopping) -> Iterator[Report]:
        told = False
        while self.waiting or self.workers:
            if stopping() and not told:
                told = True
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
            process = get_context("spawn").Process(target=_serve, args=(theirs, self.task, gpu), daemon=True)
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
        if isinstance(message, Step):
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
        """End whatever still runs: after a second Ctrl-C, or when the caller has had enough."""
        for worker in self.workers:
            worker.process.kill()
        for worker in list(self.workers):
            self._dismiss(worker)


def _send(pipe: Connection, message: Job | None) -> None:
    """Send to a worker; one that has died is found out when it is listened to."""
    with suppress(OSError):
        pipe.send(message)


class _Orders:
    """What a worker hears: photographs, and None to stop; the end of the parent is an order to stop too."""

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


def _serve(pipe: Connection, task: Task, gpu: str | None) -> None:
    """A worker's life. Signals are for the parent, which passes them on through the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if gpu is not None:
        os.environ[VISIBLE] = gpu
    orders = _Orders(pipe)
    use_threads(task.usual.threads)
    try:
        prior = open_prior(task.cfg)
    except DiffbcpError as error:
        pipe.send(error)
        return
    while (job := orders.next()) is not None:
        pipe.send(restore_job(job, task, prior, tell=pipe.send, stopping=orders.stopping))
