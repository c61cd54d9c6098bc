"""Lower precision and compilation, for the network alone."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from diffbcp_cli.priors.mixed import MixedPrecision


def test_lower_precision_is_for_the_network_only():
    class Layer(nn.Conv2d):
        def forward(self, x: Tensor, noise: Tensor | None = None) -> Tensor:
            out = super().forward(x)
            seen.append(out.dtype)
            return out

    seen: list[torch.dtype] = []
    layer = Layer(3, 3, 3, padding=1)
    x, noise = torch.rand(1, 3, 16, 16), torch.ones(1)
    exact = MixedPrecision(layer, dtype=torch.float32, channels_last=False)(x, noise)
    lower = MixedPrecision(layer, dtype=torch.bfloat16, channels_last=True)(x, noise)
    assert seen == [torch.float32, torch.bfloat16]
    assert exact.dtype == lower.dtype == torch.float32
    assert layer.weight.dtype == torch.float32
    assert 0 < (exact - lower).abs().max() < 0.05


def test_compile_wraps_the_call_and_leaves_the_network_bare(monkeypatch):
    compiled = []
    monkeypatch.setattr(torch, "compile", lambda network: compiled.append(network) or network)
    network = nn.Conv2d(3, 3, 1)
    MixedPrecision(network, dtype=torch.float32, channels_last=False, compile=True)
    assert compiled == [network]
