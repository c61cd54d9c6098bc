"""How a network is run: its number type, its memory layout, and whether it is compiled."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from ..devices import full_precision

_LOWERED = (nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, nn.Linear)


def lowered(network: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy of a frozen network, its weights in `dtype` already: autocast would cast them at every call."""
    result = copy.deepcopy(network)
    for module in result.modules():
        if isinstance(module, _LOWERED):
            module.to(dtype)
    return result


class MixedPrecision(nn.Module):
    """The network under autocast: input and output are float32, the layers in between compute in `dtype`.

    channels_last: the memory layout that is fastest on GPUs with tensor cores. compile: use torch.compile, which
    compiles again for every new shape of input.
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
        """x (B, C, H, W), noise (B,), a mask if the network takes one -> (B, C', H, W) of the type of x."""
        lower = self.dtype != torch.float32
        exact = nullcontext() if lower else full_precision(x.device)
        with exact, torch.autocast(x.device.type, dtype=self.dtype if lower else None, enabled=lower):
            out = self.run(x.contiguous(memory_format=self.layout), noise, *mask)
        return out.to(x.dtype)
