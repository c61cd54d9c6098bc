"""What becomes of the draws: their mean finished by the prior, the noise, the spread, and its calibration."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch

from ..methods.split_gibbs import make_generator
from ..options import LARGE, RunConfig
from ..priors.base import Prior, Watched
from ..run.chains import Chains
from ..run.kernel import pixels_of, seed_of, tensors_of
from ..run.moments import Moments
from ..run.outcome import Bools, Control, Floats, noise_of
from .calibrate import Calibration, HeldOut, calibrate, hold_out, is_scattered, like_missing
from .noise import NoiseLevel, most_likely_noise
from .parts import parts_share, parts_with
from .refine import FEWEST, FILLS, TRIAL_SHARE, TRIAL_WINDOW, Choice, choose, choose_fills, finish_by
from .uncertainty import LITTLE, USUAL, Effort, draw_pictures, smooth_std

WITHOUT_MISFIT = 0.6  # of the tensor model's noise, where no prior has said how much of it is noise
TRIAL_CALLS = 90  # on a part of the picture, for the level of the finish and for the noise; about


@dataclass(frozen=True)
class Entries:
    """Which entries (H, W, C) play which part.

    shown: observed and not held out to calibrate by. trial: of these, held out to choose the finish by.
    """

    observed: Bools
    shown: Bools
    held: HeldOut | None
    trial: Bools | None

    @classmethod
    def split(cls, observed: Bools, cfg: RunConfig, name: str, *, finishes: bool) -> Entries:
        """The parts that a run needs; finishes: whether the prior finishes the picture."""
        held = _held_out(observed, cfg, name)
        shown = observed if held is None else observed & ~held.entries
        return cls(observed, shown, held, _trial(shown, cfg, name) if finishes and not shown.all() else None)

    @property
    def given(self) -> Bools:
        """What the sampler is given."""
        return self.shown if self.trial is None else self.shown & ~self.trial


def _held_out(observed: Bools, cfg: RunConfig, name: str) -> HeldOut | None:
    if not cfg.calibrate:
        return None
    return hold_out(observed, rng=np.random.default_rng(seed_of(cfg.seed, f"{name}#held-out")))


def _trial(shown: Bools, cfg: RunConfig, name: str) -> Bools:
    """Known entries (H, W, C) by which the finish chooses its level."""
    rng = np.random.default_rng(seed_of(cfg.seed, f"{name}#trial"))
    side = min(TRIAL_WINDOW, min(shown.shape[:2]) // 4)
    return like_missing(shown, int(TRIAL_SHARE * shown.sum()), side=side, rng=rng)


@dataclass(frozen=True)
class Picture:
    """What is made of the draws, as in `Outcome`."""

    mean: Floats
    std: Floats
    samples: Floats | None
    choice: Choice | None = None
    noise: NoiseLevel | None = None
    calibration: Calibration | None = None


@torch.no_grad()
def picture_of(
    chains: Chains,
    prior: Prior | None,
    pixels: Floats,
    entries: Entries,
    cfg: RunConfig,
    name: str,
    control: Control,
) -> Picture:
    """Average the draws, finish the mean by the prior if there is one, and calibrate the spread if asked to."""
    mean, std = pixels_of(chains.image.mean), pixels_of(chains.image.std, scale_only=True)
    samples = np.stack([pixels_of(sample) for sample in chains.samples]) if chains.samples else None
    found = Picture(mean, std, samples)
    if prior is not None:
        done = _complete(chains, prior, pixels, entries, cfg, name, control)
        if samples is not None:
            samples = samples - mean + done.mean + done.changes
        found = Picture(done.mean, np.hypot(std, done.spread), samples, done.choice, done.noise)
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
    entries: Entries,
    cfg: RunConfig,
    name: str,
    control: Control,
) -> _Completed:
    """Finish the posterior mean by the prior, find the noise by it, and draw from it.

    Where nothing is missing the level of the finish is the noise. Elsewhere trial pixels choose it, and the noise
    is found afterwards, with the finished picture in place of what is missing.
    """
    start = chains.image.mean.float()
    values, known = tensors_of(pixels, entries.shown, start.device)
    guess = 2 * noise_of(chains.traces, chains.burn_in)["std"]
    rng = make_generator(seed_of(cfg.seed, f"{name}#finish"), start.device)
    held = known if entries.trial is None else tensors_of(pixels, entries.trial, start.device)[1]
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
        if prior.traits.takes_mask:
            level, scattered = guess if noise is None else noise.std, is_scattered(entries.shown)
            choice = choose_fills(choice, prior, values, known, held, start, level, scattered=scattered)
    finished = finish_by(choice, prior, values, known, start)
    spread = Moments()
    draws: list[Floats] = []
    effort = _effort(pixels[..., 0].size)
    pictures = draw_pictures(prior, values, known, finished, choice.level, levels=effort.levels, rng=rng)
    for draw in islice(pictures, max(effort.draws, len(chains.samples))):
        spread.add(draw)
        draws += [pixels_of(draw)] if len(draws) < len(chains.samples) else []
    changes = np.stack(draws) - pixels_of(spread.mean) if draws else np.zeros((0, *pixels.shape), np.float32)
    std = pixels_of(smooth_std(spread.std.float(), known, rounds=effort.rounds), scale_only=True)
    return _Completed(pixels_of(finished), std, changes, choice, noise)


def _finish(chains: Chains, prior: Prior, pixels: Floats, shown: Bools, choice: Choice) -> Floats:
    """The posterior mean, finished: (H, W, C) in [0, 1] units."""
    start = chains.image.mean.float()
    values, known = tensors_of(pixels, shown, start.device)
    return pixels_of(finish_by(choice, prior, values, known, start))


def _held_out_noise(tensor_noise: float, found: NoiseLevel | None, given: float | None) -> float:
    """The noise std of held-out values, in [0, 1] units: given, by the prior, or a part of the tensor model's."""
    if given is not None:
        return given
    return WITHOUT_MISFIT * tensor_noise if found is None else min(tensor_noise, found.std / 2)


def watched(
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


def calls_after(finish_calls: int, pixels: int) -> float:
    """Calls of the prior after the chains, counted by the whole picture: the finish, its level, noise, draws."""
    if finish_calls == 0:
        return 0.0
    return finish_calls + FILLS + _effort(pixels).calls + TRIAL_CALLS * parts_share(math.isqrt(pixels))


def _effort(pixels: int) -> Effort:
    return USUAL if pixels <= LARGE else LITTLE
