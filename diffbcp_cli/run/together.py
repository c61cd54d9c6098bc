"""Several chains at once on a GPU: what they ask of the prior goes through the network as one batch.

Each chain has a thread, but only one of them computes at a time. A chain that asks the prior waits, and the next one
goes on. When all wait, all are answered. So the draws of a chain are those that it would make alone, but for the
rounding of larger batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Condition, Thread, local
from typing import TypeVar

import torch
from torch import Tensor

from ..priors.base import Ask, Prior, Wrapper
from ..priors.sizes import as_levels

T = TypeVar("T")


class Together(Wrapper):
    """A prior that answers several chains at once while `all_of` runs them."""

    def __init__(self, prior: Prior) -> None:
        super().__init__(prior)
        self._round: _Round | None = None

    def all_of(self, work: Sequence[Callable[[], T]]) -> list[T]:
        """Do several things, each up to its next call of the prior; return what came of each."""
        if len(work) < 2:
            return [one() for one in work]
        results: dict[int, T] = {}

        def run(place: int) -> None:
            results[place] = work[place]()

        self._round = _Round()
        try:
            self._round.run(run, len(work))
        finally:
            self._round = None
        return [results[place] for place in range(len(work))]

    def _answer(self, ask: Ask, images: tuple[Tensor, ...], sigma: Tensor | float) -> Tensor:
        if self._round is None:
            return ask(*images, sigma)
        return self._round.ask(_Question(ask, images, as_levels(sigma, images[0])))


@dataclass
class _Question:
    """What a chain asks: images (B, C, H, W) and their levels (B,)."""

    ask: Ask
    images: tuple[Tensor, ...]
    levels: Tensor
    answer: Tensor | None = None

    @property
    def kind(self) -> tuple[object, ...]:
        """Questions of one kind can be asked as one."""
        return self.ask, *(image.shape[1:] for image in self.images)


class _Stopped(Exception):
    """Another chain has failed."""


class _Round:
    """Threads that take turns. live: those that are not done. asked: what those that wait for an answer ask."""

    def __init__(self) -> None:
        self.changed, self.mine = Condition(), local()
        self.live: list[int] = []
        self.asked: dict[int, _Question] = {}
        self.turn: int | None = None
        self.error: BaseException | None = None

    def run(self, work: Callable[[int], None], count: int) -> None:
        """Do work(0) .. work(count - 1), in turns; the first error ends all of them."""
        self.live, self.turn = list(range(count)), 0
        threads = [Thread(target=self._one, args=(work, place), daemon=True) for place in self.live]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException as error:  # Ctrl-C
            self._fail(error)
            for thread in threads:
                thread.join()
            raise
        if self.error is not None:
            raise self.error

    def _one(self, work: Callable[[int], None], place: int) -> None:
        self.mine.place = place
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

    def ask(self, question: _Question) -> Tensor:
        """Wait for the answer; called by the thread whose turn it is."""
        place: int = self.mine.place
        with self.changed:
            self.asked[place] = question
            self._pass_on()
            self._await_turn(place)
        assert question.answer is not None
        return question.answer

    def _await_turn(self, place: int) -> None:
        self.changed.wait_for(lambda: self.turn == place or self.error is not None)
        if self.error is not None:
            raise _Stopped

    def _pass_on(self) -> None:
        """Let the next thread go on that does not wait for an answer; if all do, answer them first."""
        ready = [place for place in self.live if place not in self.asked]
        if not ready and self.asked and self.error is None:
            try:
                _answer(list(self.asked.values()))
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


def _answer(questions: Sequence[_Question]) -> None:
    """Answer questions of one kind with one call."""
    for kind in dict.fromkeys(question.kind for question in questions):
        same = [question for question in questions if question.kind == kind]
        images = [torch.cat(parts) for parts in zip(*(question.images for question in same), strict=True)]
        answer: Tensor = same[0].ask(*images, torch.cat([question.levels for question in same]))
        counts = [len(question.levels) for question in same]
        for question, part in zip(same, torch.split(answer, counts), strict=True):
            question.answer = part
