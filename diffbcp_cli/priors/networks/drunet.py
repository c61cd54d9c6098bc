"""DRUNet: a U-Net of four scales with residual blocks and no biases, told the noise level as one more channel.

Reference: Zhang, Li, Zuo, Zhang, Van Gool, Timofte, Plug-and-Play Image Restoration with Deep Denoiser Prior, IEEE
TPAMI 2022. Module names follow the published weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..base import Traits
from ..precondition import Told
from . import Architecture, check_channels, whole_numbers

MOST = 1024  # of a size


@dataclass(frozen=True)
class DRUNetConfig:
    """The shape of the network.

    channels: at each of the four scales. blocks: residual blocks of a scale, on each way. highest: the largest noise
    level of its training, of 255.
    """

    image_channels: int = 3
    channels: tuple[int, ...] = (64, 128, 256, 512)
    blocks: int = 4
    highest: float = 50.0

    def __post_init__(self) -> None:
        check_channels(self.image_channels)
        whole_numbers(MOST, *self.channels, self.blocks)
        if len(self.channels) != 4 or not 0 < self.highest < MOST:
            raise ValueError(f"{len(self.channels)} scales, not 4, up to noise level {self.highest}")


class ResidualBlock(nn.Module):
    """x + conv(relu(conv(x)))."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.res = nn.Sequential(_conv(channels, channels), nn.ReLU(inplace=True), _conv(channels, channels))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, h, w) -> (B, C, h, w)."""
        change: Tensor = self.res(x)
        return x + change


class DRUNet(nn.Module):
    """Image (B, C, H, W) on [0, 1] and its noise level (B,) to (B, C, H, W); H and W are multiples of 8."""

    def __init__(self, config: DRUNetConfig) -> None:
        super().__init__()
        c0, c1, c2, c3 = config.channels

        def down(fine: int, coarse: int) -> nn.Sequential:
            return nn.Sequential(*blocks(fine), nn.Conv2d(fine, coarse, 2, stride=2, bias=False))

        def up(coarse: int, fine: int) -> nn.Sequential:
            return nn.Sequential(nn.ConvTranspose2d(coarse, fine, 2, stride=2, bias=False), *blocks(fine))

        def blocks(channels: int) -> list[ResidualBlock]:
            return [ResidualBlock(channels) for _ in range(config.blocks)]

        self.m_head = _conv(config.image_channels + 1, c0)
        self.m_down1, self.m_down2, self.m_down3 = down(c0, c1), down(c1, c2), down(c2, c3)
        self.m_body = nn.Sequential(*blocks(c3))
        self.m_up3, self.m_up2, self.m_up1 = up(c3, c2), up(c2, c1), up(c1, c0)
        self.m_tail = _conv(c0, config.image_channels)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        """x (B, C, H, W), level (B,) -> the clean image (B, C, H, W)."""
        plane = level.to(x.dtype).reshape(-1, 1, 1, 1).expand(-1, 1, *x.shape[2:])
        whole = self.m_head(torch.cat([x, plane], 1))
        half = self.m_down1(whole)
        quarter = self.m_down2(half)
        eighth = self.m_down3(quarter)
        h = self.m_up3(self.m_body(eighth) + eighth)
        h = self.m_up1(self.m_up2(h + quarter) + half)
        clean: Tensor = self.m_tail(h + whole)
        return clean


def build(options: Mapping[str, Any], schedule: Mapping[str, Any]) -> Architecture:
    """The network of a config.json. It was trained on photographs that were turned at random."""
    lists = {key: tuple(value) for key, value in options.items() if isinstance(value, list)}
    config = DRUNetConfig(**{**options, **lists})
    precondition = partial(Told, highest=config.highest / 255)
    traits = Traits(channels=config.image_channels, rotations=4)
    return Architecture(DRUNet(config), precondition, traits, 8)


def _conv(inside: int, outside: int) -> nn.Conv2d:
    return nn.Conv2d(inside, outside, 3, padding=1, bias=False)
