"""Priors and the denoisers of DeepInverse (the package deepinv), in both directions.

A denoiser of deepinv takes images on [0, 1] and a noise level on that scale, a prior takes both on [-1, 1].
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..units import level_to_signed, level_to_unit, values_to_signed, values_to_unit
from .base import Denoises, Traits


class FromDeepinv:
    """A denoiser of deepinv as a prior. It must be told if it knows colours only: channels=3."""

    def __init__(self, denoiser: nn.Module, *, channels: int | None = None) -> None:
        self.denoiser = denoiser
        self.traits = Traits(channels=channels)

    def denoise(self, x: Tensor, sigma: Tensor | float, /) -> Tensor:
        """E[x0 | x0 + sigma eps = x]: x (B, C, H, W) on [-1, 1], sigma a scalar or (B,)."""
        level = torch.as_tensor(sigma, dtype=x.dtype, device=x.device)
        found: Tensor = self.denoiser(values_to_unit(x), level_to_unit(level.expand(len(x))))  # type: ignore[arg-type]
        return values_to_signed(found)


def as_deepinv(prior: Denoises) -> nn.Module:
    """A prior as a denoiser of deepinv: `model(x, sigma)`, x (B, C, H, W) on [0, 1], for its algorithms."""
    try:
        from deepinv.models import Denoiser
    except ImportError as error:
        raise UsageError(
            "as_deepinv needs the package deepinv", hint="pip install 'diffbcp[deepinv]'"
        ) from error

    class AsDeepinv(Denoiser):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.prior = prior

        def forward(self, x: Tensor, sigma: float | Tensor, **ignored: Any) -> Tensor:
            """E[x0 | x0 + sigma eps = x] on [0, 1]."""
            level = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).reshape(-1)
            signed = level_to_signed(level.expand(len(x)))  # type: ignore[arg-type]
            return values_to_unit(prior.denoise(values_to_signed(x), signed))

    return AsDeepinv()
