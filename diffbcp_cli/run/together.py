"""Several chains, or photographs, at once on a GPU: what they ask of the prior goes through the network as one batch.

Each has a thread, but only one of them computes at a time. One that asks the prior waits, and the next one goes on.
When all wait, all are answered. So each draws what it would draw alone, but for the rounding of larger batches. The
chains of a photograph may go together while the photograph goes together with others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from threading import Condition, Thread
from typing import TypeVar

import torch
from torch import Tensor

from ..devices import is_out_of_memory, release_memory
from ..errors import MemoryLimitError
from ..priors.base import Ask, Prior, Wrapper
from ..priors.sizes import as_levels

T = TypeVar("T")


class Together(Wrapper):
    """A prior that answers several at once while `all_of` runs them; one that wants a gradient is answered alone.

    say: told when memory runs out, and fewer are answered with one call from then on.
    """

    def __init__(self, prior: Prior, say: Callable[[str], None] = lambda text: None) -> None:
        super().__init__(prior)
        self.say = say
        self.most: int | None = None
        self._round: _Round | None = None

    def all_of(self, work: Sequence[Callable[[], T]]) -> list[T]:
        """Do several things, each up to its next call of the prior; return what came of each."""
        if len(work) < 2:
            return [one() for one in work]
        results: dict[int, T] = {}

        def run(place: int) -> None:
            results[place] = work[place]()

        with self.at_work(run, len(work)):
            pass
        return [results[place] for place in range(len(work))]

    @contextmanager
    def at_work(
        self, work: Callable[[int], None], count: int, *, ended: Callable[[], None] = lambda: None
    ) -> Iterator[None]:
        """Do work(0) .. work(count - 1) beside the block, whose end waits for them. ended: called by each at its end.

        The first error ends all of them; one of the block interrupts them, as Ctrl-C does.
        """
        self._round = _Round(self._answer_all)
        try:
            with self._round.running(work, count, ended):
                yield
        finally:
            self._round = None

    def _answer(self, ask: Ask, images: tuple[Tensor, ...], sigma: Tensor | float) -> Tensor:
        wants_gradient = torch.is_grad_enabled() and any(image.requires_grad for image in images)
        if self._round is None or wants_gradient:
            return ask(*images, sigma)
        return self._round.ask(_Question(ask, images, as_levels(sigma, images[0])))

    @torch.no_grad()
    def _answer_all(self, questions: Sequence[_Question]) -> None:
        """Answer those of one kind with one call."""
        for kind in dict.fromkeys(question.kind for question in questions):
            self._answer_same([question for question in questions if question.kind == kind])

    def _answer_same(self, same: Sequence[_Question]) -> None:
        """With one call, or more if memory runs out; each alone if it fails otherwise, by the fault of one maybe."""
        at_once = self.most or len(same)
        for first in range(0, len(same), at_once):
            some = same[first : first + at_once]
            error = _answer_as_one(some)
            if error is None:
                continue
            if len(some) == 1:
                some[0].error = error
                continue
            if isinstance(error, MemoryLimitError) or is_out_of_memory(error):
                self.most = len(some) // 2
                self.say(f"out of memory: the network goes on with batches of {self.most}")
                release_memory(some[0].levels.device)
                self._answer_same(some)
                continue
            for question in some:
                self._answer_same([question])


@dataclass
class _Question:
    """What one asks: images (B, C, H, W) and their levels (B,); then the answer, or what went wrong."""

    ask: Ask
    images: tuple[Tensor, ...]
    levels: Tensor
    answer: Tensor | None = None
    error: Exception | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        """Questions of one kind can be asked as one."""
        return self.ask, *(image.shape[1:] for image in self.images)


class _Stopped(BaseException):
    """Another one has failed, which ends all."""


class _Round:
    """Threads that take turns. live: those that are not done. asked: what those that wait for an answer ask."""

    def __init__(self, answer: Callable[[Sequence[_Question]], None]) -> None:
        self.answer = answer
        self.changed = Condition()
        self.mine: ContextVar[int] = ContextVar("place")  # threads that one starts have its place too
        self.live: list[int] = []
        self.asked: dict[int, _Question] = {}
        self.turn: int | None = None
        self.error: BaseException | None = None

    @contextmanager
    def running(self, work: Callable[[int], None], count: int, ended: Callable[[], None]) -> Iterator[None]:
        """Start the threads; wait for them at the end of the block."""
        self.live, self.turn = list(range(count)), 0
        threads = [
            Thread(target=copy_context().run, args=(self._one, work, place, ended), daemon=True)
            for place in self.live
        ]
        for thread in threads:
            thread.start()
        try:
            yield
            for thread in threads:
                thread.join()
        except BaseException as error:
            self._fail(error if isinstance(error, Exception) else KeyboardInterrupt())
            for thread in threads:
                thread.join()
            raise
        if self.error is not None:
            raise self.error

    def _one(self, work: Callable[[int], None], place: int, ended: Callable[[], None]) -> None:
        self.mine.set(place)
        try:
            with self.changed:
                self._await_turn(place)
            work(place)
        except _Stopped:
            pass
        except BaseException as error:
            self._fail(error)
        with self.changed:
            self.live.remove(place)
            self._pass_on()
        ended()

    def ask(self, question: _Question) -> Tensor:
        """Wait for the answer; called by the thread whose turn it is."""
        place = self.mine.get()
        with self.changed:
            self.asked[place] = question
            self._pass_on()
            self._await_turn(place)
        if question.error is not None:
            raise question.error
        assert question.answer is not None
        return question.answer

    def _await_turn(self, place: int) -> None:
        self.changed.wait_for(lambda: self.turn == place or self.error is not None)
        if self.error is not None:
            raise KeyboardInterrupt if isinstance(self.error, KeyboardInterrupt) else _Stopped

    def _pass_on(self) -> None:
        """Let the next thread go on that does not wait for an answer; if all do, answer them first."""
        ready = [place for place in self.live if place not in self.asked]
        if not ready and self.asked and self.error is None:
            try:
                self.answer(list(self.asked.values()))
            except BaseException as error:
                self.error = error
            self.asked.clear()
            ready = self.live
        self.turn = ready[0] if ready else None
        self.changed.notify_all()

    def _fail(self, error: BaseException) -> None:
        with self.changed:
            self.error = self.error or error
            self.changed.notify_all()


def _answer_as_one(same: Sequence[_Question]) -> Exception | None:
    """Answer questions of one kind; return what went wrong, if anything did."""
    try:
        images = [torch.cat(parts) for parts in zip(*(question.images for question in same), strict=True)]
        answer: Tensor = same[0].ask(*images, torch.cat([question.levels for question in same]))
    except Exception as error:
        return error.with_traceback(None)  # which would keep the batch in memory
    counts = [len(question.levels) for question in same]
    for question, part in zip(same, torch.split(answer, counts), strict=True):
        question.answer = part
    return None
