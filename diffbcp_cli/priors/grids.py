"""Grids of noise levels for the reverse process, in float64, from the level it is entered at down to zero."""

from __future__ import annotations

import torch
from torch import Tensor

BETA_MIN, BETA_SLOPE = 0.1, 19.9
"""The variance-preserving schedule: beta(t) = BETA_MIN + BETA_SLOPE t on t in [0, 1]."""


def power_grid(start: float, calls: int, *, exponent: float = 3.0, last: float = 0.15) -> Tensor:
    """(calls + 1,) levels: `calls` of them evenly spaced in sigma^(1 / exponent), then zero.

    They go from `start` down to `last` times `start`, where the network is called for the last time.
    """
    if start <= 0 or calls < 1 or not 0 < last < 1:
        raise ValueError(f"no grid from {start} with {calls} calls down to {last} of it")
    end = last if calls > 1 else 1.0
    roots = torch.linspace(1.0, end ** (1 / exponent), calls, dtype=torch.float64)
    return torch.cat([start * roots**exponent, torch.zeros(1, dtype=torch.float64)])


def vp_sigma(t: Tensor) -> Tensor:
    """sigma(t) = sqrt(exp(BETA_SLOPE t^2 / 2 + BETA_MIN t) - 1)."""
    return (0.5 * BETA_SLOPE * t.square() + BETA_MIN * t).expm1().sqrt()


def vp_time(sigma: Tensor) -> Tensor:
    """The t with vp_sigma(t) = sigma."""
    log_var = sigma.square().log1p()
    # the stable root of BETA_SLOPE t^2 / 2 + BETA_MIN t = log_var: no difference of close numbers
    return 2 * log_var / (BETA_MIN + (BETA_MIN**2 + 2 * BETA_SLOPE * log_var).sqrt())


def vp_times(start: float, *, steps: int = 100, end: float = 1e-3) -> Tensor:
    """The paper's times: `steps` even ones from 1 to `end`, entered at sigma(t) = start, then zero."""
    entry = vp_time(torch.tensor([start], dtype=torch.float64))
    times = torch.linspace(1.0, end, steps, dtype=torch.float64)
    return torch.cat([entry, times[times < entry], torch.zeros(1, dtype=torch.float64)])
