"""The U-Net of DDPM in the layout of diffusers' `UNet2DModel`: epsilon from a noisy image and a time step.

Module names follow that layout (`down_blocks.N.resnets.M.conv1`, ...), so that its state dicts load strictly.
Options keep their names and defaults, so that its config.json can be read unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import ModelError
from ..base import Traits
from ..precondition import VP, Denoiser
from . import MOST_BLOCKS, Architecture, check_channels, whole_numbers

MOST = 8192  # of a size
_NOT_OPTIONS = {"architecture", "dropout"}
# Options of diffusers that this network does not implement, with the values that need no implementation.
_ONLY: dict[str, tuple[Any, ...]] = {
    "act_fn": ("silu", "swish"),
    "class_embed_type": (None,),
    "mid_block_type": ("UNetMidBlock2D",),
    "num_class_embeds": (None,),
    "num_train_timesteps": (None,),
    "time_embedding_type": ("positional",),
}
_BLOCKS = {"down_block_types": "DownBlock2D", "up_block_types": "UpBlock2D"}


@dataclass(frozen=True)
class DdpmConfig:
    """The shape of a UNet2DModel, by its own option names and defaults."""

    sample_size: int = 256
    in_channels: int = 3
    out_channels: int = 3
    center_input_sample: bool = False
    time_embedding_dim: int | None = None
    freq_shift: int = 0
    flip_sin_to_cos: bool = True
    down_block_types: tuple[str, ...] = (
        "DownBlock2D",
        "AttnDownBlock2D",
        "AttnDownBlock2D",
        "AttnDownBlock2D",
    )
    up_block_types: tuple[str, ...] = ("AttnUpBlock2D", "AttnUpBlock2D", "AttnUpBlock2D", "UpBlock2D")
    block_out_channels: tuple[int, ...] = (224, 448, 672, 896)
    layers_per_block: int = 2
    mid_block_scale_factor: float = 1.0
    downsample_padding: int = 1
    downsample_type: str = "conv"
    upsample_type: str = "conv"
    attention_head_dim: int | None = 8
    norm_num_groups: int = 32
    attn_norm_num_groups: int | None = None
    norm_eps: float = 1e-5
    resnet_time_scale_shift: str = "default"
    add_attention: bool = True

    def __post_init__(self) -> None:
        whole_numbers(MOST, *self.block_out_channels)
        whole_numbers(MOST_BLOCKS, self.layers_per_block, len(self.block_out_channels))
        if not len(self.block_out_channels) == len(self.down_block_types) == len(self.up_block_types):
            raise ModelError("block_out_channels, down_block_types and up_block_types must be equally long")
        for name, plain in _BLOCKS.items():
            for block in getattr(self, name):
                if block not in (plain, f"Attn{plain}"):
                    raise ModelError(
                        f"blocks of kind {block} are not supported, only {plain} and Attn{plain}"
                    )
        choices = {
            "downsample_type": ("conv", "resnet"),
            "upsample_type": ("conv", "resnet"),
            "resnet_time_scale_shift": ("default", "scale_shift"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ModelError(
                    f"{name} {getattr(self, name)!r} is not supported, only {' and '.join(allowed)}"
                )

    @property
    def multiple(self) -> int:
        """Height and width of an input are multiples of this."""
        return int(2 ** (len(self.block_out_channels) - 1))

    @property
    def emb_channels(self) -> int:
        """Width of the time embedding."""
        return self.time_embedding_dim or 4 * self.block_out_channels[0]

    @classmethod
    def from_dict(cls, options: Mapping[str, Any]) -> DdpmConfig:
        """Read the options of a config.json; an unknown option is an error."""
        known = {field.name for field in fields(cls)}
        given: dict[str, Any] = {}
        for name, value in options.items():
            if name in known:
                given[name] = tuple(value) if isinstance(value, list) else value
            elif name in _ONLY:
                if value not in _ONLY[name]:
                    raise ModelError(f"{name} {value!r} is not supported, only {_ONLY[name][0]!r}")
            elif not name.startswith("_") and name not in _NOT_OPTIONS and value is not None:
                raise ModelError(f"config.json has an option that a ddpm network does not know: {name}")
        for name in _BLOCKS:
            if name in given:
                given[name] = tuple(block.removeprefix("UNetRes") for block in given[name])
        given["sample_size"] = _square(given.get("sample_size"))
        return cls(**given)


def _square(size: Any) -> int:
    """sample_size as one number; it may be a pair or missing. The network does not depend on it."""
    if isinstance(size, tuple):
        return int(max(size))
    return int(size) if size is not None else 256


def modern_keys(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename the attention weights of checkpoints that were saved before diffusers 0.14."""
    names = {"query": "to_q", "key": "to_k", "value": "to_v", "proj_attn": "to_out.0"}
    renamed = {}
    for key, tensor in state.items():
        head, _, tail = key.rpartition(".")
        path, _, layer = head.rpartition(".")
        if ".attentions." in key and layer in names:
            key = f"{path}.{names[layer]}.{tail}"
        renamed[key] = tensor
    return renamed


