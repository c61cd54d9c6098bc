"""Small photographs on one GPU, several at a time in this process: what they ask of the prior meets in one batch.

Alone they leave most of a GPU idle. Each has a thread, as the chains of one photograph have (run/together.py); only
one of them computes at a time. A photograph is restored as it would be alone, but for the rounding of larger batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from queue import SimpleQueue

from ..devices import pick_device
from ..errors import MemoryLimitError
from ..options import Options
from ..photos.size import size_of
from ..priors import LoadedPrior
from ..priors.in_memory import InMemory
from ..run.memory import need
from ..run.together import Together
from .job import Job
from .one import report_photo
from .pool import Stopping, Tell, Telling, Told, run_here
from .report import Report
from .session import Session

SMALL = 10**6  # pixels below which photographs go together
MOST = 8  # photographs at a time, unless asked otherwise
_CHANNELS = 3
ALONE = "it did not fit in memory beside others, and was restored alone"
Message = Told | tuple[Job, Report] | None
"""How far a photograph is, what came of one, or that a thread has ended."""


def small(jobs: Sequence[Job], options: Options) -> list[Job]:
    """The jobs that go together on a GPU, those of one size next to each other; none if there is no use in it.

    A time budget is for a photograph on its own.
    """
    if (
        pick_device(options.device).type == "cpu"
        or options.time_budget is not None
        or options.prior == "none"
    ):
        return []
    sizes = [(size_of(job.photo), job) for job in jobs]
    found = [(size, job) for size, job in sizes if size is not None and size[0] * size[1] < SMALL]
    return [job for _, job in sorted(found, key=lambda one: one[0])] if len(found) > 1 else []


def how_many(jobs: Sequence[Job], options: Options, asked: int) -> int:
    """How many of these small photographs go together: as many as were asked for, or as the memory budget holds."""
    sizes = [size for job in jobs if (size := size_of(job.photo)) is not None]
    most = max(need(options, None, height, width, _CHANNELS) for width, height in sizes)
    return min(len(jobs), asked or max(1, min(MOST, options.memory_budget // most)))


def run_at_once(
    jobs: Sequence[Job], session: Session, count: int, *, tell: Tell, stopping: Stopping
) -> Iterator[Report]:
    """Restore `count` photographs at a time in this process; reports come as they finish.

    One that does not fit in memory beside others is restored alone when these are done.
    """
    said: list[str] = []
    heard: SimpleQueue[Message] = SimpleQueue()
    waiting, alone = deque(jobs), list[Job]()
    prior, ours = _meeting(session, said, count)

    def work(_: int) -> None:
        while waiting and not stopping():
            job = waiting.popleft()
            report = report_photo(job, ours, Telling(job.name, heard.put, stopping))
            heard.put((job, report))
            if report.status == "interrupted":
                return

    with prior.at_work(work, count, ended=lambda: heard.put(None)):
        for message in _messages(heard, count):
            if isinstance(message, Told):
                tell(message)
            elif message[1].exit_code == MemoryLimitError.exit_code:
                alone.append(message[0])
            else:
                notes = (*message[1].notes, *said)
                said.clear()
                yield replace(message[1], notes=notes)
    for report in run_here(alone, session, tell=tell, stopping=stopping):
        yield replace(report, notes=(*report.notes, ALONE))


def _messages(heard: SimpleQueue[Message], threads: int) -> Iterator[Told | tuple[Job, Report]]:
    """What is heard of the threads, until all have ended."""
    while threads:
        message = heard.get()
        if message is None:
            threads -= 1
        else:
            yield message


def _meeting(session: Session, said: list[str], count: int) -> tuple[Together, Session]:
    """A prior that answers several photographs with one call, and a session with it. said: what it has to say."""
    prior = session.prior
    assert prior is not None
    meeting = Together(InMemory(prior.prior, said.append), said.append)
    ours = replace(session, at_once=count)
    vars(ours)["prior"] = LoadedPrior(meeting, prior.network, prior.identity, prior.dtype)
    return meeting, ours
