"""Chains for the tests: the split Gibbs sampler of an observation, its draws, and short runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from conftest import picture

from diffbcp_cli.methods.cp_step import LowRank, Settings
from diffbcp_cli.methods.split_gibbs import Adaptive, SplitGibbs
from diffbcp_cli.options import Options
from diffbcp_cli.watch import Watch


def sampler(observation, prior=None, settings=None, *, rule=None, calls=2, solver="second-order", atoms=None):
    step = LowRank(observation, settings or Settings(), atoms)
    return SplitGibbs(step, prior, rule or Adaptive(), solver, calls)


@dataclass(frozen=True)
class Draw:
    """What a step drew, with its numbers as attributes."""

    step: int
    info: object

    def __getattr__(self, name):
        numbers = self.info.numbers
        return numbers[name] if name in numbers else getattr(self.info, name)


def steps(method, state=None, *, rng):
    """Yield (state, draw) without end, from the start or from a state."""
    state = method.init(rng=rng) if state is None else state
    while True:
        index = state.step
        state, info = method.step(state, rng=rng)
        yield state, Draw(index, info)


class Listener(Watch):
    """A watch that keeps what it hears, and asks for a stop after so many steps."""

    def __init__(self, stop_after=None):
        self.notes, self.warnings, self.heard = [], [], []
        self.stop_after = stop_after

    def note(self, text):
        self.notes.append(text)

    def warn(self, text):
        self.warnings.append(text)

    def progress(self, progress):
        self.heard.append(progress)

    def cancelled(self):
        if self.stop_after is None:
            return False
        self.stop_after -= 1
        return self.stop_after < 0


def config(**options):
    """Options of a short run without a prior."""
    base = {"prior": "none", "iterations": 9, "burn_in": 4, "thin": 2, "rank": 4, "device": "cpu"}
    return Options(**{**base, "save": ("mean", "samples"), **options})


def damaged(height=32, width=40):
    """Pixels of a picture, and a random half of them that is observed."""
    pixels = picture(height, width).astype(np.float32)
    return pixels, np.random.default_rng(1).random(pixels.shape) < 0.5
