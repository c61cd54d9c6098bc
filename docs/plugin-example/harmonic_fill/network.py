"""A network for priors: `"architecture": "three-by-three"` in config.json, its weights in model.safetensors."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn

from diffbcp_cli.priors.base import Traits
from diffbcp_cli.priors.networks import Architecture
from diffbcp_cli.priors.precondition import Told


class ThreeByThree(nn.Module):
    """Image (B, C, H, W) on [0, 1] and its noise level (B,) to the clean image: one convolution."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        """The more noise, the more of the convolution is taken."""
        share = level.clamp(0, 1).reshape(-1, 1, 1, 1)
        return x + share * (self.mix(x) - x)


def build(options: Mapping[str, Any], schedule: Mapping[str, Any]) -> Architecture:
    """The network that config.json describes; weights are loaded into it afterwards."""
    channels = int(options.get("image_channels", 3))
    return Architecture(ThreeByThree(channels), partial(Told, highest=1.0), Traits(channels=channels), 1)
