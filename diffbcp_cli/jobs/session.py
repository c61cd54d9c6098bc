"""From an array of pixels to its restoration."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..devices import pick_device
from ..errors import InputError
from ..estimators.completion import Entries, Picture, picture_of, watched
from ..options import Given, Options, RunConfig, resolve
from ..priors import Download, LoadedPrior, load_prior
from ..priors.base import Prior
from ..priors.sizes import FIT_SIDE, Fitted
from ..run.budget import within_budget
from ..run.chains import Chains
from ..run.convergence import Convergence, convergence
from ..run.kernel import pixels_of, sampler_of, seed_of
from ..run.large import window_side, windows_need
from ..run.outcome import Bools, Control, Floats, Outcome, Snapshot, damaged
from ..run.windows import restore_in_windows

SMALLEST_SIDE = 16


@dataclass
class Session:
    """What is the same for every photograph of a run. It crosses processes before its prior is loaded.

    given: the options that were set, or all of them. resume: go on from checkpoints where there are some.
    overwrite: restore again what is there already. wait: for another run that is at the same photograph.
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
    cfg: Given | Options, *, announce: Callable[[Download], None] | None = None, bars: bool = False
) -> LoadedPrior | None:
    """Load the prior that a run asks for, None for `none`; announce and bars as in `load_prior`."""
    cfg = resolve(cfg)
    if cfg.prior == "none":
        return None
    return load_prior(
        cfg.prior,
        device=cfg.device,
        precision=cfg.precision,
        scale=cfg.prior_scale,
        compile=cfg.compile,
        announce=announce,
        bars=bars,
    )


def restore(
    pixels: Floats,
    observed: Bools,
    cfg: Given | Options,
    *,
    prior: Prior | None,
    name: str = "",
    control: Control | None = None,
) -> Outcome:
    """Restore pixels (H, W, C) on [0, 1] from the observed ones, (H, W, C) bool; see `Outcome`.

    name: the image's relative path, which with the seed fixes every draw. Ctrl-C ends the run with what has
    been drawn so far.
    """
    control, (height, width, channels) = control or Control(), observed.shape
    if min(height, width) < SMALLEST_SIDE:
        raise InputError(
            f"the image is {width}x{height}, and the smallest that can be restored is "
            f"{SMALLEST_SIDE}x{SMALLEST_SIDE}"
        )
    cfg = resolve(cfg, height=height, width=width, known=float(observed.mean()))
    if cfg.prior_scale == "fit" and prior is not None and prior.traits.shrinks_to is None:
        prior = Fitted(prior, size=FIT_SIDE)

    def one(pixels: Floats, observed: Bools, cfg: RunConfig, name: str, control: Control) -> Outcome:
        return _restore_whole(pixels, observed, cfg, prior=prior, name=name, control=control)

    side = window_side(cfg, height, width, channels)
    if side is None:
        return one(pixels, observed, cfg, name, control)
    need = windows_need(cfg, side, height, width, channels)
    if need > cfg.memory_budget:
        control.note(
            f"windows of {side} pixels take about {need / 2**30:.1f} GB, more than the memory budget of "
            f"{cfg.memory_budget / 2**30:.1f} GB"
        )
    return restore_in_windows(pixels, observed, cfg, side, one=one, name=name, control=control)


