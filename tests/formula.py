"""Weights and inputs given by formula, so that a network's output can be recorded once and compared for ever.

The k-th key of the sorted state dict, at flat index i, holds v = sin(0.7311 i + 1.37 k) / sqrt(f), where f is
the number of elements of one slice t[0] if the tensor has more than one dimension, else 1. One-dimensional
tensors hold 0.1 v, plus 1 if the key ends in `weight`.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


def fill(network: nn.Module) -> nn.Module:
    """Give every parameter of the network its value by formula; returns the network, ready to run."""
    state = network.state_dict()
    for k, key in enumerate(sorted(state)):
        t = state[key]
        v = torch.sin(0.7311 * torch.arange(t.numel(), dtype=torch.float64) + 1.37 * k)
        if t.ndim > 1:
            v /= math.sqrt(t[0].numel())
        else:
            v = 0.1 * v + (1.0 if key.endswith("weight") else 0.0)
        state[key] = v.reshape(t.shape).float()
    network.load_state_dict(state)
    return network.eval().requires_grad_(False)


def image(size: int, *, batch: int = 2, channels: int = 3) -> Tensor:
    """x = cos(0.01713 i): (batch, channels, size, size)."""
    i = torch.arange(batch * channels * size * size, dtype=torch.float64)
    return torch.cos(0.01713 * i).reshape(batch, channels, size, size).float()
