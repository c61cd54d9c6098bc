"""A picture too large for its memory budget: windows restored one after the other and blended."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from ..errors import InputError
from ..estimators.calibrate import Calibration, can_hold_out, pooled
from ..estimators.noise import NoiseLevel
from ..options import RunConfig
from .chains import Trace
from .convergence import Convergence
from .large import Blend, RoughGuess, Window, windows
from .outcome import Bools, Control, Floats, Outcome, Snapshot, damaged

RestoreOne = Callable[[Floats, Bools, RunConfig, str, Control], Outcome]
"""Restores the pixels and observed entries (H, W, C) of one window under its name."""

_RUNNING = "running."


@dataclass(frozen=True)
class _Past:
    """What is kept of windows that are done, beside the blend. judged: the one that converged least.

    plan: iterations and burn-in of every window, as options or a time budget chose them for the first.
    """

    plan: dict[str, int]
    seconds: float = 0.0
    traces: list[Trace] = field(default_factory=list)
    levels: list[NoiseLevel] = field(default_factory=list)
    calibrations: list[Calibration] = field(default_factory=list)
    judged: Convergence | None = None

    def with_one(self, outcome: Outcome, seconds: float) -> _Past:
        """One window more."""
        levels = [] if outcome.prior_noise is None else [outcome.prior_noise]
        calibrations = [] if outcome.calibration is None else [outcome.calibration]
        judged = [outcome.convergence] if self.judged is None else [self.judged, outcome.convergence]
        worst = min(judged, key=lambda found: found.pixels_converged)
        plan = {"iterations": outcome.cfg.iterations, "burn_in": outcome.cfg.burn_in}
        return _Past(
            plan,
            seconds,
            [*self.traces, *outcome.traces],
            [*self.levels, *levels],
            [*self.calibrations, *calibrations],
            worst,
        )

    def plain(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            "planned": self.plan,
            "seconds": self.seconds,
            "chains": [{"trace": trace.as_dict()} for trace in self.traces],
            "levels": [asdict(level) for level in self.levels],
            "calibrations": [asdict(calibration) for calibration in self.calibrations],
            "judged": None if self.judged is None else self.judged.plain(),
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> _Past:
        """Read back what `plain` gave."""
        judged = plain["judged"]
        return cls(
            plain["planned"],
            float(plain["seconds"]),
            [Trace(**chain["trace"]) for chain in plain["chains"]],
            [NoiseLevel(**level) for level in plain["levels"]],
            [Calibration(**calibration) for calibration in plain["calibrations"]],
            None if judged is None else Convergence.from_plain(judged),
        )


class _Windows:
    """The windows of one picture, those that are done, and what a checkpoint holds of them."""

    def __init__(self, pixels: Floats, observed: Bools, cfg: RunConfig, side: int, control: Control) -> None:
        # windows without a known pixel first: a checkpoint then always leaves one that has a chain
        self.all = sorted(
            windows(observed.shape[0], observed.shape[1], side),
            key=lambda window: bool(observed[window.rows, window.columns].any()),
        )
        self.pixels, self.observed, self.cfg, self.control = pixels, observed, cfg, control
        with_prior = "prior" in cfg.save and cfg.prior != "none"
        self.blend = Blend(observed.shape, with_prior=with_prior)
        self.past = _Past({"iterations": cfg.iterations, "burn_in": cfg.burn_in})
        self.running: Snapshot | None = None  # where the next window is to go on
        if control.start is not None:
            self._take_up(control.start)
        self.saved = len(self.blend.done)
        self.before, self.started = self.past.seconds, time.perf_counter()

    @property
    def seconds(self) -> float:
        """What all windows took so far, those before an interruption too."""
        return self.before + time.perf_counter() - self.started

    def save(self, running: Snapshot | None = None) -> None:
        """Write a checkpoint of the windows that are done, and of the one under way, if there is news."""
        if self.control.save is None or (running is None and self.saved == len(self.blend.done)):
            return
        tensors, plain = running if running is not None else ({}, None)
        self.control.save(
            (
                {**self.blend.tensors(), **{_RUNNING + name: value for name, value in tensors.items()}},
                {"windows": len(self.blend.done), "running": plain, **self.past.plain()},
            )
        )
        self.saved = len(self.blend.done)

    def _take_up(self, start: Snapshot) -> None:
        """Go on from a checkpoint."""
        tensors, plain = start
        if self.blend.prior is not None and "prior" not in tensors:
            raise InputError(
                "the windows that are done were not asked for --save prior",
                hint="leave it out, or no --resume to begin anew",
            )
        try:
            past = _Past.from_plain(plain)
            self.blend.take_up(tensors, self.all[: plain["windows"]])
            if plain["running"] is not None:
                inner = {n.removeprefix(_RUNNING): t for n, t in tensors.items() if n.startswith(_RUNNING)}
                self.running = (inner, plain["running"])
        except (KeyError, TypeError, ValueError) as error:
            raise damaged() from error
        then, now = past.plan, self.past.plan
        if past.traces and self.cfg.time_budget is None and then != now:
            raise InputError(
                f"the windows that are done had {then['iterations']} iterations, {then['burn_in']} of them burn-in",
                hint=f"--iterations {then['iterations']} --burn-in {then['burn_in']}, or no --resume to begin anew",
            )
        self.past = past


def restore_in_windows(
    pixels: Floats,
    observed: Bools,
    cfg: RunConfig,
    side: int,
    *,
    one: RestoreOne,
    name: str,
    control: Control,
) -> Outcome:
    """Restore overlapping windows of at most `side` pixels, each with a chain of its own, and blend them.

    A checkpoint holds the windows that are done and where the one under way stands; it is as large as the picture, so
    not every window writes one. Whole samples are not put together.
    """
    work, rough = _Windows(pixels, observed, cfg, side, control), None
    outcome: Outcome | None = None
    last_saved = time.monotonic()
    if "samples" in cfg.save:
        control.note("--save samples cannot be put together from windows and is left out")
    for window in work.all[len(work.blend.done) :]:
        place = (window.rows, window.columns)
        if not observed[place].any():
            control.note(f"nothing is known in {_called(window, work)}: it is filled with averages")
            rough = rough or RoughGuess(pixels, observed)
            work.blend.add(window, *rough.of(window))
            continue
        control.note(_called(window, work) + _time_left(work))
        try:
            outcome = _restore_one(window, work, one, name)
        except KeyboardInterrupt:
            work.save()
            raise
        work.blend.add(window, outcome.mean, outcome.std, outcome.prior_mean)
        work.past = work.past.with_one(outcome, work.seconds)
        if not outcome.finished:
            break
        if cfg.checkpoint_every and time.monotonic() - last_saved >= cfg.checkpoint_every:
            if len(work.blend.done) < len(work.all):
                work.save()
            last_saved = time.monotonic()
    assert outcome is not None
    return _together(work, outcome)


def _called(window: Window, work: _Windows) -> str:
    return f"window {window.index + 1} of {len(work.all)}"


def _time_left(work: _Windows) -> str:
    """What the windows so far say about the rest."""
    done = len(work.past.traces) // work.cfg.chains
    if not done:
        return ""
    left = work.past.seconds / done * (len(work.all) - len(work.blend.done))
    return f", about {left / 60:.0f} min left" if left >= 90 else f", about {left:.0f} s left"


def _restore_one(window: Window, work: _Windows, one: RestoreOne, name: str) -> Outcome:
    """Restore one window. The first keeps to its part of a time budget; the others have as many iterations."""
    cfg, control, place = work.cfg, work.control, (window.rows, window.columns)
    shown = np.ascontiguousarray(work.observed[place])
    calibrates = cfg.calibrate and can_hold_out(shown)
    if cfg.calibrate and not calibrates:
        control.note("too little is known in it to calibrate its uncertainty")
    inner = replace(cfg, save=(), observed="posterior", calibrate=calibrates)
    if cfg.time_budget is not None and not work.past.traces:
        inner = replace(inner, time_budget=cfg.time_budget / (len(work.all) - len(work.blend.done)))
    elif cfg.time_budget is not None:
        plan = work.past.plan
        inner = replace(inner, time_budget=None, iterations=plan["iterations"], burn_in=plan["burn_in"])
    start, work.running = work.running, None
    return one(
        np.ascontiguousarray(work.pixels[place]),
        shown,
        inner,
        f"{name}#window{window.index}",
        replace(control, start=start, save=work.save),
    )


def _together(work: _Windows, last: Outcome) -> Outcome:
    """The whole picture from its windows; last: the outcome of the last one."""
    blend, past, cfg = work.blend, work.past, work.cfg
    assert past.judged is not None
    finished = last.finished and len(blend.done) == len(work.all)
    mean, std = blend.result() if finished else blend.partial(work.pixels, work.observed)
    if cfg.observed == "keep":
        np.copyto(mean, work.pixels, where=work.observed)
        std[work.observed] = 0
    by_std = sorted(past.levels, key=lambda level: level.std)
    return replace(
        last,
        mean=mean,
        std=std,
        prior_mean=blend.prior if finished else None,
        samples=None,
        traces=past.traces,
        seconds=past.seconds,
        finished=finished,
        cfg=replace(cfg, time_budget=None, iterations=past.plan["iterations"], burn_in=past.plan["burn_in"]),
        convergence=past.judged,
        calibration=pooled(past.calibrations) if past.calibrations else None,
        prior_noise=by_std[len(by_std) // 2] if by_std else None,
    )