def _restore_whole(
    pixels: Floats, observed: Bools, cfg: RunConfig, *, prior: Prior | None, name: str, control: Control
) -> Outcome:
    """Restore by chains over the whole picture."""
    started, device = time.perf_counter(), pick_device(cfg.device)
    shrunk = prior is not None and prior.traits.shrinks(*observed.shape[:2])
    finisher = prior if cfg.finish > 0 and not shrunk else None
    entries = Entries.split(observed, cfg, name, finishes=finisher is not None)
    given = entries.given
    cfg, atoms = within_budget(pixels, given, cfg, prior, device, control, finishes=finisher is not None)
    sampler = sampler_of(pixels, given, cfg, prior, device, atoms, control.note)
    seeds = [seed_of(cfg.seed, f"{name}#{k}" if k else name) for k in range(cfg.chains)]
    kept = range(cfg.burn_in, cfg.iterations, cfg.thin) if "samples" in cfg.save else range(0)
    chains = Chains(sampler, seeds, burn_in=cfg.burn_in, kept=kept, device=device, note=control.note)
    earlier = 0.0 if control.start is None else _take_up(chains, control.start)

    def snapshot() -> Snapshot:
        tensors, plain = chains.snapshot()
        planned = {"iterations": cfg.iterations, "burn_in": cfg.burn_in}
        return tensors, {**plain, "planned": planned, "seconds": earlier + time.perf_counter() - started}

    finished, judged = _run(chains, cfg, control, snapshot)
    if chains.image.count == 0 and chains.last is not None:
        chains.image.add(chains.last)  # interrupted during burn-in: the latest draw is all there is
    picture: Picture | None = None
    try:
        if finisher is not None and finished:
            with control.finishing() as show:
                by = watched(finisher, cfg, pixels[..., 0].size, control, show)
                picture = picture_of(chains, by, pixels, entries, cfg, name, control)
    except KeyboardInterrupt:
        finished = False
        if control.save is not None:
            control.save(snapshot())
    if picture is None:
        picture = picture_of(chains, None, pixels, entries, cfg, name, control)
    seconds = earlier + time.perf_counter() - started
    return _outcome(picture, chains, pixels, observed, cfg, judged, seconds=seconds, finished=finished)


def _outcome(
    picture: Picture,
    chains: Chains,
    pixels: Floats,
    observed: Bools,
    cfg: RunConfig,
    judged: Convergence,
    *,
    seconds: float,
    finished: bool,
) -> Outcome:
    """All that is known after a run; known pixels as they were given, if so asked."""
    mean, std, choice = picture.mean, picture.std, picture.choice
    if cfg.observed == "keep":
        mean, std = np.where(observed, pixels, mean), np.where(observed, np.float32(0), std)
    return Outcome(
        mean=mean,
        std=std,
        prior_mean=pixels_of(chains.prior_image.mean) if chains.prior_image.count else None,
        samples=picture.samples,
        traces=chains.traces,
        draws=chains.image.count,
        seconds=seconds,
        finished=finished,
        cfg=cfg,
        convergence=judged,
        calibration=picture.calibration,
        finish_level=None if choice is None else choice.level / 2,
        finish_weights=None if choice is None else choice.weights,
        prior_noise=picture.noise,
    )


def _take_up(chains: Chains, start: Snapshot) -> float:
    """Go on from a snapshot; return the seconds that it took."""
    try:
        chains.resume(*start)
        return float(start[1]["seconds"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise damaged() from error


def _run(
    chains: Chains, cfg: RunConfig, control: Control, snapshot: Callable[[], Snapshot]
) -> tuple[bool, Convergence]:
    """Draw until the chains have their iterations, or have converged; whether they got there, and R-hat."""
    until, finished = cfg.iterations, True
    while True:
        finished = _advance(chains, until, cfg, control, snapshot)
        judged = convergence(chains)
        if not finished or not cfg.until_converged or judged.converged or until >= cfg.max_iterations:
            return finished, judged
        more = min(cfg.max_iterations - until, max(1, until // 2))
        until += more
        control.note(
            f"{100 * judged.pixels_converged:.0f} % of the pixels have converged; {more} more iterations"
        )


def _advance(
    chains: Chains, until: int, cfg: RunConfig, control: Control, snapshot: Callable[[], Snapshot]
) -> bool:
    """Take the chains to `until` steps, saving checkpoints; False if stopped on the way."""
    last_saved = time.monotonic()
    try:
        for _ in control.wrap(chains.steps(until), chains.left(until)):
            if control.stop() and chains.left(until):
                raise KeyboardInterrupt
            due = cfg.checkpoint_every and time.monotonic() - last_saved >= cfg.checkpoint_every
            if control.save is not None and due and chains.left(until):
                control.save(snapshot())
                last_saved = time.monotonic()
    except KeyboardInterrupt:
        if chains.last is None:
            raise
        if control.save is not None:
            control.save(snapshot())
        return False
    return True
