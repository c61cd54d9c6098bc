"""How fast the network runs: its number type, its memory layout, compiled or not. Nothing else changes."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class MixedPrecision(nn.Module):
    """The network under autocast: float32 goes in and comes out, the layers in between compute in `dtype`.

    channels_last: the layout that GPUs with tensor cores want. compile: through torch.compile, once for
    every shape of input.
    """

    def __init__(
        self, network: nn.Module, *, dtype: torch.dtype, channels_last: bool, compile: bool = False
    ) -> None:
        super().__init__()
        self.layout = torch.channels_last if channels_last else torch.contiguous_format
        if channels_last:
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.dtype = dtype
        self.run: Callable[..., Tensor] = torch.compile(network) if compile else network

    def forward(self, x: Tensor, noise: Tensor, *mask: Tensor) -> Tensor:
        """x (B, C, H, W), noise (B,), a mask if the network takes one -> (B, C', H, W) in x's own number type."""
        lower = self.dtype != torch.float32
        with torch.autocast(x.device.type, dtype=self.dtype if lower else None, enabled=lower):
            out = self.run(x.contiguous(memory_format=self.layout), noise, *mask)
        return out.to(x.dtype)
