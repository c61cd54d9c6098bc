"""Train the network `natural` on a folder of photographs.

`train` is an iterator: each item says what one step did. The caller draws bars and lines; this module reads
photographs, computes, and keeps the folder of the new prior up to date.

The learning rate warms up, stays, and decays over the last part of the plan. The state just before the decay
is kept in `stable/`, so that a longer plan can go on from there as if the decay had never begun.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from safetensors import SafetensorError, safe_open
from torch import Generator, Tensor

from .diffusion.interpolate import interpolate
from .diffusion.mixed import MixedPrecision
from .diffusion.natural import Natural, NaturalConfig
from .diffusion.precondition import EDM
from .errors import InputError, UsageError
from .io.images import read_photo
from .io.tensors import write_tensors
from .muon import Muon
from .train_masks import draw_mask

Pixels = NDArray[np.uint8]

CHECKPOINT = "checkpoint.safetensors"
SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".tif", ".tiff", ".bmp"})
PRECISIONS = ("fp32", "bf16")
OPTIMIZER_STATE = (("momentum",), ("step", "exp_avg", "exp_avg_sq"))
"""What Muon and AdamW remember of each parameter, as checkpoints name it."""
VALIDATION_LEVELS = (15, 25, 50, 75)
"""Noise levels of the validation, of 255; on [-1, 1] they are 2 / 255 as large."""
_FILLER = "filler."
FILLED = "90 % missing"
"""What the validation calls filling nine in ten pixels, at the noise below."""
FILLED_NOISE = 0.05


@dataclass(frozen=True)
class TrainSettings:
    """Everything that decides what a step does, apart from the photographs and the plan.

    noise_median, noise_spread: ln(sigma) ~ N(ln noise_median, noise_spread^2), on [-1, 1], kept within three
    spreads of the median. The sampler asks for 0.1 to 1, the finish for 0.01 to 0.1.
    zoom_share, zoom_most: this share of the crops is cut up to so many times as wide and scaled down.
    grey_share: crops made grey, with the same noise in every channel.
    mask_share, mask_noise: this share of the crops has entries missing (train_masks.py), and so much noise in the
    median: what is to be filled has less noise than what the sampler asks for. With a share of 0 the filler stays
    as it is, with 1 the denoiser.
    precision: of the network, fp32 or bf16; the weights and their average stay in float32.
    """

    network: NaturalConfig = field(default_factory=lambda: NaturalConfig(takes_mask=True))
    batch_size: int = 16
    crop: int = 64
    learning_rate: float = 1e-3
    warm_up: int = 200
    decay_share: float = 0.5
    ema: float = 0.999
    clip: float = 1.0
    noise_median: float = 0.16
    noise_spread: float = 1.1
    zoom_share: float = 0.6
    zoom_most: float = 2.5
    grey_share: float = 0.1
    mask_share: float = 0.5
    mask_noise: float = 0.05
    precision: str = "fp32"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        multiple = self.network.multiple
        if self.crop < multiple or self.crop % multiple:
            raise UsageError(
                f"a crop of {self.crop} px does not fit the network", hint=f"a multiple of {multiple}"
            )
        if self.batch_size < 1 or self.learning_rate <= 0:
            raise UsageError("the batch size and the learning rate must be positive")
        if not 0 <= self.mask_share <= 1:
            raise UsageError(f"a share of {self.mask_share:g} of the crops", hint="--mask-share 0 .. 1")
        if self.precision not in PRECISIONS:
            raise UsageError(
                f"unknown precision {self.precision!r}", hint=f"--precision {'|'.join(PRECISIONS)}"
            )

    @property
    def dtype(self) -> torch.dtype:
        """The number type that the network computes in."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32


@dataclass(frozen=True)
class Plan:
    """How long to train: a number of steps, or minutes of training time summed over every stretch."""

    steps: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        """Exactly one of the two."""
        if (self.steps is None) == (self.minutes is None):
            raise UsageError("give either steps or minutes", hint="--minutes 120")
        if (self.steps or self.minutes or 0) <= 0:
            raise UsageError("a plan must be longer than nothing", hint="--minutes 120")

    def progress(self, step: int, seconds: float) -> float:
        """The share of the plan that is done after so many steps and seconds; 1 is the end."""
        if self.steps is not None:
            return step / self.steps
        assert self.minutes is not None
        return seconds / (60 * self.minutes)


@dataclass(frozen=True)
class Photos:
    """Photographs in memory: each (H, W, 3) uint8; some are held out to validate on."""

    train: list[Pixels]
    held_out: list[Pixels]
    skipped: dict[str, str]
    fingerprint: str


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


