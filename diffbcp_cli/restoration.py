"""From an array of pixels to its restoration."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .bcp.state import State, observe
from .bcp.stream import observe_in_chunks, observe_some
from .bcp.tensorize import Patches, tensorize
from .calibration import Calibration, HeldOut, calibrate, can_hold_out, hold_out, is_scattered, like_missing
from .chains import Chains, Trace
from .config import RunConfig
from .convergence import Convergence, convergence
from .coupling import CouplingRule
from .devices import pick_device
from .diffusion.prior import Prior, as_masked
from .diffusion.tiles import shrinks
from .errors import InputError
from .finishing import (
    FILLS,
    TRIAL_SHARE,
    TRIAL_WINDOW,
    Choice,
    choose,
    choose_fills,
    finish_by,
    parts,
    parts_share,
)
from .large import (
    ATOM_SWEEPS,
    IN_CHUNKS,
    LARGE,
    NOISE_SLACK,
    Blend,
    RoughGuess,
    Window,
    for_size,
    window_side,
    windows,
)
from .noise_level import NoiseLevel, most_likely_noise
from .sampler import Draw, Settings, SplitGibbs, learn_atoms, make_generator
from .spread import CALLS, DRAWS, FEW_DRAWS, draw_pictures, smooth_std
from .summary import Moments
from .weights import Download, LoadedPrior, load_prior

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Wrap = Callable[[Iterable[Draw], int], Iterable[Draw]]
Snapshot = tuple[dict[str, Tensor], dict[str, Any]]

SMALLEST_SIDE = 16
WITHOUT_MISFIT = 0.6  # of the tensor model's noise, where no prior has said how much of it is noise
FEWEST_ITERATIONS = 5  # that a time budget will choose
TRIAL_CALLS = 90  # on a part of the picture, for the level of the finish and for the noise; about
BATCHES_IN_BUDGET = 16  # one batch of Gram matrices takes this part of --memory-budget


@dataclass(frozen=True)
class Outcome:
    """A restoration, arrays (H, W, C) in [0, 1] units.

    mean, std: over the draws after burn-in. If there is a prior it finishes the mean (finishing.py), at noise level
    finish_level and with finish_weights, and the variance of its own draws (spread.py) is added.
    prior_mean: the mean of the draws of the prior's image.
    prior_noise: the noise level by the prior (noise_level.py), if there is one and none was given.
    samples: (n, H, W, C) every `thin`-th draw, only if asked for. trace: of the first chain, traces: of all.
    finished: False after an interruption. cfg: the options that were used, as a time budget chose them.
    """

    mean: Floats
    std: Floats
    prior_mean: Floats | None
    samples: Floats | None
    traces: list[Trace]
    draws: int
    seconds: float
    finished: bool
    cfg: RunConfig
    convergence: Convergence
    calibration: Calibration | None
    finish_level: float | None
    finish_weights: tuple[float, ...] | None
    prior_noise: NoiseLevel | None

    @property
    def trace(self) -> Trace:
        """What happened at each step of the first chain."""
        return self.traces[0]

    def noise(self, burn_in: int) -> dict[str, float]:
        """The inferred noise std with its 90 % interval, in [0, 1] units: the prior's, or the tensor model's."""
        found = self.prior_noise
        if found is None:
            return self.tensor_noise(burn_in)
        return {"std": found.std / 2, "lower": found.lower / 2, "upper": found.upper / 2}

    def tensor_noise(self, burn_in: int) -> dict[str, float]:
        """The tensor model's noise, which also holds what its components cannot explain."""
        return _noise(self.traces, burn_in)


@dataclass(frozen=True)
class Control:
    """How the outside takes part in a run: a bar around the draws, a wish to stop, checkpoints, talk.

    wrap: stands around the iterator of draws and is told how many there will be. stop: asked after each
    draw. start: a snapshot to go on from. save: called with a snapshot every cfg.checkpoint_every seconds and
    at an interruption. note: hears what was decided.
    """

    wrap: Wrap = lambda draws, total: draws
    stop: Callable[[], bool] = lambda: False
    start: Snapshot | None = None
    save: Callable[[Snapshot], None] | None = None
    note: Callable[[str], None] = lambda text: None


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
    side = window_side(cfg, height, width, channels)
    if side is not None:
        return _restore_in_windows(pixels, observed, cfg, side, prior=prior, name=name, control=control)
    return _restore_whole(pixels, observed, cfg, prior=prior, name=name, control=control)


