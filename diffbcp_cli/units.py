"""The two scales of the package, and the only place where one becomes the other.

People and files use [0, 1], pictures as NumPy arrays (H, W, C). Samplers and priors use [-1, 1], pictures as
tensors (C, H, W). A standard deviation on [-1, 1] is twice the same one on [0, 1].
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats: TypeAlias = NDArray[np.float32]
Bools: TypeAlias = NDArray[np.bool_]

RANGE = 2  # the length of [-1, 1]
GREY = 0.5  # the middle of [0, 1], which is 0 on [-1, 1]


def to_signed(pixels: Floats, device: torch.device | None = None) -> Tensor:
    """Pixels (H, W, C) on [0, 1] to an image (C, H, W) on [-1, 1]."""
    return torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1))).to(device) * RANGE - 1


def to_unit(image: Tensor) -> Floats:
    """An image (C, H, W) on [-1, 1] to pixels (H, W, C) on [0, 1]."""
    return np.ascontiguousarray(_channels_last(image) / RANGE + np.float32(GREY))


def std_to_unit(std: Tensor) -> Floats:
    """A map of standard deviations (C, H, W) on the [-1, 1] scale to (H, W, C) on the [0, 1] scale."""
    return np.ascontiguousarray(_channels_last(std) / RANGE)


def level_to_signed(std: float) -> float:
    """A standard deviation on the [0, 1] scale to the [-1, 1] scale."""
    return RANGE * std


def level_to_unit(std: float) -> float:
    """A standard deviation on the [-1, 1] scale to the [0, 1] scale."""
    return std / RANGE


def value_to_unit(value: float) -> float:
    """A brightness on [-1, 1] to [0, 1]."""
    return value / RANGE + GREY


def values_to_unit(values: Tensor) -> Tensor:
    """Brightnesses on [-1, 1] to [0, 1], whatever the shape."""
    return values / RANGE + GREY


def values_to_signed(values: Tensor) -> Tensor:
    """Brightnesses on [0, 1] to [-1, 1], whatever the shape."""
    return values * RANGE - 1


def _channels_last(image: Tensor) -> Floats:
    values: Floats = image.permute(1, 2, 0).float().cpu().numpy()
    return values