@dataclass
class TrainState:
    """Everything that the next step depends on, and the record of the past ones."""

    network: Natural
    average: Natural
    optimizers: tuple[Muon, torch.optim.AdamW]
    rng: Generator
    step: int = 0
    seconds: float = 0.0
    decaying: bool = False
    losses: list[tuple[int, float]] = field(default_factory=list)
    validations: list[tuple[int, dict[str, float]]] = field(default_factory=list)


# ---------------------------------------------------------------------------------------------- photographs


def load_photos(folder: Path, settings: TrainSettings, *, without: Path | None = None) -> Photos:
    """Read every photograph under a folder; what cannot be read or is too small is named in `skipped`.

    without: a folder inside it to leave out, such as the one that the new prior is written to.

    One in ten, at most 16, is held out: those whose names hash lowest, so that the choice stays when
    others are added or removed.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder", hint="diffbcp train PHOTOS/ -o my-prior/")
    folder, without = folder.resolve(), without and without.resolve()
    pixels: dict[str, Pixels] = {}
    skipped: dict[str, str] = {}
    found = (path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    for path in sorted(path for path in found if without is None or without not in path.parents):
        name = path.relative_to(folder).as_posix()
        try:
            pixels[name] = _read(path, at_least=settings.crop)
        except InputError as error:
            skipped[name] = error.message
    if not pixels:
        reason = "; ".join(list(skipped.values())[:3])
        raise InputError(
            f"there is no photograph to train on in {folder}" + (f": {reason}" if reason else "")
        )
    held = sorted(pixels, key=lambda name: hashlib.sha256(name.encode()).digest())[
        : min(16, len(pixels) // 10)
    ]
    listing = "".join(f"{name} {photo.shape}\n" for name, photo in pixels.items())
    return Photos(
        train=[photo for name, photo in pixels.items() if name not in set(held)],
        held_out=[pixels[name] for name in held],
        skipped=skipped,
        fingerprint=hashlib.sha256(listing.encode()).hexdigest(),
    )


def _read(path: Path, *, at_least: int) -> Pixels:
    """A photograph as (H, W, 3) bytes, whatever its depth and channels; transparency is ignored."""
    pixels = read_photo(path).pixels
    height, width = pixels.shape[:2]
    if min(height, width) < at_least:
        raise InputError(f"{path.name} is {width}x{height}, smaller than a crop of {at_least}")
    colour = np.broadcast_to(pixels, (height, width, 3))
    return np.rint(255 * np.clip(np.nan_to_num(colour), 0, 1)).astype(np.uint8)


def _integer(below: int, rng: Generator) -> int:
    return int(torch.randint(below, (), generator=rng))


def draw_crop(photos: list[Pixels], settings: TrainSettings, *, rng: Generator) -> Tensor:
    """One square crop (3, crop, crop) on [-1, 1]: any photograph, place, turn and flip; some zoomed out."""
    photo = photos[_integer(len(photos), rng)]
    height, width = photo.shape[:2]
    zoom, place, grey = torch.rand(3, generator=rng).tolist()
    size = settings.crop
    if zoom < settings.zoom_share:
        size = min(round(settings.crop * (1 + place * (settings.zoom_most - 1))), height, width)
    top, left = _integer(height - size + 1, rng), _integer(width - size + 1, rng)
    window = photo[top : top + size, left : left + size]
    if size != settings.crop:
        shape = (settings.crop, settings.crop)
        window = np.asarray(Image.fromarray(window).resize(shape, Image.Resampling.BICUBIC))
    crop = torch.from_numpy(window.copy()).permute(2, 0, 1).float() / 127.5 - 1
    turn = _integer(8, rng)
    crop = torch.rot90(crop, turn % 4, (1, 2))
    if turn >= 4:
        crop = crop.flip(2)
    if grey < settings.grey_share:
        crop = crop.mean(0, keepdim=True).expand(3, -1, -1)
    return crop


@dataclass(frozen=True)
class Batch:
    """Clean crops x0 (B, 3, h, w), noisy ones x0 + sigma eps, sigma (B,), and what of them is known (B, 3, h, w).

    Where they are not known the noisy crops hold a guess from what is. masked: (B,) crops with a mask.
    """

    clean: Tensor
    noisy: Tensor
    sigma: Tensor
    known: Tensor
    masked: Tensor


def draw_batch(photos: list[Pixels], settings: TrainSettings, *, rng: Generator) -> Batch:
    """Draw crops, noise and, for a network that takes them, masks.

    A grey crop gets the same noise and mask in its three equal channels, as a grey photograph will have.
    """
    count = settings.batch_size
    clean = torch.stack([draw_crop(photos, settings, rng=rng) for _ in range(count)])
    is_grey = (clean == clean[:, :1]).flatten(1).all(1)[:, None, None, None]
    masked = torch.zeros(count, dtype=torch.bool)
    known = torch.ones_like(clean, dtype=torch.bool)
    if settings.network.takes_mask:
        masked = torch.rand(count, generator=rng) < settings.mask_share
        for index in masked.nonzero()[:, 0].tolist():
            known[index] = draw_mask(clean.shape[1:], rng=rng)
        known = torch.where(is_grey, known[:, :1], known)
    spreads = torch.randn(count, generator=rng).clamp(-3, 3)
    median = torch.where(masked, settings.mask_noise, settings.noise_median)
    sigma = median * (settings.noise_spread * spreads).exp()
    noise = torch.randn(clean.shape, generator=rng)
    noise = torch.where(is_grey, noise[:, :1], noise)
    noisy = clean + sigma[:, None, None, None] * noise
    return Batch(clean, interpolate(noisy, known), sigma, known, masked)


# ---------------------------------------------------------------------------------------------- one step


def fresh_state(settings: TrainSettings, start: Mapping[str, Tensor] | None = None) -> TrainState:
    """The state before the first step.

    start: weights to begin with, of a network with the same channels. Blocks that they do not have begin as
    the identity, and a filler that they do not have as the denoiser, so the network begins as good as they are.
    """
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        network = Natural(settings.network)
    if start is not None:
        _begin_with(network, start)
    average = copy.deepcopy(network).requires_grad_(False)
    optimizers = _optimizers(network, settings)
    return TrainState(network, average, optimizers, rng=torch.Generator().manual_seed(settings.seed))


def _begin_with(network: Natural, start: Mapping[str, Tensor]) -> None:
    """Put weights into a network that may have more blocks, or a filler besides."""
    own = network.state_dict()
    start = {**{_FILLER + key: value for key, value in start.items() if _FILLER + key in own}, **start}
    fits = all(key in own and own[key].shape == value.shape for key, value in start.items())
    grown = own.keys() - start.keys()
    if not fits or any(".blocks." not in key and key != f"{_FILLER}enter_mask.weight" for key in grown):
        raise UsageError(
            "the weights to begin with are of a network of another shape",
            hint=f"channels {network.config.channels}, at most {network.config.blocks} blocks",
        )
    network.load_state_dict({**own, **start})


def _optimizers(network: Natural, settings: TrainSettings) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the convolutions inside, AdamW for the first and last one, biases, and the noise embedding."""
    inner: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, parameter in network.named_parameters():
        is_inner = parameter.ndim == 4 and not name.removeprefix(_FILLER).startswith(("enter", "leave"))
        (inner if is_inner else rest).append(parameter)
    rate = settings.learning_rate
    return (
        Muon(inner, lr=rate, dtype=settings.dtype),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.99), weight_decay=0.0),
    )


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


