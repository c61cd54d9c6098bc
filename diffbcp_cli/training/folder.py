"""The folder of a freshly trained prior, in the layout of a Hub repo: weights, config, model card, plot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from .. import __version__
from ..photos import files
from ..photos.tensors import write_tensors
from . import Photos, Plan, TrainSettings, TrainState

CARD = """---
library_name: diffbcp
tags: [denoising, inpainting, diffusion]
---
# A prior trained with diffbcp

A small fully convolutional network that denoises photographs of any size; `diffbcp` uses it as the data prior
when it fills missing pixels and removes noise.

    diffbcp inpaint photo.png --mask mask.png --prior {folder} -o out/

## Network
`natural`: {parameters:,} parameters, channels {channels}, residual blocks {blocks},
EDM preconditioning with a data standard deviation of 0.5, RGB on [-1, 1]. Grey photographs go in as three
equal channels.

## Data
{photographs} photographs to train on and {held_out} held out, from a folder named `{source}`.
Say here where they come from and under which licences.

## Recipe
{steps:,} steps in {hours:.2f} hours ({progress:.0%} of the plan), with diffbcp {version} and torch {torch},
on the processor with {threads} threads.
Batches of {batch_size} crops of {crop} x {crop} in {precision}; flips, quarter turns, {zoom:.0%} of the crops
scaled down (by {zoom_most:g} at most), {grey:.0%} made grey. Muon for the inner convolutions and AdamW for the rest,
with a peak learning rate of {rate:g}, warm-up over {warm_up} steps, cosine decay over the last {decay:.0%};
average of the weights with decay {ema}.
ln(sigma) ~ N(ln {median}, {spread}^2); {masked}. Seed {seed}.

## Quality
Mean PSNR in dB on the held-out photographs, by noise level (standard deviation, of 255), and of filling missing
pixels at a noise of 0.025 of 1:

{table}

## Limits
Trained on noise that is Gaussian and independent between pixels. It knows the textures of its photographs,
not objects: it fills wide holes smoothly.
"""


def write_model_folder(
    folder: Path, state: TrainState, settings: TrainSettings, photos: Photos, plan: Plan, *, source: str
) -> list[Path]:
    """Write config.json, model.safetensors (the averaged weights), README.md and training.png."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: value.contiguous() for name, value in state.average.state_dict().items()}
    model = folder / "model.safetensors"
    write_tensors(model, weights, {"format": "pt"})
    config = folder / "config.json"
    shape = {"architecture": "natural", **settings.network.options()}
    files.write_bytes(config, (json.dumps(shape, indent=2) + "\n").encode())
    card = folder / "README.md"
    files.write_bytes(card, model_card(folder.name, state, settings, photos, plan, source=source).encode())
    plot = folder / "training.png"
    plot_training(plot, state)
    return [config, model, card, plot]


def model_card(
    folder: str, state: TrainState, settings: TrainSettings, photos: Photos, plan: Plan, *, source: str
) -> str:
    """The model card, filled in with what is known about this training."""
    psnr = state.validations[-1][1] if state.validations else {}
    table = "| noise | " + " | ".join(str(level) for level in psnr) + " |\n"
    table += "| --- |" + " --- |" * len(psnr) + "\n"
    table += "| PSNR | " + " | ".join(f"{value:.2f}" for value in psnr.values()) + " |"
    return CARD.format(
        folder=folder,
        parameters=sum(p.numel() for p in state.network.parameters()),
        channels=settings.network.channels,
        blocks=settings.network.blocks,
        photographs=len(photos.train),
        held_out=len(photos.held_out),
        source=source,
        steps=state.step,
        hours=state.seconds / 3600,
        progress=min(1.0, plan.progress(state.step, state.seconds)),
        version=__version__,
        torch=torch.__version__,
        threads=torch.get_num_threads(),
        batch_size=settings.batch_size,
        crop=settings.crop,
        precision=settings.precision,
        zoom=settings.zoom_share,
        zoom_most=settings.zoom_most,
        grey=settings.grey_share,
        rate=settings.learning_rate,
        warm_up=settings.warm_up,
        decay=settings.decay_share,
        ema=settings.ema,
        median=settings.noise_median,
        spread=settings.noise_spread,
        masked=(
            f"{settings.mask_share:.0%} of the crops with entries missing, and {settings.mask_noise:g} in place of "
            f"{settings.noise_median:g}"
            if settings.network.takes_mask
            else "nothing missing"
        ),
        seed=settings.seed,
        table=table if psnr else "There were too few photographs to hold any out.",
    )


def plot_training(path: Path, state: TrainState) -> None:
    """Plot the loss (medians) and the validation PSNR against the steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.plot(*_smooth(state.losses))
    left.set(xlabel="step", ylabel="loss", title="training loss")
    levels = state.validations[-1][1] if state.validations else {}
    for level in levels:
        points = [(step, psnr[level]) for step, psnr in state.validations if level in psnr]
        label = f"noise {level}/255" if level.isdigit() else level
        right.plot([step for step, _ in points], [value for _, value in points], label=label)
    right.set(xlabel="step", ylabel="PSNR (dB)", title="held-out photographs")
    if levels:
        right.legend()
    with files.replacing(path) as temporary:
        figure.savefig(temporary, format="png", dpi=110)


def _smooth(losses: list[tuple[int, float]], points: int = 150) -> tuple[list[float], list[float]]:
    """Medians of steps and losses over stretches of equal length: one wild batch does not show."""
    if not losses:
        return [], []
    stretches = np.array_split(np.array(losses), min(points, len(losses)))
    medians = np.array([np.median(stretch, axis=0) for stretch in stretches])
    return medians[:, 0].tolist(), medians[:, 1].tolist()
