"""Training: one step, the validation, and the loop over both.

The learning rate warms up, stays constant, and decays over the last part of the plan. The state just before the decay
is kept in `stable/`, so a longer plan can continue from there as if the decay had never begun.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import torch
from torch import Tensor

from .. import random, units
from ..devices import full_precision
from ..priors.interpolate import interpolate
from ..priors.mixed import MixedPrecision
from ..priors.networks.natural import Natural
from ..priors.precondition import EDM, Blind
from ..transfer import fetch, send
from .camera import BORDER, draw_camera
from .data import Batch, Photos, Pixels, as_tensor, draw_batch
from .settings import Plan, TrainSettings
from .state import CHECKPOINT, STABLE, TrainState, save_state

VALIDATION_LEVELS = (15, 25, 50, 75)
"""Noise levels of the validation, of 255."""
FILLED = "90 % missing"
"""The name of the validation that fills nine pixels in ten."""
FILLED_NOISE = 0.05
"""Its noise level on [-1, 1]."""
CAMERA = "camera noise"
"""The name of the validation of a network for noise of any kind, and of the crops before it."""
_VARIANCE_SHARE = 0.1  # of the loss of a network that also gives its variance
Validation = Callable[[Natural, list[Pixels]], dict[str, float]]
"""The averaged network and the held-out photographs to PSNR by task."""


@dataclass(frozen=True)
class TrainInfo:
    """What one step did.

    psnr: the validation, by task, if there was one (see `validate`). saved: whether a checkpoint was written.
    """

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float
    seconds: float
    progress: float
    psnr: dict[str, float] | None = None
    saved: bool = False


def train(
    state: TrainState,
    photos: Photos,
    settings: TrainSettings,
    plan: Plan,
    folder: Path,
    *,
    save_every: float = 180.0,
    validate_every: int = 500,
    validation: Validation | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[TrainInfo]:
    """Train to the end of the plan and yield once per step; checkpoints go to `folder`.

    save_every: seconds between checkpoints. The draws depend on the state alone, never on the clock. Only with a plan
    in minutes does the learning rate follow the clock. clock: with `time.process_time`, seconds and minutes are
    processor time, and a plan in minutes does the same work on a busy machine. validation: by default `validate`.
    """
    last, stable = folder / CHECKPOINT, folder / STABLE / CHECKPOINT
    began = clock() - state.seconds
    saved_at = state.seconds
    progress = plan.progress(state.step, state.seconds)
    while progress < 1:
        if not state.decaying and progress >= 1 - settings.decay_share:
            save_state(stable, state, settings, photos)
            state.decaying = True
        info = take_step(state, photos.train, settings, progress)
        state.losses.append((info.step, info.loss))
        state.seconds = clock() - began
        progress = plan.progress(state.step, state.seconds)
        psnr, save = None, progress >= 1 or state.seconds - saved_at >= save_every
        if progress >= 1 or state.step % validate_every == 0:
            psnr = (validation or validate)(state.average, photos.held_out)
            state.validations.append((state.step, psnr))
        if save:
            save_state(last, state, settings, photos)
            saved_at = state.seconds
        yield replace(info, seconds=state.seconds, progress=progress, psnr=psnr, saved=save)


# ---- a step ----


def take_step(state: TrainState, photos: list[Pixels], settings: TrainSettings, progress: float) -> TrainInfo:
    """Take one step on the EDM loss, then update the moving average of the weights."""
    rate = learning_rate(settings, state.step, progress)
    batch = draw_batch(photos, settings, rng=state.rng).to(state.device)
    state.network.zero_grad()
    exact = full_precision(state.device) if settings.dtype == torch.float32 else nullcontext()
    with exact:
        loss = edm_loss(state.network, batch, settings)
        loss.backward()  # type: ignore[no-untyped-call]
    for parameter in state.network.parameters():
        if parameter.grad is None:  # this batch had no crop with a mask, or none without
            parameter.grad = torch.zeros_like(parameter)
    norm = torch.nn.utils.clip_grad_norm_(state.network.parameters(), settings.clip)
    for optimizer in state.optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    state.step += 1
    keep = min(settings.ema, state.step / (state.step + 10))  # at first, forget the random start quickly
    with torch.no_grad():
        for slow, fast in zip(state.average.parameters(), state.network.parameters(), strict=True):
            slow.lerp_(fast, 1 - keep)
    shown, size = fetch(loss, norm)  # the only wait of a step
    return TrainInfo(state.step, float(shown), rate, float(size), state.seconds, progress)


def learning_rate(settings: TrainSettings, step: int, progress: float) -> float:
    """Linear warm-up, constant, then a cosine to zero over the last `decay_share` of the plan."""
    warm = min(1.0, (step + 1) / settings.warm_up) if settings.warm_up else 1.0
    left = (1 - progress) / settings.decay_share if settings.decay_share else 1.0
    cool = 0.5 - 0.5 * math.cos(math.pi * min(1.0, max(0.0, left)))
    return settings.learning_rate * warm * cool


def edm_loss(network: Natural, batch: Batch, settings: TrainSettings) -> Tensor:
    """Mean over the batch of weight(sigma) (D(x0 + sigma eps, sigma) - x0)^2, or of the relative error."""
    at_work = MixedPrecision(network, dtype=settings.dtype, channels_last=True)
    if network.config.blind:
        return blind_loss(Blind(at_work), batch)
    denoiser = EDM(at_work)
    loss = batch.clean.new_zeros(())
    for clean, found, weight in _estimates(denoiser, batch):
        error = (found - clean).square()
        if settings.relative:
            weight = relative_weight(error.detach(), weight)
        loss = loss + (weight * error).sum() / batch.clean.numel()
    return loss


def blind_loss(denoiser: Blind, batch: Batch) -> Tensor:
    """The relative error of each crop, and the likelihood of the errors under the variance that is said of them.

    The variance learns from the errors, but not the errors from the variance: their size is no excuse.
    """
    found, var = denoiser.with_variance(batch.noisy, batch.sigma)
    error = (found - batch.clean).square()
    weight = 1 / (error.detach().mean((1, 2, 3), keepdim=True) + 0.01 * denoiser.c_out**2)
    surprise = 0.5 * (var.log() + error.detach() / var)
    return (weight * error).mean() + _VARIANCE_SHARE * surprise.mean()


def _estimates(denoiser: EDM, batch: Batch) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Clean crops, their estimates, and the EDM weights, group by group.

    Crops with a mask go through the filler, the others through the denoiser. A network that takes levels gets all.
    """
    if batch.levels is not None:
        yield batch.clean, *denoiser.of_levels(batch.noisy, batch.levels)
        return
    for chosen, masked in ((~batch.masked, False), (batch.masked, True)):
        if not bool(chosen.any()):
            continue
        index = send(chosen.nonzero().flatten(), batch.clean.device)
        sigma, known = batch.sigma[index], batch.known[index] if masked else None
        found = denoiser(batch.noisy[index], sigma, known)
        yield batch.clean[index], found, denoiser.weight(sigma, known)


