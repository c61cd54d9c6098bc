"""The default estimator: the posterior mean, refined by the prior and stacked with its fills."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from torch import Generator, Tensor

from ..options import LARGE, Options
from ..priors.base import Prior, Watched, can_fill
from ..problem import Problem, Restoration
from ..random import Seeds
from ..run.posterior import Moments, Posterior
from ..units import Floats, level_to_signed, level_to_unit, std_to_unit, to_unit
from ..watch import Progress, Watch
from .crops import crops_share, representative_crops
from .hold_out import Split, is_scattered
from .mean import PosteriorMean
from .noise import NoiseLevel, most_likely_noise
from .plug_and_play import FEWEST, FILLS, Refinement, choose_level, choose_stack, refine_by
from .uncertainty import FEW, USUAL, Effort, draw_pictures, smooth_std

TRIAL_CALLS = 90  # on crops of the picture, for the level of the refinement and for the noise; about


@dataclass(frozen=True)
class _Refined:
    """What the prior makes of the posterior mean, in [0, 1] units; the noise on [-1, 1].

    spread: the std of its own draws. changes: (n, H, W, C) how far n of them are from their mean.
    """

    mean: Floats
    spread: Floats
    changes: Floats
    choice: Refinement
    noise: NoiseLevel | None


@dataclass(frozen=True)
class Refined:
    """Plug-and-play refinement of the posterior mean; the variances of the draws and of the refinement add up.

    whole: the problem with nothing held out. split: what was held out, and what for.
    """

    whole: Problem
    split: Split
    prior: Prior
    options: Options
    seeds: Seeds
    watch: Watch

    @property
    def shown(self) -> Problem:
        """What the method may see."""
        return self.split.problem(self.whole)

    def __call__(self, posterior: Posterior) -> Restoration:
        """Refine the posterior mean, find the noise, and draw around the result."""
        return self.estimate(posterior)[0]

    @torch.no_grad()
    def estimate(self, posterior: Posterior) -> tuple[Restoration, Callable[[], Floats]]:
        """The restoration, and a function that refines again with every known pixel, the held-out ones too."""
        plain = PosteriorMean(self.shown, self.options)(posterior)
        done = self._refine(posterior)
        assert plain.std is not None
        samples = plain.samples
        if samples is not None:
            samples = samples - plain.mean + done.mean + done.changes
        weights = {
            "estimator": "refined",
            "finish_level": level_to_unit(done.choice.level),
            "finish_weights": list(done.choice.weights),
        }
        found = replace(
            plain,
            mean=done.mean,
            std=np.hypot(plain.std, done.spread),
            samples=samples,
            numbers={**plain.numbers, **weights},
        )
        found = found if done.noise is None else with_noise(found, done.noise)
        return found, lambda: self._refine_whole(posterior, done.choice)

    @torch.no_grad()
    def _refine_whole(self, posterior: Posterior, choice: Refinement) -> Floats:
        start, whole = posterior.image.mean.float(), self.whole
        return to_unit(refine_by(choice, self._watched(), whole.y, whole.known, start))

    def _refine(self, posterior: Posterior) -> _Refined:
        """Choose how to refine, do it, and draw around it.

        Where nothing is missing the level of the refinement is the noise. Elsewhere hold-out pixels choose it, and
        the noise is found afterwards, with the refined picture in place of what is missing.
        """
        prior, start, known = self._watched(), posterior.image.mean.float(), self.split.shown
        values = torch.where(known, self.whole.y, 0)
        rng = self.seeds.generator("finish", start.device)
        choice, noise = self._choose(prior, posterior, values, rng)
        refined = refine_by(choice, prior, values, known, start)
        draws: list[Floats] = []
        spread, effort = Moments(), effort_for(values[0].numel())
        wanted = len(posterior.samples)
        pictures = draw_pictures(prior, values, known, refined, choice.level, levels=effort.levels, rng=rng)
        for draw in islice(pictures, max(effort.draws, wanted)):
            spread.add(draw)
            draws += [to_unit(draw)] if len(draws) < wanted else []
        mean = to_unit(refined)
        changes = np.stack(draws) - to_unit(spread.mean) if draws else np.zeros((0, *mean.shape), np.float32)
        std = std_to_unit(smooth_std(spread.std.float(), known, rounds=effort.rounds))
        return _Refined(mean, std, changes, choice, noise)

    def _choose(
        self, prior: Prior, posterior: Posterior, values: Tensor, rng: Generator
    ) -> tuple[Refinement, NoiseLevel | None]:
        """Choose the refinement by hold-out pixels, and find the noise by the prior unless it was given."""
        start, known, trial = posterior.image.mean.float(), self.split.shown, self.split.trial
        guess = level_to_signed(posterior.noise()["std"])
        held = known if trial is None else trial
        crop = representative_crops(held).of

        def noise_by_prior(choice: Refinement) -> NoiseLevel | None:
            if self.whole.noise_std is not None:
                return None
            filled = refine_by(choice, prior, crop(values), crop(known), crop(start))
            return most_likely_noise(prior, crop(values), crop(known), filled, guess, rng=rng)

        calls = self.options.finish
        if trial is None:
            noise = noise_by_prior(Refinement(guess, 0))
            return Refinement(guess if noise is None else noise.std, calls), noise
        if int(crop(held).sum()) < FEWEST:
            self.watch.note(
                "too few pixels are known near each other to choose how strongly the prior smooths"
            )
        choice = choose_level(prior, values, known, held, start, guess, calls=calls)
        noise = noise_by_prior(choice)
        if can_fill(prior):
            level = guess if noise is None else noise.std
            scattered = is_scattered(known.permute(1, 2, 0).cpu().numpy())
            choice = choose_stack(choice, prior, values, known, held, start, level, scattered=scattered)
        return choice, noise

    def _watched(self) -> Prior:
        """The prior, with each call shown to the watch, which may ask for a stop."""
        pixels, asked = self.whole.y[0].numel(), 0
        total = calls_after(self.options.finish, pixels) * pixels

        def before(count: int) -> None:
            nonlocal asked
            if self.watch.cancelled():
                raise KeyboardInterrupt
            self.watch.progress(Progress("refining", min(1.0, asked / total), 1.0))
            asked += count

        return Watched(self.prior, before)


def with_noise(found: Restoration, noise: NoiseLevel) -> Restoration:
    """Report the noise that the prior found."""
    return replace(found, noise=noise.in_units(), numbers={**found.numbers, "noise_source": "prior"})


def calls_after(calls: int, pixels: int) -> float:
    """Calls of the prior after the chains, counted by the whole picture: refinement, its level, noise, draws."""
    if calls == 0:
        return 0.0
    return calls + FILLS + effort_for(pixels).calls + TRIAL_CALLS * crops_share(math.isqrt(pixels))


def effort_for(pixels: int) -> Effort:
    """How much work the uncertainty of a picture of this size gets."""
    return USUAL if pixels <= LARGE else FEW
