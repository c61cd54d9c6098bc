"""The U-Net of "Diffusion Models Beat GANs" (ADM): epsilon from a noisy image and a time step.

Module names and nesting follow the published checkpoints, so that their state dicts load strictly:
`input_blocks.N.M`, `middle_block.M`, `output_blocks.N.M`, `out`. Layers without weights keep the indices right.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import ModelError
from ..base import Traits
from ..precondition import VP
from . import MOST_BLOCKS, Architecture, check_channels, whole_numbers

NORM_GROUPS = 32
MOST = 8192  # of a size
# Options of the published training scripts that do not change the trained network.
_TRAINING_ONLY = {"architecture", "dropout", "use_fp16", "use_checkpoint", "num_heads_upsample"}


@dataclass(frozen=True)
class AdmConfig:
    """The shape of an ADM network, by the names its training scripts use."""

    image_size: int = 256
    in_channels: int = 3
    model_channels: int = 128
    num_res_blocks: int = 1
    channel_mult: tuple[int, ...] = (1, 1, 2, 2, 4, 4)
    attention_resolutions: tuple[int, ...] = (16,)
    num_heads: int = 4
    num_head_channels: int = 64
    learn_sigma: bool = True
    use_scale_shift_norm: bool = True
    resblock_updown: bool = True
    use_new_attention_order: bool = False

    def __post_init__(self) -> None:
        whole_numbers(MOST, self.model_channels)
        whole_numbers(MOST_BLOCKS, self.num_res_blocks, len(self.channel_mult))
        if self.model_channels % NORM_GROUPS:
            raise ModelError(f"model_channels must be a multiple of {NORM_GROUPS}, not {self.model_channels}")
        if not self.channel_mult or self.image_size % self.multiple:
            raise ModelError(
                f"image_size {self.image_size} cannot be halved {len(self.channel_mult) - 1} times"
            )

    @property
    def multiple(self) -> int:
        """Height and width of an input are multiples of this."""
        return int(2 ** (len(self.channel_mult) - 1))

    @property
    def out_channels(self) -> int:
        """Channels of the output: epsilon, and with learn_sigma as many again for the variance."""
        return self.in_channels * (2 if self.learn_sigma else 1)

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> AdmConfig:
        """Read the options of a config.json; an unknown option is an error."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(options) - known - _TRAINING_ONLY)
        if unknown:
            raise ModelError(
                f"config.json has options that an adm network does not know: {', '.join(unknown)}"
            )
        given = {name: options[name] for name in known & set(options)}
        for name in ("channel_mult", "attention_resolutions"):
            if name in given:
                given[name] = tuple(given[name])
        return cls(**given)


def timestep_embedding(timesteps: Tensor, width: int) -> Tensor:
    """Cosines and sines of the time step at `width` / 2 frequencies from 1 down to 1/10000.

    timesteps: (B,) any real numbers. Returns (B, width), float32.
    """
    half = width // 2
    frequencies = torch.exp(-math.log(10_000) * torch.arange(half, device=timesteps.device) / half)
    angles = timesteps[:, None].float() * frequencies  # (B, half)
    return torch.cat([angles.cos(), angles.sin()], dim=1)


def group_norm(channels: int) -> nn.GroupNorm:
    """The normalisation of all layers."""
    return nn.GroupNorm(NORM_GROUPS, channels)


class Down(nn.Module):
    """Halve height and width: a strided convolution, or the mean of 2 x 2."""

    def __init__(self, channels: int, *, conv: bool) -> None:
        super().__init__()
        self.op = nn.Conv2d(channels, channels, 3, stride=2, padding=1) if conv else nn.AvgPool2d(2)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C, H/2, W/2)."""
        y: Tensor = self.op(x)
        return y


class Up(nn.Module):
    """Double height and width by repeating pixels, then a convolution if wanted."""

    def __init__(self, channels: int, *, conv: bool) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1) if conv else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C, 2H, 2W)."""
        y: Tensor = self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return y


class ResBlock(nn.Module):
    """Norm, SiLU, convolution, twice; the time embedding enters between; a skip around both."""

    def __init__(
        self,
        channels: int,
        out_channels: int,
        emb_channels: int,
        *,
        scale_shift: bool,
        resample: nn.Module | None,
    ) -> None:
        super().__init__()
        self.scale_shift = scale_shift
        self.resample = resample if resample is not None else nn.Identity()
        self.in_layers = nn.Sequential(
            group_norm(channels), nn.SiLU(), nn.Conv2d(channels, out_channels, 3, padding=1)
        )
        self.emb_layers = nn.Sequential(
            nn.SiLU(), nn.Linear(emb_channels, 2 * out_channels if scale_shift else out_channels)
        )
        self.out_layers = nn.Sequential(
            group_norm(out_channels),
            nn.SiLU(),
            nn.Identity(),
            nn.Conv2d(out_channels, out_channels, 3, padding=1),
        )
        same = channels == out_channels
        self.skip_connection = nn.Identity() if same else nn.Conv2d(channels, out_channels, 1)

    def forward(self, x: Tensor, emb: Tensor) -> Tensor:
        """x: (B, C, H, W), emb: (B, E) -> (B, C', H', W')."""
        norm, act, conv = self.in_layers
        h = conv(self.resample(act(norm(x))))
        e = self.emb_layers(emb)[:, :, None, None]  # (B, C' or 2C', 1, 1)
        norm, *rest = self.out_layers
        if self.scale_shift:
            scale, shift = e.chunk(2, dim=1)
            h = norm(h) * (1 + scale) + shift
        else:
            h = norm(h + e)
        for layer in rest:
            h = layer(h)
        out: Tensor = self.skip_connection(self.resample(x)) + h
        return out


