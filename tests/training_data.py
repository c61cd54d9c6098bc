"""Small photographs and a small network, for the tests of `diffbcp train`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from diffbcp_cli import training
from diffbcp_cli.priors.networks.natural import NaturalConfig

SMALL = training.TrainSettings(
    network=NaturalConfig(channels=(8, 12), blocks=(1, 1), embedding_channels=8),
    batch_size=3,
    crop=16,
    warm_up=4,
)
MASKED = replace(SMALL, network=replace(SMALL.network, takes_mask=True))
LEVELS = replace(SMALL, network=replace(SMALL.network, takes_levels=True))


def make_photos(folder: Path) -> None:
    """Write twelve smooth pictures of different sizes."""
    rng = np.random.default_rng(0)
    for index in range(12):
        coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
        coarse.resize((40 + index, 36), Image.Resampling.BICUBIC).save(folder / f"{index}.png")


def go(
    state: training.TrainState,
    photos: training.Photos,
    plan: training.Plan,
    out: Path,
    settings: training.TrainSettings = SMALL,
) -> list[training.TrainInfo]:
    """Train to the end of the plan."""
    return list(training.train(state, photos, settings, plan, out, save_every=1e9, validate_every=4))
