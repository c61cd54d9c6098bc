"""One step of the training: its learning rate, loss and moving average."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..priors.mixed import MixedPrecision
from ..priors.precondition import EDM
from .photos import Pixels, draw_batch
from .settings import TrainSettings
from .state import TrainState


@dataclass(frozen=True)
class TrainInfo:
    """What one step did.

    psnr: by what was to be done, see `validate`, on the steps that do. saved: a checkpoint was written.
    """

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float
    seconds: float
    progress: float
    psnr: dict[str, float] | None = None
    saved: bool = False


def learning_rate(settings: TrainSettings, step: int, progress: float) -> float:
    """Linear warm-up, constant, then a cosine to zero over the last `decay_share` of the plan."""
    warm = min(1.0, (step + 1) / settings.warm_up) if settings.warm_up else 1.0
    left = (1 - progress) / settings.decay_share if settings.decay_share else 1.0
    cool = 0.5 - 0.5 * math.cos(math.pi * min(1.0, max(0.0, left)))
    return settings.learning_rate * warm * cool


def take_step(state: TrainState, photos: list[Pixels], settings: TrainSettings, progress: float) -> TrainInfo:
    """One step on the EDM loss, weight(sigma) ||D(x0 + sigma eps, sigma) - x0||^2, then the moving average.

    Crops with a mask go to the filler, the others to the denoiser.
    """
    rate = learning_rate(settings, state.step, progress)
    batch = draw_batch(photos, settings, rng=state.rng)
    denoiser = EDM(MixedPrecision(state.network, dtype=settings.dtype, channels_last=True))
    state.network.zero_grad()
    loss = batch.clean.new_zeros(())
    for chosen, masked in ((~batch.masked, False), (batch.masked, True)):
        if not bool(chosen.any()):
            continue
        sigma, known = batch.sigma[chosen], batch.known[chosen] if masked else None
        error = (denoiser(batch.noisy[chosen], sigma, known) - batch.clean[chosen]).square()
        loss = loss + (denoiser.weight(sigma, known) * error).sum() / batch.clean.numel()
    loss.backward()  # type: ignore[no-untyped-call]
    for parameter in state.network.parameters():
        if parameter.grad is None:  # by chance no crop had a mask, or all had
            parameter.grad = torch.zeros_like(parameter)
    norm = torch.nn.utils.clip_grad_norm_(state.network.parameters(), settings.clip)
    for optimizer in state.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    state.step += 1
    # the average forgets its random start quickly at first
    keep = min(settings.ema, state.step / (state.step + 10))
    with torch.no_grad():
        for slow, fast in zip(state.average.parameters(), state.network.parameters(), strict=True):
            slow.lerp_(fast, 1 - keep)
    return TrainInfo(state.step, loss.item(), rate, float(norm), state.seconds, progress)
