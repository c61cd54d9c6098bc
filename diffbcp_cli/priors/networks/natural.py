"""The network `natural`: a small U-Net that denoises photographs of any size.

Every level is made of 3 x 3 convolutions in residual blocks. No layer uses the batch or statistics of the whole
image, so a crop gets the same result as the same pixels inside a larger photograph.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..base import Traits
from ..precondition import EDM, Blind
from . import Architecture

MOST, MOST_LEVELS, MOST_BLOCKS, MOST_WEIGHTS = (
    8192,
    8,
    256,
    2 * 10**9,
)  # of a network; they are counted before it is built


@dataclass(frozen=True)
class NaturalConfig:
    """The shape of the network.

    channels: one entry per level; level l works at 1 / 2^(l+1) of the size of the image.
    blocks: residual blocks per level, on the way down and again on the way up (at the last level only once).
    takes_mask: there is a second network, which is told which entries of the image are missing.
    filler_channels, filler_blocks: the shape of that second network; None: that of the first.
    takes_levels: there is one network, which is told how much noisier than the rest each entry is (EDM.of_levels).
    blind: the noise may be of any kind and of unknown level; the network also says how wrong it is (Blind).
    """

    channels: tuple[int, ...] = (64, 128, 192)
    blocks: tuple[int, ...] = (1, 2, 2)
    image_channels: int = 3
    embedding_channels: int = 128
    takes_mask: bool = False
    takes_levels: bool = False
    blind: bool = False
    filler_channels: tuple[int, ...] | None = None
    filler_blocks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse a shape that no network can have."""
        if not self.channels or len(self.channels) != len(self.blocks):
            raise ValueError(
                f"channels {self.channels} and blocks {self.blocks} must have one entry per level"
            )
        if self.takes_mask and self.takes_levels:
            raise ValueError("a network that takes levels needs no second network that takes a mask")
        if self.blind and (self.takes_mask or self.takes_levels):
            raise ValueError("a network for noise of any kind takes no mask")
        if self._has_own_filler:
            if not self.takes_mask:
                raise ValueError(
                    "only a network that takes a mask has a second network with a shape of its own"
                )
            _ = self.filler  # refuses its shape
        numbers = (*self.channels, *self.blocks, self.image_channels, self.embedding_channels)
        if any(type(one) is not int or not 0 <= one <= MOST for one in numbers) or 0 in self.channels:
            raise ValueError(f"sizes are whole numbers from 1 to {MOST}")
        weights = sum(
            36 * blocks * wide * wide for wide, blocks in zip(self.channels, self.blocks, strict=True)
        )
        blocks = sum(self.blocks)
        too_many = len(self.channels) > MOST_LEVELS or blocks > MOST_BLOCKS or weights > MOST_WEIGHTS
        if too_many or self.image_channels not in (1, 3):
            raise ValueError(
                f"{len(self.channels)} levels of {blocks} blocks with {weights:,} weights are too many"
            )

    @property
    def multiple(self) -> int:
        """Height and width must be multiples of this."""
        return 1 << max(len(self.channels), len(self.filler_channels or ()))

    @property
    def filler(self) -> NaturalConfig:
        """The shape of the network that fills."""
        channels, blocks = self.filler_channels or self.channels, self.filler_blocks or self.blocks
        return replace(self, channels=channels, blocks=blocks, filler_channels=None, filler_blocks=None)

    @property
    def _has_own_filler(self) -> bool:
        return self.filler_channels is not None or self.filler_blocks is not None

    def options(self) -> dict[str, Any]:
        """The options, as in config.json."""
        options = asdict(self)
        # so that versions before these options read the file
        for late in ("takes_levels", "blind", "filler_channels", "filler_blocks"):
            if not options[late]:
                del options[late]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> NaturalConfig:
        """The inverse of `options`; an unknown key is a TypeError."""
        lists = {key: tuple(value) for key, value in options.items() if isinstance(value, list)}
        values: dict[str, Any] = {**options, **lists}
        return cls(**values)


class NoiseEmbedding(nn.Module):
    """The noise level as a vector: slow sines and cosines of c_noise, then two linear layers."""

    frequencies: Tensor

    def __init__(self, channels: int, waves: int = 16) -> None:
        super().__init__()
        # c_noise = ln(sigma) / 4 spans about 1.5 in use: from a tenth of a period to four periods
        frequencies = torch.logspace(math.log10(0.5), math.log10(16.0), waves)
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.inner = nn.Linear(2 * waves, channels)
        self.outer = nn.Linear(channels, channels)

    def forward(self, c_noise: Tensor, extra: Tensor | None = None) -> Tensor:
        """c_noise (B,) -> (B, channels). extra (B, channels) is added before the first activation."""
        angle = c_noise[:, None] * self.frequencies  # (B, waves)
        wave = torch.cat([angle.cos(), angle.sin()], dim=1)  # (B, 2 waves)
        hidden = self.inner(wave) if extra is None else self.inner(wave) + extra
        return F.silu(self.outer(F.silu(hidden)))


