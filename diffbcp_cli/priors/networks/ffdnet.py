"""FFDNet: a plain stack of convolutions at half of the resolution, told the noise level as one more channel.

The four pixels of each 2 x 2 block become channels, so the convolutions see a quarter of the positions. Reference:
Zhang, Zuo, Zhang, FFDNet: Toward a Fast and Flexible Solution for CNN-based Image Denoising, IEEE TIP 2018. Module
names follow the published weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..base import Traits
from ..precondition import Told
from . import Architecture, check_channels, whole_numbers

MOST = 1024  # of a size


@dataclass(frozen=True)
class FFDNetConfig:
    """The shape of the network. layers: convolutions. highest: the largest noise level of its training, of 255."""

    image_channels: int = 3
    channels: int = 96
    layers: int = 12
    highest: float = 75.0

    def __post_init__(self) -> None:
        check_channels(self.image_channels)
        whole_numbers(MOST, self.channels, self.layers)
        if self.layers < 2 or not 0 < self.highest < MOST:
            raise ValueError(f"{self.layers} layers up to noise level {self.highest}")


class FFDNet(nn.Module):
    """Image (B, C, H, W) on [0, 1] and its noise level (B,) to (B, C, H, W); H and W are even."""

    def __init__(self, config: FFDNetConfig) -> None:
        super().__init__()
        pixels, wide = 4 * config.image_channels, config.channels
        layers: list[nn.Module] = [nn.Conv2d(pixels + 1, wide, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(config.layers - 2):
            layers += [nn.Conv2d(wide, wide, 3, padding=1), nn.ReLU(inplace=True)]
        self.model = nn.Sequential(*layers, nn.Conv2d(wide, pixels, 3, padding=1))

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        """x (B, C, H, W), level (B,) -> the clean image (B, C, H, W)."""
        h = F.pixel_unshuffle(x, 2)  # (B, 4C, H/2, W/2)
        plane = level.to(h.dtype).reshape(-1, 1, 1, 1).expand(-1, 1, *h.shape[2:])
        return F.pixel_shuffle(self.model(torch.cat([h, plane], 1)), 2)


def build(options: Mapping[str, Any], schedule: Mapping[str, Any]) -> Architecture:
    """The network of a config.json. It was trained on photographs that were turned at random."""
    config = FFDNetConfig(**options)
    precondition = partial(Told, highest=config.highest / 255)
    traits = Traits(channels=config.image_channels, rotations=4)
    return Architecture(FFDNet(config), precondition, traits, 2)