def relative_weight(error: Tensor, weight: Tensor) -> Tensor:
    """1 / the mean squared error of each crop, (B, 1, 1, 1), from squared errors (B, 3, h, w) and EDM weights.

    A floor of a hundredth of the EDM scale c_out^2 keeps flat crops from dominating.
    """
    return 1 / (error.mean((1, 2, 3), keepdim=True) + 0.01 * (1 / weight).mean((1, 2, 3), keepdim=True))


# ---- validation ----


@torch.no_grad()
def validate(
    network: Natural,
    photos: list[Pixels],
    *,
    size: int = 128,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> dict[str, float]:
    """Mean PSNR on the centre of each held-out photograph, always with the same noise and mask.

    Keys: the noise level of 255, such as "25"; and FILLED, if the network takes a mask. dtype: of the layers.
    """
    if not photos:
        return {}
    if network.config.blind:
        return _validate_blind(network, photos, size=size, seed=seed, dtype=dtype)
    device = next(network.parameters()).device
    clean = send(centres(photos, multiple=network.config.multiple, size=size), device)
    denoiser = EDM(MixedPrecision(network, dtype=dtype, channels_last=True))
    result = {}
    for level in VALIDATION_LEVELS:
        told = torch.full((len(clean),), units.level_to_signed(level / 255), device=device)
        result[str(level)] = mean_psnr(denoiser(with_noise(clean, level, seed=seed), told), clean)
    if network.config.takes_mask or network.config.takes_levels:
        result[FILLED] = _filled(denoiser, clean, seed)
    return result


def centres(photos: list[Pixels], *, multiple: int, size: int = 128) -> Tensor:
    """The centres of photographs, (B, 3, side, side), as large as the smallest of them allows."""
    side = min(size, *(min(photo.shape[:2]) for photo in photos)) // multiple * multiple
    return torch.stack([_centre(photo, side) for photo in photos])


def with_noise(clean: Tensor, level: int, *, seed: int = 0) -> Tensor:
    """Pictures (B, 3, h, w) with noise of a level (of 255), always the same for a seed."""
    noise = random.normal_like(clean, rng=random.generator(seed + level))
    return clean + units.level_to_signed(level / 255) * noise


def _filled(denoiser: EDM, clean: Tensor, seed: int) -> float:
    """PSNR of pictures (B, 3, h, w) of which nine pixels in ten are missing."""
    rng = random.generator(seed)
    known = send(random.bernoulli((len(clean), 1, *clean.shape[2:]), 0.1, rng=rng), clean.device)
    known = known.expand_as(clean)
    noisy = interpolate(clean + FILLED_NOISE * random.normal_like(clean, rng=rng), known)
    told = torch.full((len(clean),), FILLED_NOISE, device=clean.device)
    return mean_psnr(denoiser(noisy, told, known), clean)


def _validate_blind(
    network: Natural, photos: list[Pixels], *, size: int, seed: int, dtype: torch.dtype
) -> dict[str, float]:
    """PSNR of the centres as cameras save them, before and after, when the level is not told."""
    rng = random.generator(seed)
    wide = min(size + BORDER, *(min(photo.shape[:2]) for photo in photos))
    pairs = [draw_camera(_centre(photo, wide), rng=rng) for photo in photos]
    side = (wide - BORDER) // network.config.multiple * network.config.multiple
    denoiser = Blind(MixedPrecision(network, dtype=dtype, channels_last=True))
    device = next(network.parameters()).device
    before, after = [], []
    for pair in pairs:
        clean, noisy = (send(one[None, :, :side, :side], device) for one in pair)
        found = denoiser(noisy, torch.full((1,), Blind.UNKNOWN, device=device))
        before.append(mean_psnr(noisy, clean))
        after.append(mean_psnr(found, clean))
    return {f"{CAMERA}, before": fmean(before), CAMERA: fmean(after)}


def mean_psnr(found: Tensor, clean: Tensor) -> float:
    """Mean PSNR of a batch (B, C, H, W) on [-1, 1], at most 60 dB each."""
    error = (found.clamp(-1, 1) - clean).square().mean(dim=(1, 2, 3)) / units.RANGE**2
    return float(-10 * error.clamp_min(1e-6).log10().mean())


def _centre(photo: Pixels, size: int) -> Tensor:
    top, left = (photo.shape[0] - size) // 2, (photo.shape[1] - size) // 2
    return as_tensor(photo[top : top + size, left : left + size])
