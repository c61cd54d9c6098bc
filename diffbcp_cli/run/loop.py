"""The loop: several chains of one problem, step by step, until they are done.

Between two steps `Chains.snapshot` returns everything, and `Chains.resume` goes on from there to the same bits. The
state of a generator is noted after each whole step, so an interruption in the middle of a step costs that step only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Generator, Tensor

from .. import tree
from ..devices import is_out_of_memory, release_memory
from ..errors import MemoryLimitError
from ..methods.base import Info, Method
from ..options import Options
from ..problem import Trace
from ..random import Seeds
from ..watch import Progress, Watch
from .convergence import Convergence, convergence
from .posterior import Moments, Posterior

MOST_FRAMES = 150  # of a film


@dataclass(frozen=True)
class Line:
    """Where one chain stands: the state of the method, and that of the generator."""

    state: Any = None
    rng: Tensor | None = None


@dataclass(frozen=True)
class Snapshot:
    """Everything that a run of chains needs to go on. planned: iterations and burn-in. seconds: spent so far."""

    lines: tuple[Line, ...]
    posterior: Posterior
    planned: dict[str, int]
    seconds: float

    @property
    def steps(self) -> int:
        """Iterations done, all chains together."""
        return sum(trace.steps for trace in self.posterior.traces)


SNAPSHOT_CLASSES: tuple[type, ...] = (Snapshot, Line, Posterior, Moments)
"""The dataclasses of a snapshot, beside those of the method's state."""


@dataclass(frozen=True)
class Checkpoints:
    """Where a run goes on from, and where it leaves snapshots. every: seconds between two; 0: only at a stop."""

    start: Any = None
    save: Callable[[Any], None] | None = None
    every: float = 0.0


AllOf = Callable[[Sequence[Callable[[], tuple[Line, Info]]]], list[tuple[Line, Info]]]
"""Does several things at once, such as `Together.all_of`."""


@dataclass
class _Running:
    rng: Generator
    state: Any = None
    rng_state: Tensor | None = None


