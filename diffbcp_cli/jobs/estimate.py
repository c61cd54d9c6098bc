"""What a run would do, cost and download, without doing it.

The model is simple and its constants were measured on one core of a 2020s processor:

    seconds = chains * iterations * (0.15 ms * rank + 13 ns * rank * entries / 3 + calls * C) + after * C
    bytes   = 250 MB + 0.9 kB * pixels, and with a prior 30 MB + 1 kB * pixels more

entries: pixels times channels. C = 3.2 us * pixels * size: one network call, where size is the number of parameters
of the network over that of the bundled one; 1.8 us where it computes in bfloat16. after: the calls that follow the
chains. Windows around damage add up. A large photograph takes what `run.memory.need` says. A GPU is faster. `--save
samples` takes memory of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import priors as weights
from ..devices import processor_has_bf16
from ..errors import DiffbcpError, ModelError
from ..estimators.refine import calls_after
from ..options import LARGE, Given, Options, asks_to_refine, draws_by_langevin, resolve, uses
from ..photos import stacks
from ..photos.masks import missing_share
from ..photos.stacks import Stack
from ..run.damage import damage_windows
from ..run.memory import kept_of_windows, need, over_budget, window_side
from ..watch import Watch
from .job import Job, Opened, Warnings, read_job
from .report import explain
from .session import resolved

_BUNDLED_PARAMETERS = 7_063_736
_PER_COMPONENT, _PER_ENTRY, _PER_CALL = 1.5e-4, 1.3e-8 / 3, 3.2e-6
_IN_BF16 = 0.55  # of the time of a call
_OF_A_PAIR = 2.6  # calls a step of the pair of chains, with its probes
_TO_START = 6  # calls before its first step
_WITH_GRADIENT = 3  # what a call with its gradient costs, in calls
_BASE, _PER_PIXEL, _PRIOR_BASE, _PRIOR_PER_PIXEL = 250e6, 900, 30e6, 1000


@dataclass(frozen=True)
class Look:
    """One photograph, looked at only.

    worked_share: of its pixels, those in windows around the damage, or all. seconds, memory: estimates. error: why it
    could not be restored.
    """

    name: str
    width: int = 0
    height: int = 0
    channels: int = 0
    missing_share: float = 0.0
    worked_share: float = 1.0
    seconds: float = 0.0
    memory: float = 0.0
    notes: tuple[str, ...] = ()
    error: DiffbcpError | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        if self.error is not None:
            return {"name": self.name, "error": self.error.message, "hint": self.error.hint}
        names = ("name", "width", "height", "channels", "missing_share", "worked_share")
        rounded = {"seconds": round(self.seconds, 3), "memory": round(self.memory), "notes": list(self.notes)}
        return {name: getattr(self, name) for name in names} | rounded


@dataclass(frozen=True)
class NeededPrior:
    """The prior of a run. download: bytes that are not here yet; 0 if all are, None if the size is not known."""

    name: str
    parameters: int | None
    download: int | None


def look(jobs: Sequence[Job], cfg: Given | Options, prior: NeededPrior | None) -> Iterator[Look]:
    """Read each photograph and its mask, and estimate what its restoration costs; nothing is written."""
    for job in jobs:
        watch = Warnings(Watch())
        try:
            stack = stacks.open_stack(job.photo, max_pixels=job.max_pixels)
            if stack is not None:
                yield _look_at_stack(job, stack, cfg, prior)
                continue
            opened = read_job(job, watch)
        except Exception as error:  # becomes a line of the overview
            yield Look(job.name, error=explain(error))
            continue
        yield _look(job.name, opened, cfg, prior, tuple(watch.heard))


def _look_at_stack(job: Job, stack: Stack, cfg: Given | Options, prior: NeededPrior | None) -> Look:
    """What a stack costs: as many times what its first page costs, all of it worked on."""
    photo = stacks.photo_of_page(stack, 0, job.photo)
    found = _look(job.name, Opened(job, photo, np.ones(photo.pixels.shape, bool)), cfg, prior, stack.notes)
    return replace(found, seconds=len(stack.pages) * found.seconds)


def _look(
    name: str, opened: Opened, cfg: Given | Options, prior: NeededPrior | None, notes: tuple[str, ...]
) -> Look:
    """What the restoration of a photograph costs: of windows around its damage, or of all of it."""
    photo, share = opened.photo, missing_share(opened.observed)
    height, width, channels = photo.height, photo.width, photo.channels
    suited = resolved(cfg, opened.observed)
    side = window_side(suited, height, width, channels)
    around = damage_windows(opened.observed, suited, side)
    if around is None:
        sizes, kept = [(height, width)], 0
        over = over_budget(suited, side, height, width, channels)
        notes += () if over is None else (over,)
    else:
        sizes, kept = around.sizes, kept_of_windows(suited, height, width, channels)
    return Look(
        name=name,
        width=width,
        height=height,
        channels=channels,
        missing_share=share,
        worked_share=sum(map(math.prod, sizes)) / (height * width),
        seconds=sum(seconds(math.prod(size), channels, suited, prior) for size in sizes),
        memory=memory(*max(sizes, key=math.prod), channels, suited, prior) + kept,
        notes=notes,
    )


def seconds(pixels: int, channels: int, cfg: Options, prior: NeededPrior | None) -> float:
    """Estimated time of one photograph on one core."""
    if cfg.time_budget is not None:
        return cfg.time_budget
    rank = cfg.rank if uses(cfg, "rank") else 0
    finish = cfg.finish if asks_to_refine(cfg) else 0
    sweep = rank * (_PER_COMPONENT + _PER_ENTRY * pixels * channels)
    size = (prior.parameters or _BUNDLED_PARAMETERS) / _BUNDLED_PARAMETERS if prior is not None else 0.0
    call = _PER_CALL * pixels * size * (_IN_BF16 if _computes_in_bf16(cfg) else 1)
    steps, start = cfg.chains * cfg.iterations, _TO_START * cfg.chains if draws_by_langevin(cfg) else 0
    return steps * (cfg.sweeps * sweep + _calls(cfg) * call) + (start + calls_after(finish, pixels)) * call


def _computes_in_bf16(cfg: Options) -> bool:
    """Whether the network does: it is asked for, or the bundled one runs on a processor that has it."""
    bundled = cfg.prior == Options.prior and cfg.precision == "auto"
    return cfg.precision == "bf16" or (bundled and processor_has_bf16())


def _calls(cfg: Options) -> float:
    """What a step costs, in network calls."""
    if draws_by_langevin(cfg):
        return _OF_A_PAIR
    if uses(cfg, "dps_zeta"):
        return _WITH_GRADIENT
    known = [name for name in ("calls", "ode_steps") if uses(cfg, name)]
    return float(getattr(cfg, known[0])) if known else 1


def memory(height: int, width: int, channels: int, cfg: Options, prior: NeededPrior | None) -> float:
    """Estimated peak of a process that restores one photograph, in bytes."""
    pixels = height * width
    if pixels > LARGE:
        return float(need(cfg, window_side(cfg, height, width, channels), height, width, channels))
    extra = 0.0 if prior is None else _PRIOR_BASE + _PRIOR_PER_PIXEL * pixels
    return _BASE + _PER_PIXEL * pixels + extra


def needed_prior(cfg: Given | Options) -> NeededPrior | None:
    """The prior that the options ask for, and whether it must be downloaded; the network is not asked."""
    cfg = resolve(cfg)
    if cfg.prior == "none":
        return None
    source = weights.find(cfg.prior)
    try:
        here = weights.fetch(source, download=False)
    except ModelError:
        if source.repo is None:
            raise
        return NeededPrior(source.name, source.parameters, source.size)
    return NeededPrior(source.name, source.parameters or here.parameters, 0)
