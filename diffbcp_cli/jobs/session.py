"""From pixels to their restoration: a problem, a method, an estimator, and windows if the picture is too large."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from .. import tree
from ..devices import pick_device
from ..errors import InputError
from ..estimators import Estimator, hold_out, refines
from ..estimators import build as build_estimator
from ..estimators.mean import PosteriorMean
from ..estimators.noise import noise_before
from ..estimators.refine import calls_after, with_noise
from ..methods import Method, builder, state_classes
from ..operators.mask import masked_problem
from ..options import Given, Options, resolve
from ..priors import Download, LoadedPrior, load_prior
from ..priors.base import Prior
from ..priors.sizes import FIT_SIDE, Fitted
from ..problem import Problem, Restoration
from ..random import Seeds
from ..run.convergence import Convergence
from ..run.loop import SNAPSHOT_CLASSES, Chains, Checkpoints, Snapshot, film_steps, kept_steps, run
from ..run.memory import window_side, windows_need
from ..run.schedule import within_budget
from ..run.windows import WINDOWS_CLASSES, restore_in_windows
from ..units import Bools, Floats, level_to_signed, to_unit
from ..watch import Watch

SMALLEST_SIDE = 16
Checkpoint = tuple[tree.Tensors, dict[str, Any]]
"""Tensors by name, and plain values; `steps` among them says how many iterations were done."""


@dataclass(frozen=True)
class Resume:
    """Where a restoration goes on from, and where it leaves checkpoints; the tensors and values are `tree`'s."""

    start: Checkpoint | None = None
    save: Callable[[Checkpoint], None] | None = None


@dataclass
class Session:
    """What is the same for every photograph of a run. It crosses processes before its prior is loaded.

    given: the options that were set, or all of them. resume: go on from checkpoints where there are some.
    overwrite: restore again what is there already. wait: for another run that works on the same photograph.
    announce, bars: as in `load_prior`.
    """

    given: Given | Options
    resume: bool = False
    overwrite: bool = False
    wait: bool = False
    announce: Callable[[Download], None] | None = None
    bars: bool = False

    @property
    def usual(self) -> Options:
        """The options for a photograph of usual size."""
        return resolve(self.given)

    @cached_property
    def prior(self) -> LoadedPrior | None:
        """The prior, loaded when it is first asked for."""
        return open_prior(self.given, announce=self.announce, bars=self.bars)


def open_prior(
    given: Given | Options, *, announce: Callable[[Download], None] | None = None, bars: bool = False
) -> LoadedPrior | None:
    """Load the prior that a run asks for, None for `none`; announce and bars as in `load_prior`."""
    options = resolve(given)
    if options.prior == "none":
        return None
    return load_prior(
        options.prior,
        device=options.device,
        precision=options.precision,
        scale=options.prior_scale,
        compile=options.compile,
        announce=announce,
        bars=bars,
    )


def restore(
    pixels: Floats,
    observed: Bools,
    given: Given | Options,
    *,
    prior: Prior | None,
    name: str = "",
    watch: Watch | None = None,
    resume: Resume | None = None,
) -> Restoration:
    """Restore pixels (H, W, C) on [0, 1] from the observed ones, (H, W, C) bool.

    name: the relative path of the photograph, which with the seed fixes every draw. Ctrl-C, or a watch that asks for
    a stop, ends the run with what has been drawn so far.
    """
    watch, (height, width, channels) = watch or Watch(), observed.shape
    if min(height, width) < SMALLEST_SIDE:
        raise InputError(
            f"the image is {width}x{height}, and the smallest that can be restored is "
            f"{SMALLEST_SIDE}x{SMALLEST_SIDE}"
        )
    options = resolve(given, height=height, width=width, known=float(observed.mean()))
    if options.prior_scale == "fit" and prior is not None and prior.traits.shrinks_to is None:
        prior = Fitted(prior, size=FIT_SIDE)
    checkpoints = _checkpoints(resume or Resume(), options)
    side = window_side(options, height, width, channels)
    if side is None:
        problem = _Whole(pixels, observed, options, prior, name, watch, checkpoints)
        return _keep(problem.restore(), pixels, observed)
    need = windows_need(options, side, height, width, channels)
    if need > options.memory_budget:
        watch.note(
            f"windows of {side} pixels take about {need / 2**30:.1f} GB, more than the memory budget of "
            f"{options.memory_budget / 2**30:.1f} GB"
        )

    def one(pixels: Floats, observed: Bools, inner: Options, name: str, at: Checkpoints) -> Restoration:
        calibrates = inner.calibrate and hold_out.can_hold_out(observed)
        if inner.calibrate and not calibrates:
            watch.note("too little is known in it to calibrate its uncertainty")
        inner = replace(inner, calibrate=calibrates)
        return _Whole(pixels, observed, inner, prior, name, watch, at).restore()

    restored = restore_in_windows(
        pixels, observed, options, side, one=one, name=name, watch=watch, checkpoints=checkpoints
    )
    return _keep(restored, pixels, observed)


def _keep(restored: Restoration, pixels: Floats, observed: Bools) -> Restoration:
    """Known pixels as they were given, if so asked."""
    if restored.options.observed != "keep":
        return restored
    std = None if restored.std is None else np.where(observed, np.float32(0), restored.std)
    return replace(restored, mean=np.where(observed, pixels, restored.mean), std=std)