@torch.no_grad()
def validate(network: Natural, photos: list[Pixels], *, size: int = 128, seed: int = 0) -> dict[str, float]:
    """Mean PSNR on the middle of each held-out photograph, with the same noise and mask every time.

    By noise level as a word, such as "25"; under FILLED if the network takes a mask.
    """
    if not photos:
        return {}
    size = min(size, *(min(photo.shape[:2]) for photo in photos)) // network.config.multiple
    size *= network.config.multiple
    clean = torch.stack([_middle(photo, size) for photo in photos])
    denoiser, result = EDM(network), {}

    def psnr(sigma: float, rng: Generator, known: Tensor | None = None) -> float:
        noisy = clean + sigma * torch.randn(clean.shape, generator=rng)
        if known is not None:
            noisy = interpolate(noisy, known)
        restored = denoiser(noisy, torch.full((len(photos),), sigma), known)
        error = (restored.clamp(-1, 1) - clean).square().mean(dim=(1, 2, 3)) / 4
        return float(-10 * error.log10().mean())

    for level in VALIDATION_LEVELS:
        result[str(level)] = psnr(2 * level / 255, torch.Generator().manual_seed(seed + level))
    if network.config.takes_mask:
        rng = torch.Generator().manual_seed(seed)
        known = torch.rand(len(photos), 1, size, size, generator=rng) < 0.1
        result[FILLED] = psnr(FILLED_NOISE, rng, known.expand_as(clean))
    return result


def _middle(photo: Pixels, size: int) -> Tensor:
    top, left = (photo.shape[0] - size) // 2, (photo.shape[1] - size) // 2
    window = photo[top : top + size, left : left + size].copy()
    return torch.from_numpy(window).permute(2, 0, 1).float() / 127.5 - 1


# ---------------------------------------------------------------------------------------------- checkpoints