def timestep_embedding(timesteps: Tensor, config: DdpmConfig) -> Tensor:
    """Sines and cosines of the time step. timesteps: (B,) real -> (B, block_out_channels[0]), float32."""
    width = config.block_out_channels[0]
    half = width // 2
    steps = torch.arange(half, dtype=torch.float32, device=timesteps.device)
    frequencies = torch.exp(-math.log(10_000) * steps / (half - config.freq_shift))
    angles = timesteps[:, None].float() * frequencies  # (B, half)
    waves = [angles.cos(), angles.sin()] if config.flip_sin_to_cos else [angles.sin(), angles.cos()]
    return F.pad(torch.cat(waves, dim=1), (0, width % 2))


class TimeEmbedding(nn.Module):
    """Two linear layers on top of the sines and cosines."""

    def __init__(self, channels: int, emb_channels: int) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(channels, emb_channels)
        self.linear_2 = nn.Linear(emb_channels, emb_channels)

    def forward(self, waves: Tensor) -> Tensor:
        """waves: (B, C) -> (B, E)."""
        out: Tensor = self.linear_2(F.silu(self.linear_1(waves)))
        return out


class Down(nn.Module):
    """Halve height and width by a strided convolution; padding 0 pads below and to the right only."""

    def __init__(self, channels: int, *, padding: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride=2, padding=padding)
        self.uneven = padding == 0

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C, H/2, W/2)."""
        out: Tensor = self.conv(F.pad(x, (0, 1, 0, 1)) if self.uneven else x)
        return out


class Up(nn.Module):
    """Double height and width by repeating pixels, then a convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> (B, C, 2H, 2W)."""
        out: Tensor = self.conv(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return out


class ResBlock(nn.Module):
    """Norm, SiLU, convolution, twice; the time embedding enters between; a skip around both."""

    def __init__(
        self,
        channels: int,
        out_channels: int,
        config: DdpmConfig,
        *,
        scale: float = 1.0,
        resample: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.scale = scale
        self.scale_shift = config.resnet_time_scale_shift == "scale_shift"
        self.resample = resample if resample is not None else nn.Identity()
        groups, eps = config.norm_num_groups, config.norm_eps
        self.norm1 = nn.GroupNorm(groups, channels, eps=eps)
        self.conv1 = nn.Conv2d(channels, out_channels, 3, padding=1)
        self.time_emb_proj = nn.Linear(config.emb_channels, out_channels * (2 if self.scale_shift else 1))
        self.norm2 = nn.GroupNorm(groups, out_channels, eps=eps)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        same = channels == out_channels
        self.conv_shortcut = nn.Identity() if same else nn.Conv2d(channels, out_channels, 1)

    def forward(self, x: Tensor, emb: Tensor) -> Tensor:
        """x: (B, C, H, W), emb: (B, E) -> (B, C', H', W')."""
        h = self.conv1(self.resample(F.silu(self.norm1(x))))
        e = self.time_emb_proj(F.silu(emb))[:, :, None, None]  # (B, C' or 2C', 1, 1)
        if self.scale_shift:
            scale, shift = e.chunk(2, dim=1)
            h = self.norm2(h) * (1 + scale) + shift
        else:
            h = self.norm2(h + e)
        out: Tensor = self.conv_shortcut(self.resample(x)) + self.conv2(F.silu(h))
        return out / self.scale


class Attention(nn.Module):
    """Self-attention over all positions, with a skip around it."""

    def __init__(self, channels: int, config: DdpmConfig, *, groups: int | None, scale: float = 1.0) -> None:
        super().__init__()
        self.heads = channels // (config.attention_head_dim or channels)
        self.scale = scale
        self.group_norm = nn.GroupNorm(groups, channels, eps=config.norm_eps) if groups else nn.Identity()
        width = self.heads * (config.attention_head_dim or channels)
        self.to_q = nn.Linear(channels, width)
        self.to_k = nn.Linear(channels, width)
        self.to_v = nn.Linear(channels, width)
        self.to_out = nn.ModuleList([nn.Linear(width, channels)])

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, C, H, W) -> the same shape."""
        flat = self.group_norm(x.flatten(2)).transpose(1, 2)  # (B, HW, C)
        q, k, v = (
            project(flat).unflatten(2, (self.heads, -1)).transpose(1, 2)  # (B, heads, HW, C / heads)
            for project in (self.to_q, self.to_k, self.to_v)
        )
        h = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)  # (B, HW, C)
        h = self.to_out[0](h).transpose(1, 2).reshape(x.shape)
        out: Tensor = (x + h) / self.scale
        return out


class DownBlock(nn.Module):
    """Residual blocks at one resolution, with or without attention, then half the size."""

    def __init__(
        self, channels: int, out_channels: int, config: DdpmConfig, *, attention: bool, last: bool
    ) -> None:
        super().__init__()
        widths = [channels] + [out_channels] * (config.layers_per_block - 1)
        self.resnets = nn.ModuleList(ResBlock(width, out_channels, config) for width in widths)
        self.attentions = nn.ModuleList()
        if attention:
            groups = config.norm_num_groups
            self.attentions.extend(Attention(out_channels, config, groups=groups) for _ in widths)
        self.downsamplers = nn.ModuleList()
        if not last:
            if attention and config.downsample_type == "resnet":
                self.downsamplers.append(
                    ResBlock(out_channels, out_channels, config, resample=nn.AvgPool2d(2))
                )
            else:
                self.downsamplers.append(Down(out_channels, padding=config.downsample_padding))

    def forward(self, x: Tensor, emb: Tensor) -> list[Tensor]:
        """x: (B, C, H, W), emb: (B, E) -> the outputs of all layers, in order."""
        kept = []
        for index, resnet in enumerate(self.resnets):
            x = resnet(x, emb)
            if len(self.attentions):
                x = self.attentions[index](x)
            kept.append(x)
        for down in self.downsamplers:
            kept.append(_resample(down, x, emb))
        return kept


class UpBlock(nn.Module):
    """Residual blocks at one resolution, each with a skip connection from the way down, then twice the size."""

    def __init__(
        self, channels: int, skip: int, out_channels: int, config: DdpmConfig, *, attention: bool, last: bool
    ) -> None:
        super().__init__()
        layers = config.layers_per_block + 1
        before = [channels] + [out_channels] * (layers - 1)
        kept = [out_channels] * (layers - 1) + [skip]
        widths = [b + k for b, k in zip(before, kept, strict=True)]
        self.resnets = nn.ModuleList(ResBlock(width, out_channels, config) for width in widths)
        self.attentions = nn.ModuleList()
        if attention:
            groups = config.norm_num_groups
            self.attentions.extend(Attention(out_channels, config, groups=groups) for _ in widths)
        self.upsamplers = nn.ModuleList()
        if not last:
            if attention and config.upsample_type == "resnet":
                self.upsamplers.append(
                    ResBlock(out_channels, out_channels, config, resample=nn.Upsample(None, 2))
                )
            else:
                self.upsamplers.append(Up(out_channels))

    def forward(self, x: Tensor, kept: list[Tensor], emb: Tensor) -> Tensor:
        """x: (B, C, H, W), kept: the skip connections, taken from the end, emb: (B, E) -> (B, C', H', W')."""
        for index, resnet in enumerate(self.resnets):
            x = resnet(torch.cat([x, kept.pop()], dim=1), emb)
            if len(self.attentions):
                x = self.attentions[index](x)
        for up in self.upsamplers:
            x = _resample(up, x, emb)
        return x


def _resample(layer: nn.Module, x: Tensor, emb: Tensor) -> Tensor:
    out: Tensor = layer(x, emb) if isinstance(layer, ResBlock) else layer(x)
    return out


class MidBlock(nn.Module):
    """A residual block, attention, a residual block, at the lowest resolution."""

    def __init__(self, channels: int, config: DdpmConfig) -> None:
        super().__init__()
        scale = config.mid_block_scale_factor
        self.resnets = nn.ModuleList(ResBlock(channels, channels, config, scale=scale) for _ in range(2))
        self.attentions = nn.ModuleList()
        if config.add_attention:
            plain = config.norm_num_groups if config.resnet_time_scale_shift == "default" else None
            groups = config.attn_norm_num_groups or plain
            self.attentions.append(Attention(channels, config, groups=groups, scale=scale))

    def forward(self, x: Tensor, emb: Tensor) -> Tensor:
        """x: (B, C, H, W), emb: (B, E) -> the same shape as x."""
        x = self.resnets[0](x, emb)
        for attention in self.attentions:
            x = attention(x)
        out: Tensor = self.resnets[1](x, emb)
        return out


class DdpmUNet(nn.Module):
    """epsilon(x_t, t)."""

    def __init__(self, config: DdpmConfig) -> None:
        super().__init__()
        self.config = config
        widths = list(config.block_out_channels)
        last = len(widths) - 1
        self.conv_in = nn.Conv2d(config.in_channels, widths[0], 3, padding=1)
        self.time_embedding = TimeEmbedding(widths[0], config.emb_channels)
        self.down_blocks = nn.ModuleList()
        for level, kind in enumerate(config.down_block_types):
            before, attention = widths[max(level - 1, 0)], kind.startswith("Attn")
            block = DownBlock(before, widths[level], config, attention=attention, last=level == last)
            self.down_blocks.append(block)
        self.mid_block = MidBlock(widths[-1], config)
        self.up_blocks = nn.ModuleList()
        widths.reverse()
        for level, kind in enumerate(config.up_block_types):
            before, skip = widths[max(level - 1, 0)], widths[min(level + 1, last)]
            attention = kind.startswith("Attn")
            up = UpBlock(before, skip, widths[level], config, attention=attention, last=level == last)
            self.up_blocks.append(up)
        self.conv_norm_out = nn.GroupNorm(config.norm_num_groups, widths[-1], eps=config.norm_eps)
        self.conv_out = nn.Conv2d(widths[-1], config.out_channels, 3, padding=1)

    def forward(self, x: Tensor, timesteps: Tensor) -> Tensor:
        """x: (B, C, H, W), timesteps: (B,) on 0..999 -> (B, C', H, W)."""
        if self.config.center_input_sample:
            x = 2 * x - 1
        emb = self.time_embedding(timestep_embedding(timesteps, self.config).to(x.dtype))
        h = self.conv_in(x)
        kept = [h]
        for down in self.down_blocks:
            kept += down(kept[-1], emb)
        h = self.mid_block(kept[-1], emb)
        for up in self.up_blocks:
            h = up(h, kept, emb)
        out: Tensor = self.conv_out(F.silu(self.conv_norm_out(h)))
        return out


def build(options: Mapping[str, Any], schedule: Mapping[str, Any]) -> Architecture:
    """The network of a config.json, on the meta device until its weights are loaded."""
    config = DdpmConfig.from_dict(options)
    check_channels(config.in_channels)
    with torch.device("meta"):
        network = DdpmUNet(config)
    size = config.sample_size + -config.sample_size % config.multiple
    traits = Traits(channels=config.in_channels, native_size=size)
    return Architecture(network, _preconditioning(schedule), traits, config.multiple, rename=modern_keys)


def _preconditioning(schedule: Mapping[str, Any]) -> Callable[[nn.Module], Denoiser]:
    """VP preconditioning for the schedule that scheduler_config.json describes."""
    only = {"beta_schedule": "linear", "prediction_type": "epsilon", "trained_betas": None}
    for name, value in only.items():
        if schedule.get(name, value) != value:
            raise ModelError(
                f"{name} {schedule[name]!r} in scheduler_config.json is not supported, only {value!r}"
            )
    start, end = float(schedule.get("beta_start", 1e-4)), float(schedule.get("beta_end", 0.02))
    steps = int(schedule.get("num_train_timesteps", 1000))
    return lambda network: VP(network, beta_start=start, beta_end=end, steps=steps)