def _checkpoints(resume: Resume, options: Options) -> Checkpoints:
    """Snapshots of a run as checkpoints of plain tensors and values."""
    start, save, keep = None, None, resume.save
    if resume.start is not None:
        tensors, plain = resume.start
        classes = (*SNAPSHOT_CLASSES, *WINDOWS_CLASSES, *state_classes(options.method))
        start = tree.unpack(plain.get("run"), tensors, classes=classes, device=pick_device(options.device))
    if keep is not None:

        def save(snapshot: Any) -> None:
            tensors, plain = tree.pack(snapshot)
            keep((tensors, {"run": plain, "steps": snapshot.steps}))

    return Checkpoints(start, save, options.checkpoint_every)


@dataclass
class _Whole:
    """One picture, restored by chains over all of it."""

    pixels: Floats
    observed: Bools
    options: Options
    prior: Prior | None
    name: str
    watch: Watch
    checkpoints: Checkpoints

    def __post_init__(self) -> None:
        """State the problem, and take the plan of a run that goes on."""
        self.started = time.perf_counter()
        start = self.checkpoints.start
        if start is not None and not isinstance(start, Snapshot):
            raise tree.damaged()
        if start is not None and self.options.time_budget is not None:
            iterations, burn_in = (int(start.planned[name]) for name in ("iterations", "burn_in"))
            self.options = replace(self.options, time_budget=None, iterations=iterations, burn_in=burn_in)
        self.earlier = 0.0 if start is None else float(start.seconds)
        self.device = pick_device(self.options.device)
        self.seeds = Seeds(self.options.seed, self.name)
        sigma = self.options.sigma
        self.problem = masked_problem(
            self.pixels,
            self.observed,
            noise_std=None if sigma is None else level_to_signed(sigma),
            name=self.name,
            device=self.device,
        )
        self.noise = noise_before(self.problem, self.prior, self.options, self.seeds)
        if self.noise is not None:
            self.problem = replace(self.problem, noise_std=self.noise.std)

    @property
    def seconds(self) -> float:
        """Spent so far, with what came before an interruption."""
        return self.earlier + time.perf_counter() - self.started

    def restore(self) -> Restoration:
        """Build, draw, and sum up."""
        estimator = self._estimator()
        method = self._method(estimator.shown)
        options = self.options
        chains = Chains(
            method,
            self.seeds,
            options.chains,
            options.burn_in,
            kept_steps(options),
            self.device,
            self.watch,
            film=film_steps(options),
        )
        if self.checkpoints.start is not None:
            chains.resume(self.checkpoints.start)
        finished, judged = run(
            chains, options, self.watch, save=self._saving(chains), every=self.checkpoints.every
        )
        chains.posterior.close()
        restored = self._sum_up(estimator, chains, finished)
        return self._with_diagnostics(restored, chains, judged)

    def _method(self, shown: Problem) -> Method[Any]:
        """The method, with as many iterations as the time budget allows."""

        def build(options: Options) -> Method[Any]:
            return builder(options.method)(shown, self.prior, options, self.seeds, self.watch)

        self.options, method = within_budget(
            shown, self.options, build, self.watch, after=lambda: self._seconds_after(shown)
        )
        return method

    @torch.no_grad()
    def _seconds_after(self, shown: Problem) -> float:
        """What the prior will take after the chains, from the time of one call."""
        height, width = shown.y.shape[-2:]
        if self.prior is None or not refines(self.prior, self.options, height, width):
            return 0.0
        started = time.perf_counter()
        self.prior.denoise(shown.y[None], 0.1)
        return (time.perf_counter() - started) * calls_after(self.options.finish, height * width)

    def _estimator(self) -> Estimator:
        return build_estimator(
            self.problem, self.prior, self.options, self.seeds, self.watch, values=self.pixels
        )

    def _saving(self, chains: Chains) -> Callable[[], None] | None:
        save = self.checkpoints.save
        if save is None:
            return None
        planned = {"iterations": self.options.iterations, "burn_in": self.options.burn_in}
        return lambda: save(chains.snapshot(planned=planned, seconds=self.seconds))

    def _sum_up(self, estimator: Estimator, chains: Chains, finished: bool) -> Restoration:
        """The estimator's word; after an interruption, the plain mean of what has been drawn."""
        if finished:
            try:
                return replace(estimator(chains.posterior), options=self.options)
            except KeyboardInterrupt:
                save = self._saving(chains)
                if save is not None:
                    save()
        plain = PosteriorMean(self.problem, self.options)(chains.posterior)
        return replace(plain, finished=False)

    def _with_diagnostics(self, restored: Restoration, chains: Chains, judged: Convergence) -> Restoration:
        posterior, warning = chains.posterior, judged.warning()
        if self.noise is not None:
            restored = with_noise(restored, self.noise)
        maps = {"rhat": judged.rhat_map, "ess": judged.ess_map}
        found = {name: values for name, values in maps.items() if values is not None}
        if "prior" in self.options.save and posterior.prior_image.count:
            found["prior"] = to_unit(posterior.prior_image.mean)
        trace, numbers = posterior.traces[0], {**restored.numbers, "diagnostics": judged.as_dict()}
        if "rank" in trace:
            numbers["rank"] = {"last": trace["rank"][-1], "active": trace["active_rank"][-1]}
            numbers["tensor_noise"] = posterior.noise()
        return replace(
            restored,
            frames=torch.stack(posterior.frames).numpy() if posterior.frames else None,
            traces=tuple(posterior.traces),
            maps={**restored.maps, **found},
            numbers=numbers,
            warnings=() if warning is None else (warning,),
            seconds=self.seconds,
        )
