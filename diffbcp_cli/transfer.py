"""Numbers between a device and the host: in few copies, since the host waits for each, and in float64.

Sums, eigenvalues and a few draws need float64. Apple GPUs have none, so these numbers go to the host there. On the
host nothing here copies or changes anything.
"""

from __future__ import annotations

import torch
from torch import Tensor


def has_float64(device: torch.device) -> bool:
    """Whether the device computes in float64; Apple GPUs do not."""
    return device.type != "mps"


def double(x: Tensor) -> Tensor:
    """x in float64: where it is, or on the host if its device has no float64."""
    return (x if has_float64(x.device) else x.cpu()).double()


def sums(x: Tensor) -> Tensor:
    """Numbers (n,) that add up to the sum of x: one in float64, or those of the rows in float32 if there is none."""
    if has_float64(x.device):
        return x.sum(dtype=torch.float64)[None]
    return x.sum(-1).flatten()


def fetch(*tensors: Tensor) -> list[Tensor]:
    """Tensors of one device on the host, float64, in one copy."""
    device = tensors[0].device
    if device.type == "cpu":
        return [t.detach().double() for t in tensors]
    wide = torch.float64 if has_float64(device) else torch.float32
    flat = torch.cat([t.detach().reshape(-1).to(wide) for t in tensors]).cpu().double()
    parts = torch.split(flat, [t.numel() for t in tensors])
    return [part.view(t.shape) for part, t in zip(parts, tensors, strict=True)]


def add_up(numbers: Tensor) -> float:
    """The sum of numbers of the host, one after the other."""
    total = 0.0
    for number in numbers.tolist():
        total += number
    return total


def total(x: Tensor) -> float:
    """The sum of x, in float64 as far as the device has it."""
    return add_up(fetch(sums(x))[0])


def send(values: Tensor, device: torch.device) -> Tensor:
    """A tensor of the host on a device; the host does not wait for CUDA."""
    if device.type == "cuda" and values.device.type == "cpu":
        return values.pin_memory().to(device, non_blocking=True)
    return values.to(device)
