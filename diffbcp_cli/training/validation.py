"""How well a network denoises and fills photographs that were held out."""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from ..priors.interpolate import interpolate
from ..priors.networks.natural import Natural
from ..priors.precondition import EDM
from .photos import Pixels

VALIDATION_LEVELS = (15, 25, 50, 75)
"""Noise levels of the validation, of 255; on [-1, 1] they are 2 / 255 as large."""
FILLED = "90 % missing"
"""What the validation calls filling nine in ten pixels, at the noise below."""
FILLED_NOISE = 0.05


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