class ResidualBlock(nn.Module):
    """x + conv(relu(scale * conv(x) + shift)), scale and shift set by the noise level.

    The second convolution starts at zero, so that a fresh block is the identity.
    """

    def __init__(self, channels: int, embedding_channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.modulate = nn.Linear(embedding_channels, 2 * channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        for layer in (self.modulate, self.second):
            nn.init.zeros_(layer.weight)
            nn.init.zeros_(layer.bias)  # type: ignore[arg-type]

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """x (B, C, h, w), embedding (B, E) -> (B, C, h, w)."""
        scale, shift = self.modulate(embedding).chunk(2, dim=1)  # (B, C) each
        if len(x) == 1:  # scale and shift inside the convolution: saves a pass over the image
            weight = self.first.weight * (1 + scale[0, :, None, None, None])
            hidden = F.conv2d(x, weight, shift[0], padding=1)
        else:
            hidden = torch.addcmul(shift[:, :, None, None], self.first(x), 1 + scale[:, :, None, None])
        change: Tensor = self.second(F.relu(hidden, inplace=True))
        return change.add_(x)


class Level(nn.Module):
    """A run of residual blocks at one resolution."""

    def __init__(self, channels: int, blocks: int, embedding_channels: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(ResidualBlock(channels, embedding_channels) for _ in range(blocks))

    def forward(self, x: Tensor, embedding: Tensor) -> Tensor:
        """x (B, C, h, w), embedding (B, E) -> (B, C, h, w)."""
        for block in self.blocks:
            x = block(x, embedding)
        return x


class UNet(nn.Module):
    """Image (B, C, H, W) and c_noise (B,) to (B, C, H, W); H and W must be multiples of `config.multiple`.

    A blind network gives (B, 2C, H, W).

    masked: it also gets the mask of missing entries, through a convolution that starts at zero. Before training,
    the network therefore ignores the mask. A network that takes levels also gets the share of missing entries.
    """

    def __init__(self, config: NaturalConfig, *, masked: bool) -> None:
        super().__init__()
        self.config = config
        widths, pixels, wide = config.channels, 4 * config.image_channels, config.embedding_channels
        steps = list(pairwise(widths))
        self.embed = NoiseEmbedding(wide)
        self.enter = nn.Conv2d(pixels, widths[0], 3, padding=1)
        if masked:
            self.enter_mask = nn.Conv2d(pixels, widths[0], 3, padding=1, bias=False)
            nn.init.zeros_(self.enter_mask.weight)
        if config.takes_levels:
            self.enter_share = nn.Linear(1, wide, bias=False)
            nn.init.zeros_(self.enter_share.weight)
        self.encode = nn.ModuleList(Level(c, n, wide) for c, n in zip(widths, config.blocks, strict=True))
        self.down = nn.ModuleList(nn.Conv2d(fine, coarse, 2, stride=2) for fine, coarse in steps)
        self.up = nn.ModuleList(nn.Conv2d(coarse, 4 * fine, 1) for fine, coarse in steps)
        self.decode = nn.ModuleList(
            Level(c, n, wide) for c, n in zip(widths[:-1], config.blocks[:-1], strict=True)
        )
        self.leave = nn.Conv2d(widths[0], 2 * pixels if config.blind else pixels, 3, padding=1)
        nn.init.zeros_(self.leave.weight)
        nn.init.zeros_(self.leave.bias)  # type: ignore[arg-type]
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(self, x: Tensor, c_noise: Tensor, missing: Tensor | None = None) -> Tensor:
        """x (B, C, H, W), c_noise (B,), missing (B, C, H, W) 1 where x holds a guess -> (B, C, H, W)."""
        share = None
        if missing is not None and self.config.takes_levels:
            share = self.enter_share(missing.mean((1, 2, 3))[:, None])  # (B, E)
        embedding = self.embed(c_noise, share)  # (B, E)
        h = self.enter(_unshuffle(x))  # (B, c0, H/2, W/2)
        if missing is not None:
            h = h + self.enter_mask(_unshuffle(missing))
        kept = []
        for level, down in zip(self.encode, self.down, strict=False):
            h = level(h, embedding)
            kept.append(h)
            h = down(h)  # half the size, the next width
        h = self.encode[-1](h, embedding)
        for level, up in zip(reversed(self.decode), reversed(self.up), strict=True):
            h = F.pixel_shuffle(up(h), 2) + kept.pop()
            h = level(h, embedding)
        return F.pixel_shuffle(self.leave(h), 2)  # (B, C, H, W)


class Natural(UNet):
    """F(c_in x, c_noise) of EDM: image (B, C, H, W) and c_noise (B,) to (B, C, H, W).

    Missing entries are filled by a second network, `filler`: a single one trained for both denoises 0.4 dB worse.
    """

    def __init__(self, config: NaturalConfig) -> None:
        super().__init__(config, masked=config.takes_levels)
        self.filler = UNet(config.filler, masked=True) if config.takes_mask else None

    def forward(self, x: Tensor, c_noise: Tensor, missing: Tensor | None = None) -> Tensor:
        """x (B, C, H, W), c_noise (B,), missing (B, C, H, W) 1 where x holds a guess -> (B, C, H, W)."""
        if missing is None or self.config.takes_levels:
            return super().forward(x, c_noise, missing)
        if self.filler is None:
            raise ValueError("this network does not take a mask")
        filled: Tensor = self.filler(x, c_noise, missing)
        return filled


def build(options: Mapping[str, Any], schedule: Mapping[str, Any]) -> Architecture:
    """The network of a config.json. It was trained on photographs in all quarter turns."""
    config = NaturalConfig.from_options(options)
    takes_mask = config.takes_mask or config.takes_levels
    traits = Traits(
        channels=config.image_channels, takes_mask=takes_mask, rotations=4, any_noise=config.blind
    )
    precondition = Blind if config.blind else EDM
    return Architecture(Natural(config), precondition, traits, config.multiple, tolerant=True)


def _unshuffle(x: Tensor) -> Tensor:
    """(B, C, H, W) -> (B, 4C, H/2, W/2)."""
    return F.pixel_unshuffle(x, 2).contiguous(memory_format=torch.channels_last)
