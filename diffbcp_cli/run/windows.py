"""A photograph too large for its memory budget: overlapping windows, restored one after the other and blended."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..options import Options
from ..problem import Restoration, Trace
from ..units import Bools, Floats
from ..watch import Watch
from .blend import Blend, RoughGuess, Window
from .loop import Checkpoints, Snapshot
from .pooling import Part, pool

_MOST_NOTES = 12  # on the way, of about as many windows
RestoreOne = Callable[[Floats, Bools, Options, str, Checkpoints], Restoration]
"""Restores the pixels and observed entries (H, W, C) of one window under its name."""


@dataclass(frozen=True)
class Past:
    """What is kept of windows that are done, beside the blend.

    plan: iterations and burn-in of every window, as the options or a time budget chose them for the first.
    """

    plan: dict[str, int]
    seconds: float = 0.0
    parts: list[Part] = field(default_factory=list)

    def with_one(self, restored: Restoration, seconds: float) -> Past:
        """One window more."""
        plan = {"iterations": restored.options.iterations, "burn_in": restored.options.burn_in}
        return Past(plan, seconds, [*self.parts, Part.of(restored)])


@dataclass(frozen=True)
class WindowsSnapshot:
    """Everything that a run in windows needs to go on: how many are done, their blend, and the one under way."""

    done: int
    mean: Floats
    var: Floats
    prior: Floats | None
    past: Past
    running: Snapshot | None

    @property
    def steps(self) -> int:
        """Iterations done, all windows together."""
        past = sum(Trace(trace).steps for part in self.past.parts for trace in part.traces)
        return past + (0 if self.running is None else self.running.steps)


WINDOWS_CLASSES: tuple[type, ...] = (WindowsSnapshot, Past, Part)


class _Windows:
    """The windows of one picture, those that are done, and what a checkpoint holds of them."""

    def __init__(
        self,
        pixels: Floats,
        observed: Bools,
        options: Options,
        cut: Sequence[Window],
        checkpoints: Checkpoints,
    ) -> None:
        # windows without a known pixel come first: a checkpoint then always leaves one that has a chain
        self.all = sorted(
            cut,
            key=lambda window: bool(observed[window.rows, window.columns].any()),
        )
        self.pixels, self.observed, self.options, self.checkpoints = pixels, observed, options, checkpoints
        with_prior = "prior" in options.save and options.prior != "none"
        self.blend = Blend(observed.shape, with_prior=with_prior)
        self.past = Past({"iterations": options.iterations, "burn_in": options.burn_in})
        self.running: Snapshot | None = None  # where the next window goes on
        if checkpoints.start is not None:
            self._resume(checkpoints.start)
        self.saved = len(self.blend.done)
        self.before, self.started = self.past.seconds, time.perf_counter()
        self.due = time.monotonic() + checkpoints.every

    @staticmethod
    def area(some: Sequence[Window]) -> int:
        """Of some windows together."""
        return sum(window.share.size for window in some)

    @property
    def seconds(self) -> float:
        """What all windows took so far, with those before an interruption."""
        return self.before + time.perf_counter() - self.started

    def save(self, running: Snapshot | None = None) -> None:
        """Save a checkpoint of the windows that are done, and of the one under way, if there is news."""
        if self.checkpoints.save is None or (running is None and self.saved == len(self.blend.done)):
            return
        blend = self.blend
        snapshot = WindowsSnapshot(len(blend.done), blend.mean, blend.var, blend.prior, self.past, running)
        self.checkpoints.save(snapshot)
        self.saved = len(blend.done)

    def save_if_due(self) -> None:
        """Save a checkpoint if it is time for one and there is more to do."""
        if self.checkpoints.every and time.monotonic() >= self.due:
            if len(self.blend.done) < len(self.all):
                self.save()
            self.due = time.monotonic() + self.checkpoints.every

    def _resume(self, start: WindowsSnapshot) -> None:
        """Go on from a checkpoint."""
        if self.blend.prior is not None and start.prior is None:
            raise InputError(
                "the windows that are done were not asked for --save prior",
                hint="leave it out, or no --resume to begin anew",
            )
        then, now = start.past.plan, self.past.plan
        if start.past.parts and self.options.time_budget is None and then != now:
            raise InputError(
                f"the windows that are done had {then['iterations']} iterations, {then['burn_in']} of them burn-in",
                hint=f"--iterations {then['iterations']} --burn-in {then['burn_in']}, or no --resume to begin anew",
            )
        self.blend.resume(start.mean, start.var, start.prior, self.all[: start.done])
        self.past, self.running = start.past, start.running


def restore_in_windows(
    pixels: Floats,
    observed: Bools,
    options: Options,
    cut: Sequence[Window],
    *,
    one: RestoreOne,
    name: str,
    watch: Watch,
    checkpoints: Checkpoints,
) -> Restoration:
    """Restore windows of the picture, each with a chain of its own, and blend them; elsewhere it stays as it is.

    A checkpoint holds the windows that are done and where the one under way stands. It is as large as the picture, so
    not every window writes one. Whole samples are not put together.
    """
    work, rough = _Windows(pixels, observed, options, cut, checkpoints), None
    restored: Restoration | None = None
    for kind in {"samples", "film", "film-mp4"} & {*options.save}:
        watch.note(f"--save {kind} cannot be put together from windows and is left out")
    for window in work.all[len(work.blend.done) :]:
        place = (window.rows, window.columns)
        if not observed[place].any():
            watch.note(f"nothing is known in {_called(window, work)}: it is filled with averages")
            rough = rough or RoughGuess(pixels, observed)
            work.blend.add(window, *rough.of(window))
            continue
        if len(work.blend.done) % -(-len(work.all) // _MOST_NOTES) == 0:
            watch.note(_called(window, work) + _time_left(work))
        try:
            restored = _restore_one(window, work, one, name)
        except KeyboardInterrupt:
            work.save()
            raise
        std = np.zeros_like(restored.mean) if restored.std is None else restored.std
        work.blend.add(window, restored.mean, std, restored.maps.get("prior"))
        work.past = work.past.with_one(restored, work.seconds)
        watch.pieced(lambda: work.blend.partial(pixels, observed)[0])
        if not restored.finished:
            break
        work.save_if_due()
    assert restored is not None
    together = _together(work, finished=restored.finished and len(work.blend.done) == len(work.all))
    return together if restored.std is not None else replace(together, std=None)


def _called(window: Window, work: _Windows) -> str:
    return f"window {window.index + 1} of {len(work.all)}"


def _time_left(work: _Windows) -> str:
    """What the windows so far say about the rest."""
    done = len(work.past.parts)
    if not done:
        return ""
    behind, ahead = work.area(work.blend.done[-done:]), work.area(work.all[len(work.blend.done) :])
    left = work.past.seconds / behind * ahead
    return f", about {left / 60:.0f} min left" if left >= 90 else f", about {left:.0f} s left"


def _restore_one(window: Window, work: _Windows, one: RestoreOne, name: str) -> Restoration:
    """Restore one window. The first keeps to its share of a time budget; the others have as many iterations."""
    options, place = work.options, (window.rows, window.columns)
    save = ("prior",) if work.blend.prior is not None else ()
    inner = replace(options, save=save, observed="posterior")
    if options.time_budget is not None and not work.past.parts:
        share = work.area([window]) / work.area(work.all[len(work.blend.done) :])
        inner = replace(inner, time_budget=options.time_budget * share)
    elif options.time_budget is not None:
        inner = replace(inner, time_budget=None, **_numbers(work.past.plan))
    start, work.running = work.running, None
    return one(
        np.ascontiguousarray(work.pixels[place]),
        np.ascontiguousarray(work.observed[place]),
        inner,
        f"{name}#window{window.index}",
        Checkpoints(start, work.save, work.checkpoints.every),
    )


def _numbers(plan: Mapping[str, int]) -> dict[str, Any]:
    return {"iterations": plan["iterations"], "burn_in": plan["burn_in"]}


def _together(work: _Windows, *, finished: bool) -> Restoration:
    """The whole picture from its windows."""
    blend, past = work.blend, work.past
    mean, std = blend.result() if finished else blend.partial(work.pixels, work.observed)
    options = replace(work.options, time_budget=None, **_numbers(past.plan))
    pooled = pool(past.parts, options.burn_in)
    maps = dict(pooled.maps)
    if finished and blend.prior is not None:
        maps["prior"] = np.where(blend.shares() > 0, blend.prior, work.pixels)
    return Restoration(
        mean=mean,
        std=std,
        noise=pooled.noise or None,
        options=options,
        traces=tuple(Trace(trace) for trace in pooled.traces),
        maps=maps,
        numbers=pooled.numbers,
        warnings=pooled.warnings,
        seconds=past.seconds,
        finished=finished,
    )