@dataclass
class Chains:
    """Runs chains one after the other, or all at once by `together` (run/together.py).

    kept: the steps whose draws are kept whole. film: the steps of the first chain that a film shows.
    """

    method: Method[Any]
    seeds: Seeds
    count: int
    burn_in: int
    kept: range
    device: torch.device
    watch: Watch = field(default_factory=Watch)
    film: range = range(0)
    together: AllOf | None = None

    def __post_init__(self) -> None:
        """Nothing has been drawn yet."""
        parts = [str(k) if k else "" for k in range(self.count)]
        self._running = [_Running(self.seeds.generator(part, self.device)) for part in parts]
        self.posterior = Posterior(self.burn_in, traces=[Trace() for _ in parts], probes=[[] for _ in parts])

    def steps(self, until: int) -> Iterator[Info]:
        """Take each chain to `until` steps; yield what each step drew."""
        if self.together is not None:
            yield from self._steps_together(self.together, until)
        for index, line in enumerate(self._running):
            while self.posterior.traces[index].steps < until:
                yield self._add(index, self._draw(line))

    def _steps_together(self, together: AllOf, until: int) -> Iterator[Info]:
        """One step of each chain that is not at its end, then the next one of each."""
        while due := [k for k, trace in enumerate(self.posterior.traces) if trace.steps < until]:
            drawn = together([partial(self._draw, self._running[index]) for index in due])
            yield from [self._add(index, one) for index, one in zip(due, drawn, strict=True)]

    def left(self, until: int) -> int:
        """How many steps `steps(until)` will take."""
        return sum(max(0, until - trace.steps) for trace in self.posterior.traces)

    def _draw(self, line: _Running) -> tuple[Line, Info]:
        """Take a step; an interruption on the way leaves the chain where it was."""
        state = self.method.init(rng=line.rng) if line.state is None else line.state
        state, info = self._step_in_memory(state, line.rng)
        return Line(state, line.rng.get_state()), info

    def _add(self, index: int, drawn: tuple[Line, Info]) -> Info:
        """Go on from a step, and take what it drew into account."""
        line, (now, info) = self._running[index], drawn
        line.state, line.rng_state = now.state, now.rng
        step = self.posterior.traces[index].steps
        self.posterior.add(index, info, keep=step in self.kept, film=index == 0 and step in self.film)
        return info

    def _step_in_memory(self, state: Any, rng: Generator) -> tuple[Any, Info]:
        """One step. When the memory of a GPU runs out, again with smaller batches."""
        before = rng.get_state()
        while True:
            try:
                return self.method.step(state, rng=rng)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            release_memory(self.device)  # outside: an error keeps what its frames hold
            smaller = self.method.with_less_memory()
            if smaller is None:
                raise MemoryLimitError(
                    "the photograph does not fit in the device's memory",
                    hint="--device cpu, or a smaller --rank",
                )
            self.method = smaller
            self.watch.note("out of memory: going on with batches of half the size")
            rng.set_state(before)

    def states(self) -> list[Any]:
        """Where the chains stand."""
        return [line.state for line in self._running if line.state is not None]

    def snapshot(self, *, planned: dict[str, int], seconds: float) -> Snapshot:
        """Everything, as it stands after the latest whole step."""
        lines = tuple(Line(line.state, line.rng_state) for line in self._running)
        return Snapshot(lines, self.posterior, planned, seconds)

    def resume(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of chains with the same problem, seeds and options."""
        self.posterior = snapshot.posterior
        try:
            for running, line in zip(self._running, snapshot.lines, strict=True):
                if line.rng is not None:
                    running.rng.set_state(line.rng.clone())  # a view with an offset crashes torch 2.13
                    running.state, running.rng_state = line.state, line.rng
        except (TypeError, ValueError, RuntimeError, AttributeError) as error:
            raise tree.damaged() from error


def run(
    chains: Chains,
    options: Options,
    watch: Watch,
    *,
    save: Callable[[], None] | None,
    every: float,
) -> tuple[bool, Convergence]:
    """Draw until the chains have their iterations, or have converged. Return whether they got there, and R-hat."""
    until = options.iterations
    while True:
        finished = _advance(chains, until, watch, save=save, every=every)
        judged = convergence(chains.posterior)
        done = not options.until_converged or judged.converged or until >= options.max_iterations
        if not finished or done:
            return finished, judged
        more = min(options.max_iterations - until, max(1, until // 2))
        until += more
        watch.note(
            f"{100 * judged.pixels_converged:.0f} % of the pixels have converged; {more} more iterations"
        )


def kept_steps(options: Options) -> range:
    """The steps whose draws are kept whole: every `thin`-th after burn-in, however long the run becomes."""
    if "samples" not in options.save:
        return range(0)
    last = options.max_iterations if options.until_converged else options.iterations
    return range(options.burn_in, max(last, options.iterations), options.thin)


def film_steps(options: Options) -> range:
    """The steps of the first chain that a film shows: all, or evenly spaced ones of a long run."""
    if not {"film", "film-mp4"} & {*options.save}:
        return range(0)
    last = options.max_iterations if options.until_converged else options.iterations
    return range(0, max(last, options.iterations), -(-options.iterations // MOST_FRAMES))


def _advance(
    chains: Chains, until: int, watch: Watch, *, save: Callable[[], None] | None, every: float
) -> bool:
    """Take the chains to `until` steps, saving on the way; False if stopped."""
    last_saved, total = time.monotonic(), chains.left(until)
    watch.progress(Progress("sampling", 0, total))
    try:
        for done, info in enumerate(chains.steps(until), 1):
            watch.drew(info.image)
            watch.progress(Progress("sampling", done, total, _shown(chains)))
            if watch.cancelled() and chains.left(until):
                raise KeyboardInterrupt
            due = every and time.monotonic() - last_saved >= every
            if save is not None and due and chains.left(until):
                save()
                last_saved = time.monotonic()
    except KeyboardInterrupt:
        if chains.posterior.last is None:
            raise
        if save is not None:
            save()
        return False
    return True


def _shown(chains: Chains) -> dict[str, float]:
    """The latest numbers of the chain that is running, for a bar."""
    trace = [trace for trace in chains.posterior.traces if trace.steps][-1]
    return {name: values[-1] for name, values in trace.items() if values[-1] is not None}
