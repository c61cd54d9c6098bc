"""The loop: steps, validations and checkpoints until the plan is done.

The learning rate warms up, stays, and decays over the last part of the plan. The state just before the decay
is kept in `stable/`, so that a longer plan can go on from there as if the decay had never begun.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from .checkpoints import CHECKPOINT, save_state
from .photos import Photos
from .settings import Plan, TrainSettings
from .state import TrainState
from .steps import TrainInfo, take_step
from .validation import validate


def train(
    state: TrainState,
    photos: Photos,
    settings: TrainSettings,
    plan: Plan,
    folder: Path,
    *,
    save_every: float = 180.0,
    validate_every: int = 500,
) -> Iterator[TrainInfo]:
    """Train to the end of the plan, yielding once per step; checkpoints go to `folder`.

    save_every: seconds between checkpoints. The draws depend on the state alone, never on the clock; only
    a plan in minutes makes the learning rate follow the clock.
    """
    last, stable = folder / CHECKPOINT, folder / "stable" / CHECKPOINT
    began = time.monotonic() - state.seconds
    saved_at = state.seconds
    progress = plan.progress(state.step, state.seconds)
    while progress < 1:
        if not state.decaying and progress >= 1 - settings.decay_share:
            save_state(stable, state, settings, photos)
            state.decaying = True
        info = take_step(state, photos.train, settings, progress)
        state.losses.append((info.step, info.loss))
        state.seconds = time.monotonic() - began
        progress = plan.progress(state.step, state.seconds)
        psnr, save = None, progress >= 1 or state.seconds - saved_at >= save_every
        if progress >= 1 or state.step % validate_every == 0:
            psnr = validate(state.average, photos.held_out)
            state.validations.append((state.step, psnr))
        if save:
            save_state(last, state, settings, photos)
            saved_at = state.seconds
        yield TrainInfo(
            info.step, info.loss, info.learning_rate, info.gradient_norm, state.seconds, progress, psnr, save
        )
