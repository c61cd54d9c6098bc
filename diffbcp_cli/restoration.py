"""From an array of pixels to its restoration."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from .bcp.state import State, observe
from .bcp.stream import observe_in_chunks, observe_some
from .bcp.tensorize import Patches, tensorize
from .calibration import Calibration, HeldOut, calibrate, hold_out, is_scattered, like_missing
from .chains import Chains
from .config import RunConfig
from .convergence import Convergence, convergence
from .coupling import CouplingRule
from .devices import pick_device
from .diffusion.prior import Prior, Watched, as_masked
from .diffusion.tiles import FIT_SIDE, Fitted, as_fitted, shrinks
from .errors import InputError
from .finishing import (
    FEWEST,
    FILLS,
    TRIAL_SHARE,
    TRIAL_WINDOW,
    Choice,
    choose,
    choose_fills,
    finish_by,
)
from .large import ATOM_SWEEPS, IN_CHUNKS, LARGE, NOISE_SLACK, for_size, window_side, windows_need
from .noise_level import NoiseLevel, most_likely_noise
from .outcome import Bools, Control, Floats, Outcome, Snapshot, damaged, noise_of
from .parts import parts_share, parts_with
from .sampler import Settings, SplitGibbs, learn_atoms, make_generator
from .spread import CALLS, DRAWS, FEW_DRAWS, draw_pictures, smooth_std
from .summary import Moments
from .weights import Download, LoadedPrior, load_prior
from .windowed import restore_in_windows

SMALLEST_SIDE = 16
WITHOUT_MISFIT = 0.6  # of the tensor model's noise, where no prior has said how much of it is noise
FEWEST_ITERATIONS = 5  # that a time budget will choose
TRIAL_CALLS = 90  # on a part of the picture, for the level of the finish and for the noise; about
BATCHES_IN_BUDGET = 16  # one batch of Gram matrices takes this part of --memory-budget


def open_prior(
    cfg: RunConfig, *, announce: Callable[[Download], None] | None = None, bars: bool = False
) -> LoadedPrior | None:
    """Load the prior that a run asks for, None for `none`; announce and bars as in `load_prior`."""
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


def seed_of(seed: int, name: str) -> int:
    """A seed of one image's own, from the run's seed and the image's relative path."""
    digest = hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def settings_of(cfg: RunConfig) -> Settings:
    """The Markov kernel that the options ask for."""
    return Settings(
        rank=cfg.rank,
        block=cfg.block,
        burn_in=cfg.burn_in,
        adapt_floor=cfg.adapt_floor if cfg.adapt_rank else None,
        noise_std=None if cfg.sigma is None else 2 * cfg.sigma,
        warm_up=min(10, max(1, cfg.burn_in // 3)),
        rule=CouplingRule(cfg.coupling, cfg.rho_min, cfg.rho_max),
        solver=cfg.solver,
        calls=cfg.calls,
        sweeps=cfg.sweeps,
        budget=cfg.memory_budget // BATCHES_IN_BUDGET,
    )


def restore(
    pixels: Floats,
    observed: Bools,
    cfg: RunConfig,
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
    cfg = for_size(cfg, height, width, float(observed.mean()))
    if cfg.prior_scale == "fit" and prior is not None and as_fitted(prior) is None:
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
    started = time.perf_counter()
    device = pick_device(cfg.device)
    held = _held_out(observed, cfg, name)
    shown = observed if held is None else observed & ~held.entries
    finishes = prior is not None and cfg.finish > 0 and not shrinks(prior, *observed.shape[:2])
    trial = _trial(shown, cfg, name) if finishes and not shown.all() else None
    given = shown if trial is None else shown & ~trial
    cfg, atoms = _within_budget(pixels, given, cfg, prior, device, control, finishes=finishes)
    sampler = _sampler(pixels, given, cfg, prior, device, atoms, control.note)
    seeds = [seed_of(cfg.seed, f"{name}#{k}" if k else name) for k in range(cfg.chains)]
    kept = range(cfg.burn_in, cfg.iterations, cfg.thin) if "samples" in cfg.save else range(0)
    chains = Chains(sampler, seeds, burn_in=cfg.burn_in, kept=kept, device=device, note=control.note)
    earlier = 0.0
    if control.start is not None:
        earlier = _take_up(chains, control.start)

    def snapshot() -> Snapshot:
        tensors, plain = chains.snapshot()
        planned = {"iterations": cfg.iterations, "burn_in": cfg.burn_in}
        return tensors, {**plain, "planned": planned, "seconds": earlier + time.perf_counter() - started}

    finished, judged = _run(chains, cfg, control, snapshot)
    if chains.image.count == 0 and chains.last is not None:
        chains.image.add(chains.last)  # interrupted during burn-in: the latest draw is all there is
    entries = _Entries(observed, shown, held, trial)
    picture: _Picture | None = None
    try:
        if prior is not None and finishes and finished:
            with control.finishing() as show:
                watched = _watched(prior, cfg, pixels[..., 0].size, control, show)
                picture = _picture(chains, watched, pixels, entries, cfg, name, control)
    except KeyboardInterrupt:
        finished = False
        if control.save is not None:
            control.save(snapshot())
    if picture is None:
        picture = _picture(chains, None, pixels, entries, cfg, name, control)
    mean, std, choice = picture.mean, picture.std, picture.choice
    if cfg.observed == "keep":
        mean, std = np.where(observed, pixels, mean), np.where(observed, np.float32(0), std)
    return Outcome(
        mean=mean,
        std=std,
        prior_mean=_pixels(chains.prior_image.mean) if chains.prior_image.count else None,
        samples=picture.samples,
        traces=chains.traces,
        draws=chains.image.count,
        seconds=earlier + time.perf_counter() - started,
        finished=finished,
        cfg=cfg,
        convergence=judged,
        calibration=picture.calibration,
        finish_level=None if choice is None else choice.level / 2,
        finish_weights=None if choice is None else choice.weights,
        prior_noise=picture.noise,
    )


@dataclass(frozen=True)
class _Entries:
    """Which entries (H, W, C) play which part.

    shown: observed and not held out to calibrate by. trial: of these, held out to choose the finish by.
    """

    observed: Bools
    shown: Bools
    held: HeldOut | None
    trial: Bools | None


@dataclass(frozen=True)
class _Picture:
    """What is made of the draws, as in `Outcome`."""

    mean: Floats
    std: Floats
    samples: Floats | None
    choice: Choice | None = None
    noise: NoiseLevel | None = None
    calibration: Calibration | None = None


def _picture(
    chains: Chains,
    prior: Prior | None,
    pixels: Floats,
    entries: _Entries,
    cfg: RunConfig,
    name: str,
    control: Control,
) -> _Picture:
    """Average the draws, finish the mean by the prior if there is one, and calibrate the spread if asked to."""
    mean, std = _pixels(chains.image.mean), _pixels(chains.image.std, scale_only=True)
    samples = np.stack([_pixels(sample) for sample in chains.samples]) if chains.samples else None
    found = _Picture(mean, std, samples)
    if prior is not None:
        done = _complete(chains, prior, pixels, entries, cfg, name, control)
        if samples is not None:
            samples = samples - mean + done.mean + done.changes
        found = _Picture(done.mean, np.hypot(std, done.spread), samples, done.choice, done.noise)
    if entries.held is None:
        return found
    noise = _held_out_noise(noise_of(chains.traces, cfg.burn_in)["std"], found.noise, cfg.sigma)
    calibration = calibrate(pixels, found.mean, found.std, entries.held, noise)
    factor, mean = np.float32(calibration.factor), found.mean
    if samples is not None:
        samples = mean + factor * (samples - mean)
    if prior is not None and found.choice is not None:  # the held-out pixels have done their duty
        mean = _finish(chains, prior, pixels, entries.observed, found.choice)
    return replace(found, mean=mean, std=found.std * factor, samples=samples, calibration=calibration)


def _watched(
    prior: Prior, cfg: RunConfig, pixels: int, control: Control, show: Callable[[float], None]
) -> Prior:
    """The prior, for what comes after the draws: each call shows how far it is, and hears a wish to stop."""
    total, asked = calls_after(cfg.finish, pixels) * pixels, 0

    def before(count: int) -> None:
        nonlocal asked
        if control.stop():
            raise KeyboardInterrupt
        show(min(1.0, asked / total))
        asked += count

    return Watched(prior, before)


def _held_out_noise(tensor_noise: float, found: NoiseLevel | None, given: float | None) -> float:
    """The noise std of held-out values, in [0, 1] units: given, by the prior, or a part of the tensor model's."""
    if given is not None:
        return given
    return WITHOUT_MISFIT * tensor_noise if found is None else min(tensor_noise, found.std / 2)


def _take_up(chains: Chains, start: Snapshot) -> float:
    """Go on from a snapshot; return the seconds that it took."""
    try:
        chains.resume(*start)
        return float(start[1]["seconds"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise damaged() from error


def _trial(shown: Bools, cfg: RunConfig, name: str) -> Bools:
    """Known entries (H, W, C) by which the finish chooses its level."""
    rng = np.random.default_rng(seed_of(cfg.seed, f"{name}#trial"))
    side = min(TRIAL_WINDOW, min(shown.shape[:2]) // 4)
    return like_missing(shown, int(TRIAL_SHARE * shown.sum()), side=side, rng=rng)


@dataclass(frozen=True)
class _Completed:
    """What the prior makes of the posterior mean, (H, W, C) in [0, 1] units; levels on [-1, 1].

    spread: the std of its own draws. changes: (n, H, W, C) how far they are from their mean, for n samples.
    """

    mean: Floats
    spread: Floats
    changes: Floats
    choice: Choice
    noise: NoiseLevel | None


def _complete(
    chains: Chains,
    prior: Prior,
    pixels: Floats,
    entries: _Entries,
    cfg: RunConfig,
    name: str,
    control: Control,
) -> _Completed:
    """Finish the posterior mean by the prior, find the noise by it, and draw from it.

    Where nothing is missing the level of the finish is the noise. Elsewhere trial pixels choose it, and the noise
    is found afterwards, with the finished picture in place of what is missing.
    """
    start = chains.image.mean.float()
    values, known = _tensors(pixels, entries.shown, start.device)
    guess = 2 * noise_of(chains.traces, chains.burn_in)["std"]
    rng = make_generator(seed_of(cfg.seed, f"{name}#finish"), start.device)
    held = known if entries.trial is None else _tensors(pixels, entries.trial, start.device)[1]
    part = parts_with(held).of

    def noise_by_prior(choice: Choice) -> NoiseLevel | None:
        if cfg.sigma is not None:
            return None
        filled = finish_by(choice, prior, part(values), part(known), part(start))
        return most_likely_noise(prior, part(values), part(known), filled, guess, rng=rng)

    if entries.trial is None:
        noise = noise_by_prior(Choice(guess, 0))
        choice = Choice(guess if noise is None else noise.std, cfg.finish)
    else:
        if int(part(held).sum()) < FEWEST:
            control.note("too few pixels are known near each other to choose how strongly the prior smooths")
        choice = choose(prior, values, known, held, start, guess, calls=cfg.finish)
        noise = noise_by_prior(choice)
        if as_masked(prior) is not None:
            level, scattered = guess if noise is None else noise.std, is_scattered(entries.shown)
            choice = choose_fills(choice, prior, values, known, held, start, level, scattered=scattered)
    finished = finish_by(choice, prior, values, known, start)
    spread = Moments()
    draws: list[Floats] = []
    count = max(_draws(pixels[..., 0].size), len(chains.samples))
    for draw in islice(draw_pictures(prior, values, known, finished, choice.level, rng=rng), count):
        spread.add(draw)
        draws += [_pixels(draw)] if len(draws) < len(chains.samples) else []
    changes = np.stack(draws) - _pixels(spread.mean) if draws else np.zeros((0, *pixels.shape), np.float32)
    std = _pixels(smooth_std(spread.std.float(), known), scale_only=True)
    return _Completed(_pixels(finished), std, changes, choice, noise)


def _finish(chains: Chains, prior: Prior, pixels: Floats, shown: Bools, choice: Choice) -> Floats:
    """The posterior mean, finished: (H, W, C) in [0, 1] units."""
    start = chains.image.mean.float()
    values, known = _tensors(pixels, shown, start.device)
    return _pixels(finish_by(choice, prior, values, known, start))


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


def _held_out(observed: Bools, cfg: RunConfig, name: str) -> HeldOut | None:
    if not cfg.calibrate:
        return None
    return hold_out(observed, rng=np.random.default_rng(seed_of(cfg.seed, f"{name}#held-out")))


def _within_budget(
    pixels: Floats,
    shown: Bools,
    cfg: RunConfig,
    prior: Prior | None,
    device: torch.device,
    control: Control,
    *,
    finishes: bool,
) -> tuple[RunConfig, State | None]:
    """Choose iterations and burn-in that fit the time budget, from the measured cost of a few steps.

    The steps that are timed belong to a chain of their own, so the result is what the chosen numbers of
    iterations would have given without a budget. Atoms that were learned for them are returned, to be used again.
    A run that goes on from a checkpoint keeps its numbers.
    """
    if cfg.time_budget is None:
        return cfg, None
    if control.start is not None:
        try:
            return replace(cfg, time_budget=None, **control.start[1]["planned"]), None
        except (KeyError, TypeError) as error:
            raise damaged() from error
    started = time.perf_counter()
    sampler = _sampler(pixels, shown, cfg, prior, device, note=control.note)
    cost = _seconds_per_step(sampler, device)
    if prior is not None and finishes:
        started -= _seconds_to_finish(prior, pixels, cfg.finish, device)
    left = cfg.time_budget - (time.perf_counter() - started)
    affordable = int(left / cost / cfg.chains)
    iterations = min(cfg.iterations, max(FEWEST_ITERATIONS, affordable))
    burn_in = min(iterations - 1, round(iterations * cfg.burn_in / cfg.iterations))
    control.note(
        f"{cost:.2f} s per iteration: {iterations} iterations, {burn_in} of them burn-in, "
        f"for a budget of {cfg.time_budget:g} s"
        + (" (it is too short and will be overrun)" if affordable < iterations else "")
    )
    return replace(cfg, time_budget=None, iterations=iterations, burn_in=burn_in), sampler.atoms


def _seconds_per_step(sampler: SplitGibbs, device: torch.device) -> float:
    """Time two steps, with the prior if there is one; the two before them pay for starting up."""
    sampler.settings = replace(sampler.settings, warm_up=2)
    times: list[float] = []
    for _ in sampler.run(rng=make_generator(0, device)):
        times.append(time.perf_counter())
        if len(times) == 4:
            break
    return (times[3] - times[1]) / 2


def _seconds_to_finish(prior: Prior, pixels: Floats, calls: int, device: torch.device) -> float:
    """What the prior will take after the chains, from the time of one call."""
    started = time.perf_counter()
    prior.denoise(_tensors(pixels, np.ones(pixels.shape, bool), device)[0][None], 0.1)
    return (time.perf_counter() - started) * calls_after(calls, pixels[..., 0].size)


def calls_after(finish_calls: int, pixels: int) -> float:
    """Calls of the prior after the chains, counted by the whole picture: the finish, its level, noise, draws."""
    if finish_calls == 0:
        return 0.0
    return finish_calls + FILLS + CALLS * _draws(pixels) + TRIAL_CALLS * parts_share(math.isqrt(pixels))


def _draws(pixels: int) -> int:
    return DRAWS if pixels <= LARGE else FEW_DRAWS


def _sampler(
    pixels: Floats,
    observed: Bools,
    cfg: RunConfig,
    prior: Prior | None,
    device: torch.device,
    atoms: State | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> SplitGibbs:
    """The sampler of a picture; atoms: learned before, from the same picture and options."""
    height, width, channels = pixels.shape
    image, known = _tensors(pixels, observed, device)
    once, settings = cfg.patch_weights == "once", settings_of(cfg)
    kind: Literal["patch", "reshape"] = "reshape" if cfg.tensorize == "reshape" else "patch"
    shape = tensorize((channels, height, width), kind, patch=cfg.patch_size, stride=cfg.stride)
    if not isinstance(shape, Patches):
        return SplitGibbs(observe(image, known, shape, once=once), prior, settings)
    count = shape.right[0]
    if 0 < cfg.atom_patches < count:
        if atoms is None:
            note(f"learning atoms from {cfg.atom_patches} of {count} patches")
            rng = make_generator(seed_of(cfg.seed, "#atoms"), device)
            some = observe_some(image, known, shape, cfg.atom_patches, once=once, rng=rng)
            atoms = learn_atoms(some, settings, sweeps=ATOM_SWEEPS, rng=rng)
        settings = replace(settings, warm_up=1, noise_most=NOISE_SLACK * atoms.noise_precision**-0.5)
    if count > IN_CHUNKS:
        chunks = observe_in_chunks(image, known, shape, once=once, budget=settings.budget)
        return SplitGibbs(chunks, prior, settings, atoms)
    return SplitGibbs(observe(image, known, shape, once=once), prior, settings, atoms)


def _tensors(pixels: Floats, observed: Bools, device: torch.device) -> tuple[Tensor, Tensor]:
    """Pixels (H, W, C) as an image (C, H, W) on [-1, 1], and which are known; the others are zero."""
    known = torch.from_numpy(observed.transpose(2, 0, 1).copy()).to(device)
    clean = np.where(observed, pixels, np.float32(0.5))
    return torch.from_numpy(np.ascontiguousarray(clean.transpose(2, 0, 1))).to(device) * 2 - 1, known


def _pixels(image: Tensor, *, scale_only: bool = False) -> Floats:
    """(C, H, W) on [-1, 1] to (H, W, C) on [0, 1]; a spread is only halved."""
    values = image.permute(1, 2, 0).float().cpu().numpy() / 2
    return np.ascontiguousarray(values if scale_only else values + np.float32(0.5))