def _restore_in_windows(
    pixels: Floats,
    observed: Bools,
    cfg: RunConfig,
    side: int,
    *,
    prior: Prior | None,
    name: str,
    control: Control,
) -> Outcome:
    """Restore overlapping windows one after the other, each with a chain of its own, and blend them.

    A checkpoint holds the windows that are done; it is as large as the picture, so not every window writes one.
    Whole samples and the prior's mean are not put together.
    """
    started, blend, past = time.perf_counter(), Blend(observed.shape), _Windows()
    # windows without a known pixel first: a checkpoint then always leaves one that has a chain
    parts = sorted(
        windows(observed.shape[0], observed.shape[1], side),
        key=lambda window: bool(observed[window.rows, window.columns].any()),
    )
    rough: RoughGuess | None = None
    inner = replace(cfg, save=(), time_budget=cfg.time_budget and cfg.time_budget / len(parts))
    outcome: Outcome | None = None
    for left_out in sorted({"samples", "prior"} & set(cfg.save)):
        control.note(f"--save {left_out} cannot be put together from windows and is left out")
    if control.start is not None:
        past = _take_up_windows(blend, parts, control.start)
    earlier, saved, last_saved = past.seconds, len(blend.done), time.monotonic()

    def save() -> None:
        if control.save is not None and saved < len(blend.done) < len(parts):
            control.save((blend.tensors(), {"windows": len(blend.done), **past.plain()}))

    for window in parts[len(blend.done) :]:
        place = (window.rows, window.columns)
        shown = np.ascontiguousarray(observed[place])
        if not shown.any():
            control.note(
                f"nothing is known in window {window.index + 1} of {len(parts)}: it is filled with averages"
            )
            rough = rough or RoughGuess(pixels, observed)
            blend.add(window, *rough.of(window))
            continue
        control.note(f"window {window.index + 1} of {len(parts)}, {side} pixels wide at most")
        calibrates = cfg.calibrate and can_hold_out(shown)
        if cfg.calibrate and not calibrates:
            control.note("too little is known in it to calibrate its uncertainty")
        try:
            outcome = _restore_whole(
                np.ascontiguousarray(pixels[place]),
                shown,
                replace(inner, calibrate=calibrates),
                prior=prior,
                name=f"{name}#window{window.index}",
                control=replace(control, start=None, save=None),
            )
        except KeyboardInterrupt:
            save()
            raise
        if not outcome.finished:
            save()
        blend.add(window, outcome.mean, outcome.std)
        past = past.with_one(outcome, earlier + time.perf_counter() - started)
        if not outcome.finished:
            break
        if cfg.checkpoint_every and time.monotonic() - last_saved >= cfg.checkpoint_every:
            save()
            saved, last_saved = len(blend.done), time.monotonic()
    assert outcome is not None
    assert past.judged is not None
    finished = outcome.finished and len(blend.done) == len(parts)
    mean, std = blend.result() if finished else blend.partial(pixels, observed)
    by_std = sorted(past.levels, key=lambda level: level.std)
    return replace(
        outcome,
        mean=mean,
        std=std,
        prior_mean=None,
        samples=None,
        traces=past.traces,
        seconds=past.seconds,
        finished=finished,
        cfg=replace(outcome.cfg, save=cfg.save),
        convergence=past.judged,
        prior_noise=by_std[len(by_std) // 2] if by_std else None,
    )


@dataclass(frozen=True)
class _Windows:
    """What is kept of windows that are done, beside the blend. judged: the one that converged least."""

    seconds: float = 0.0
    traces: list[Trace] = field(default_factory=list)
    levels: list[NoiseLevel] = field(default_factory=list)
    judged: Convergence | None = None

    def with_one(self, outcome: Outcome, seconds: float) -> _Windows:
        """One window more."""
        levels = [] if outcome.prior_noise is None else [outcome.prior_noise]
        judged = [outcome.convergence] if self.judged is None else [self.judged, outcome.convergence]
        worst = min(judged, key=lambda found: found.pixels_converged)
        return _Windows(seconds, [*self.traces, *outcome.traces], [*self.levels, *levels], worst)

    def plain(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return {
            "seconds": self.seconds,
            "chains": [{"trace": trace.as_dict()} for trace in self.traces],
            "levels": [asdict(level) for level in self.levels],
            "judged": None if self.judged is None else self.judged.plain(),
        }


def _take_up_windows(blend: Blend, parts: list[Window], start: Snapshot) -> _Windows:
    """Go on from a checkpoint."""
    tensors, plain = start
    try:
        blend.take_up(tensors, parts[: plain["windows"]])
        return _Windows(
            float(plain["seconds"]),
            [Trace(**chain["trace"]) for chain in plain["chains"]],
            [NoiseLevel(**level) for level in plain["levels"]],
            Convergence.from_plain(plain["judged"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged() from error


def _damaged() -> InputError:
    return InputError("the checkpoint is damaged: parts are missing", hint="run without --resume")


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
    sampler = _sampler(pixels, given, cfg, prior, device, atoms)
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
    mean, std = _pixels(chains.image.mean), _pixels(chains.image.std, scale_only=True)
    samples = np.stack([_pixels(sample) for sample in chains.samples]) if chains.samples else None
    choice = noise_level = None
    if prior is not None and finishes and finished:
        done = _complete(chains, prior, pixels, shown, trial, cfg, name)
        samples = samples if samples is None else samples - mean + done.mean + done.changes
        mean, std, choice, noise_level = done.mean, np.hypot(std, done.spread), done.choice, done.noise
    calibration = None
    if held is not None:
        noise = _held_out_noise(_noise(chains.traces, cfg.burn_in)["std"], noise_level, cfg.sigma)
        calibration = calibrate(pixels, mean, std, held, noise)
        std = std * np.float32(calibration.factor)
        samples = samples if samples is None else mean + np.float32(calibration.factor) * (samples - mean)
        if prior is not None and choice is not None:  # the held-out pixels have done their duty
            mean = _finish(chains, prior, pixels, observed, choice)
    if cfg.observed == "keep":
        mean, std = np.where(observed, pixels, mean), np.where(observed, np.float32(0), std)
    return Outcome(
        mean=mean,
        std=std,
        prior_mean=_pixels(chains.prior_image.mean) if chains.prior_image.count else None,
        samples=samples,
        traces=chains.traces,
        draws=chains.image.count,
        seconds=earlier + time.perf_counter() - started,
        finished=finished,
        cfg=cfg,
        convergence=judged,
        calibration=calibration,
        finish_level=None if choice is None else choice.level / 2,
        finish_weights=None if choice is None else choice.weights,
        prior_noise=noise_level,
    )


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
        raise _damaged() from error


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
    shown: Bools,
    trial: Bools | None,
    cfg: RunConfig,
    name: str,
) -> _Completed:
    """Finish the posterior mean by the prior, find the noise by it, and draw from it.

    Where nothing is missing the level of the finish is the noise. Elsewhere trial pixels choose it, and the noise
    is found afterwards, with the finished picture in place of what is missing.
    """
    start = chains.image.mean.float()
    values, known = _tensors(pixels, shown, start.device)
    guess = 2 * _noise(chains.traces, chains.burn_in)["std"]
    rng = make_generator(seed_of(cfg.seed, f"{name}#finish"), start.device)

    def noise_of(choice: Choice) -> NoiseLevel | None:
        if cfg.sigma is not None:
            return None
        filled = finish_by(choice, prior, parts(values), parts(known), parts(start))
        return most_likely_noise(prior, parts(values), parts(known), filled, guess, rng=rng)

    if trial is None:
        noise = noise_of(Choice(guess, 0))
        choice = Choice(guess if noise is None else noise.std, 1)
    else:
        held = _tensors(pixels, trial, start.device)[1]
        choice = choose(prior, values, known, held, start, guess, calls=cfg.finish)
        noise = noise_of(choice)
        if as_masked(prior) is not None:
            level, scattered = guess if noise is None else noise.std, is_scattered(shown)
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
            raise _damaged() from error
    started = time.perf_counter()
    sampler = _sampler(pixels, shown, cfg, prior, device)
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


def _noise(traces: list[Trace], burn_in: int) -> dict[str, float]:
    kept = np.concatenate([trace.noise_std[burn_in:] or trace.noise_std for trace in traces])
    low, high = np.quantile(kept, [0.05, 0.95])
    return {"std": float(kept.mean()), "lower": float(low), "upper": float(high)}


def _sampler(
    pixels: Floats,
    observed: Bools,
    cfg: RunConfig,
    prior: Prior | None,
    device: torch.device,
    atoms: State | None = None,
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