def save_state(path: Path, state: TrainState, settings: TrainSettings, photos: Photos) -> None:
    """Write everything the next step depends on as one safetensors file, whole or not at all."""
    tensors: dict[str, Tensor] = {"rng": state.rng.get_state()}
    for name, parameter in state.network.named_parameters():
        tensors[f"network.{name}"] = parameter.detach().contiguous()
        for optimizer in state.optimizers:
            for key, value in optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{key}.{name}"] = value.contiguous()
    for name, parameter in state.average.named_parameters():
        tensors[f"average.{name}"] = parameter.detach().contiguous()
    record = {
        "step": state.step,
        "seconds": state.seconds,
        "decaying": state.decaying,
        "losses": state.losses,
        "validations": state.validations,
        "settings": asdict(settings),
        "photographs": photos.fingerprint,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, tensors, {"training": json.dumps(record)})


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Any, dict[str, Any]]]:
    """A checkpoint that is open, and its record; one that is damaged is an error that says so."""
    try:
        with safe_open(path, framework="pt") as file:
            yield file, json.loads(file.metadata()["training"])
    except (SafetensorError, KeyError, TypeError, ValueError, OSError) as error:
        raise InputError(
            f"the checkpoint {path} cannot be read: {str(error).splitlines()[0]}",
            hint="leave out --resume and train into a new folder, --from this one",
        ) from error


def load_state(path: Path, settings: TrainSettings, photos: Photos) -> TrainState:
    """Read a checkpoint back; the network's shape and the photographs must be the same."""
    state = fresh_state(settings)
    names = {parameter: name for name, parameter in state.network.named_parameters()}
    with _opened(path) as (file, record):
        _same_run(record, settings, photos, path)
        with torch.no_grad():
            for name, parameter in state.network.named_parameters():
                parameter.copy_(file.get_tensor(f"network.{name}"))
            for optimizer, keys in zip(state.optimizers, OPTIMIZER_STATE, strict=True):
                for parameter in optimizer.param_groups[0]["params"]:
                    optimizer.state[parameter] = {
                        key: _like(parameter, file.get_tensor(f"optimizer.{key}.{names[parameter]}"))
                        for key in keys
                    }
            for name, parameter in state.average.named_parameters():
                parameter.copy_(file.get_tensor(f"average.{name}"))
        state.rng.set_state(file.get_tensor("rng"))
    state.step, state.seconds, state.decaying = record["step"], record["seconds"], record["decaying"]
    state.losses = [(step, loss) for step, loss in record["losses"]]
    state.validations = [(step, psnr) for step, psnr in record["validations"]]
    return state


def _like(parameter: Tensor, value: Tensor) -> Tensor:
    """The optimizer's own layout: in the memory order of its parameter."""
    return torch.empty_like(parameter).copy_(value) if value.shape == parameter.shape else value


def with_network_of(path: Path, settings: TrainSettings) -> TrainSettings:
    """The settings for the network that a checkpoint holds; one from before masks does not take any."""
    if not path.is_file():
        return settings
    with _opened(path) as (_, record):
        shape = NaturalConfig.from_options(record["settings"]["network"])
    return replace(settings, network=shape)


def _same_run(record: dict[str, Any], settings: TrainSettings, photos: Photos, path: Path) -> None:
    if NaturalConfig.from_options(record["settings"]["network"]) != settings.network:
        raise UsageError(f"{path} holds a network of another shape", hint="train into a new folder")
    if record["photographs"] != photos.fingerprint:
        raise UsageError(
            f"{path} was trained on other photographs", hint="restore the folder, or train into a new one"
        )


def changed_settings(path: Path, settings: TrainSettings) -> dict[str, tuple[Any, Any]]:
    """What differs from the settings that a checkpoint was made with: name to (then, now).

    Apart from the network's shape any of them may change between stretches; with the same ones a resumed
    run is the uninterrupted run, bit for bit.
    """
    with _opened(path) as (_, record):
        then = record["settings"]
    now = json.loads(json.dumps(asdict(settings)))
    return {key: (then.get(key), value) for key, value in now.items() if then.get(key) != value}


def resume_point(folder: Path, settings: TrainSettings, photos: Photos, plan: Plan) -> TrainState:
    """The state to go on from: the last checkpoint, or the one before a decay that came too early.

    When the last checkpoint is in the decay of a shorter plan, and the new plan has not come to its own
    decay by then, training goes on from `stable/`.
    """
    last = folder / CHECKPOINT
    if not last.is_file():
        raise InputError(f"there is no checkpoint in {folder}", hint="leave out --resume")
    state = load_state(last, settings, photos)
    early = plan.progress(state.step, state.seconds) <= 1 - settings.decay_share
    if state.decaying and early:
        state = load_state(folder / "stable" / CHECKPOINT, settings, photos)
    return state


# ---------------------------------------------------------------------------------------------- the loop


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
