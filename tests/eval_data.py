"""Small results and truths on disk, for the tests of `diffbcp eval`."""

from __future__ import annotations

import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image

from diffbcp_cli.scoring.document import Results, document
from diffbcp_cli.scoring.pairs import Matches, match
from diffbcp_cli.scoring.score import Record, Score, Settings, score_all

SETTINGS = Settings(resamples=200)
SHAPE = (40, 32, 3)


def absent(reason: str) -> None:
    """Something that a test needs is not installed: skip, but fail where everything must run (CI=true)."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def needs(*packages: str) -> None:
    """Leave the test if one of these packages is not installed."""
    for package in packages:
        if find_spec(package) is None:
            absent(f"{package} is not installed: pip install --no-deps {package}")


def levels(picture: np.ndarray) -> np.ndarray:
    """(H, W, C) in [0, 1] as 8-bit levels."""
    return np.rint(255.0 * np.clip(picture, 0.0, 1.0)).astype(np.uint8)


def save(path: Path, picture: np.ndarray) -> np.ndarray:
    """Write a picture and return what a reader will see."""
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = levels(picture)
    Image.fromarray(stored[:, :, 0] if stored.shape[2] == 1 else stored).save(path)
    return stored / 255.0


def truth_picture(seed: int, shape: tuple[int, int, int] = SHAPE) -> np.ndarray:
    """A smooth picture of its own for every seed."""
    rng = np.random.default_rng(seed)
    rows, cols = np.mgrid[0 : shape[0], 0 : shape[1]] / max(shape)
    waves = rng.uniform(2, 12, (shape[2], 2))
    return np.stack([0.5 + 0.4 * np.sin(f * rows) * np.cos(g * cols) for f, g in waves], axis=2)


def make_set(
    root: Path,
    names: tuple[str, ...] = ("a", "b", "sub/c"),
    *,
    method: str = "out",
    noise: float = 0.05,
    uncertain: bool = True,
    draws: int = 0,
    shape: tuple[int, int, int] = SHAPE,
) -> None:
    """Write root/truth/NAME.png, root/METHOD/NAME.mean.png with std, and root/masks/NAME.png.

    The result is the truth plus Gaussian noise, larger where the mask is white, and std says exactly so.
    """
    for number, name in enumerate(names):
        rng = np.random.default_rng([number, len(method)])
        truth = save(root / "truth" / f"{name}.png", truth_picture(number, shape))
        filled = np.zeros(shape[:2], dtype=bool)
        filled[:, : shape[1] // 2] = True
        save(root / "masks" / f"{name}.png", filled[:, :, None].astype(float))
        std = np.where(filled[:, :, None], noise, 0.2 * noise) * np.ones(shape)
        mean = save(root / method / f"{name}.mean.png", truth + std * rng.standard_normal(shape))
        base = root / method / name
        base.with_name(base.name + ".json").write_text(json.dumps({"seed": 0}), encoding="utf-8")
        if uncertain:
            stored = std.astype(np.float32)
            tifffile.imwrite(base.with_name(base.name + ".std.tiff"), stored, photometric="rgb")
            save(base.with_name(base.name + ".std.png"), std)
        if draws:
            samples = mean + std * rng.standard_normal((draws, *shape))
            np.savez_compressed(
                base.with_name(base.name + ".samples.npz"), samples=samples.astype(np.float32)
            )


def pair(seed: int, shape: tuple[int, int, int] = (64, 48, 3)) -> tuple[np.ndarray, np.ndarray]:
    """A smooth random picture and a damaged copy of it, (H, W, C) in [0, 1]."""
    rng = np.random.default_rng(seed)
    h, w, c = shape
    rows, cols = np.mgrid[0:h, 0:w] / max(h, w)
    waves = rng.uniform(2, 20, (c, 2))
    a = np.stack([0.5 + 0.4 * np.sin(f * rows) * np.cos(g * cols) for f, g in waves], axis=2)
    b = a + rng.normal(0.0, rng.uniform(0.01, 0.3), shape)
    return a, np.clip(b, 0.0, 1.0)


def batch(x: np.ndarray) -> torch.Tensor:
    """(H, W, C) -> (1, C, H, W)."""
    return torch.from_numpy(x).permute(2, 0, 1)[None]


def scores_of(matches: Matches, settings: Settings = SETTINGS) -> list[Score]:
    """The scores of all pairs that can be scored."""
    return [one for one in score_all(matches.pairs, settings) if isinstance(one, Score)]


def document_of(root: Path, *methods: str) -> tuple[Record, dict[str, Results]]:
    """The document of some methods below root, and their results."""
    sets = {}
    for method in methods:
        matches = match(root / method, root / "truth", mask=root / "masks")
        sets[method] = Results(matches, scores_of(matches), [])
    return document(sets, SETTINGS, {"lpips": "not asked for"}), sets