class Attention(nn.Module):
    """Self-attention over all positions, with a skip around it.

    The 3C channels of `qkv` are laid out as (heads, qkv, C / heads), or in the newer order as
    (qkv, heads, C / heads).
    """

    def __init__(self, channels: int, *, heads: int, new_order: bool) -> None:
        super().__init__()
        self.heads = heads
        self.new_order = new_order
        self.norm = group_norm(channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = nn.Conv1d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> the same shape."""
        batch, channels, height, width = x.shape
        flat = x.reshape(batch, channels, height * width)
        qkv = self.qkv(self.norm(flat))  # (B, 3C, HW)
        if self.new_order:
            qkv = qkv.reshape(batch, 3, self.heads, channels // self.heads, -1).transpose(1, 2)
        else:
            qkv = qkv.reshape(batch, self.heads, 3, channels // self.heads, -1)
        q, k, v = qkv.transpose(-1, -2).unbind(2)  # each (B, heads, HW, C / heads)
        h = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(batch, channels, -1)
        out: Tensor = flat + self.proj_out(h)
        return out.reshape(x.shape)


class Stage(nn.ModuleList):
    """A sequence of layers; residual blocks also get the time embedding."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__(layers)

    def forward(self, x: Tensor, emb: Tensor) -> Tensor:
        """x: (B, C, H, W), emb: (B, E) -> (B, C', H', W')."""
        for layer in self:
            x = layer(x, emb) if isinstance(layer, ResBlock) else layer(x)
        return x


class AdmUNet(nn.Module):
    """epsilon(x_t, t), and with learn_sigma the variance channels behind it."""

    def __init__(self, config: AdmConfig) -> None:
        super().__init__()
        self.config = config
        width = config.model_channels
        self.time_embed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, 4 * width)
        )
        skips = self._build_input()  # channels of every skip connection
        channels = skips[-1]
        self.middle_block = Stage(
            self._res_block(channels, channels),
            self._attention(channels),
            self._res_block(channels, channels),
        )
        channels = self._build_output(channels, skips)
        self.out = nn.Sequential(
            group_norm(channels), nn.SiLU(), nn.Conv2d(channels, config.out_channels, 3, padding=1)
        )

    def forward(self, x: Tensor, timesteps: Tensor) -> Tensor:
        """x: (B, C, H, W), timesteps: (B,) on 0..999 -> (B, C or 2C, H, W)."""
        emb = self.time_embed(timestep_embedding(timesteps, self.config.model_channels).to(x.dtype))
        kept = []
        h = x
        for stage in self.input_blocks:
            h = stage(h, emb)
            kept.append(h)
        h = self.middle_block(h, emb)
        for stage in self.output_blocks:
            h = stage(torch.cat([h, kept.pop()], dim=1), emb)
        out: Tensor = self.out(h)
        return out

    def _build_input(self) -> list[int]:
        cfg = self.config
        channels = cfg.channel_mult[0] * cfg.model_channels
        self.input_blocks = nn.ModuleList([Stage(nn.Conv2d(cfg.in_channels, channels, 3, padding=1))])
        skips = [channels]
        for level, mult in enumerate(cfg.channel_mult):
            for _ in range(cfg.num_res_blocks):
                wider = mult * cfg.model_channels
                stage = Stage(self._res_block(channels, wider), *self._attention_at(level, wider))
                channels = wider
                self.input_blocks.append(stage)
                skips.append(channels)
            if level < len(cfg.channel_mult) - 1:
                self.input_blocks.append(Stage(self._resampler(channels, Down)))
                skips.append(channels)
        return skips

    def _build_output(self, channels: int, skips: list[int]) -> int:
        cfg = self.config
        skips = list(skips)
        self.output_blocks = nn.ModuleList()
        for level, mult in reversed(list(enumerate(cfg.channel_mult))):
            wider = mult * cfg.model_channels
            for index in range(cfg.num_res_blocks + 1):
                layers = [self._res_block(channels + skips.pop(), wider), *self._attention_at(level, wider)]
                channels = wider
                if level > 0 and index == cfg.num_res_blocks:
                    layers.append(self._resampler(channels, Up))
                self.output_blocks.append(Stage(*layers))
        return channels

    def _res_block(self, channels: int, out_channels: int, resample: nn.Module | None = None) -> ResBlock:
        emb_channels = 4 * self.config.model_channels
        scale_shift = self.config.use_scale_shift_norm
        return ResBlock(channels, out_channels, emb_channels, scale_shift=scale_shift, resample=resample)

    def _resampler(self, channels: int, kind: type[Down] | type[Up]) -> nn.Module:
        if self.config.resblock_updown:
            return self._res_block(channels, channels, kind(channels, conv=False))
        return kind(channels, conv=True)

    def _attention(self, channels: int) -> Attention:
        cfg = self.config
        heads = cfg.num_heads if cfg.num_head_channels == -1 else channels // cfg.num_head_channels
        return Attention(channels, heads=heads, new_order=cfg.use_new_attention_order)

    def _attention_at(self, level: int, channels: int) -> list[nn.Module]:
        resolution = self.config.image_size // 2**level
        return [self._attention(channels)] if resolution in self.config.attention_resolutions else []


def build(options: Mapping[str, Any], schedule: Mapping[str, Any]) -> Architecture:
    """The network of a config.json, on the meta device until its weights are loaded."""
    config = AdmConfig.from_dict(options)
    check_channels(config.in_channels)
    with torch.device("meta"):
        network = AdmUNet(config)
    traits = Traits(channels=config.in_channels, native_size=config.image_size)
    return Architecture(network, VP, traits, config.multiple)
