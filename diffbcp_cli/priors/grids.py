"""Noise levels for the reverse process, in float64, from the level where it starts down to zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class VPSchedule:
    """The variance-preserving process with linear beta, for t in [0, 1].

    beta(t) = beta_min + beta_slope t is the derivative of ln(1 + sigma(t)^2). The defaults are those of DDPM,
    which the paper uses.
    """

    beta_min: float = 0.1
    beta_slope: float = 19.9

    def beta(self, t: float) -> float:
        """beta(t)."""
        return self.beta_min + self.beta_slope * t

    def sigma(self, t: Tensor) -> Tensor:
        """sigma(t) = sqrt(exp(beta_slope t^2 / 2 + beta_min t) - 1), any shape."""
        return (0.5 * self.beta_slope * t.square() + self.beta_min * t).expm1().sqrt()

    def time(self, sigma: Tensor) -> Tensor:
        """t(sigma), any shape: the positive root of beta_slope t^2 / 2 + beta_min t = ln(1 + sigma^2)."""
        log_var = sigma.square().log1p()
        # this form of the root subtracts no nearly equal numbers, so small sigma keep their digits
        return 2 * log_var / (self.beta_min + (self.beta_min**2 + 2 * self.beta_slope * log_var).sqrt())


PAPER = VPSchedule()


def power_grid(start: float, calls: int, *, exponent: float = 3.0, last: float = 0.15) -> Tensor:
    """(calls + 1,) levels: `calls` of them evenly spaced in sigma^(1 / exponent), then zero.

    They go from `start` down to `last` times `start`, where the network is called for the last time.
    """
    if start <= 0 or calls < 1 or not 0 < last < 1:
        raise ValueError(f"no grid from {start} with {calls} calls down to {last} of it")
    end = last if calls > 1 else 1.0
    roots = torch.linspace(1.0, end ** (1 / exponent), calls, dtype=torch.float64)
    return torch.cat([start * roots**exponent, torch.zeros(1, dtype=torch.float64)])


def vp_levels(start: float, steps: int, *, power: float = 1.0, end: float = 1e-3) -> Tensor:
    """(steps + 1,) levels: those of `steps` times of the variance-preserving process, then zero.

    The times go from t(start) down to `end` as 1 - (i / (steps - 1))^power: evenly, or most of them low if power < 1.
    """
    first = float(PAPER.time(torch.tensor(start, dtype=torch.float64)))
    if steps < 1 or first <= end:
        raise ValueError(f"no {steps} levels from {start}")
    falling = 1 - torch.linspace(0.0, 1.0, steps, dtype=torch.float64) ** power
    return torch.cat([PAPER.sigma(end + (first - end) * falling), torch.zeros(1, dtype=torch.float64)])


def vp_times(start: float, *, steps: int = 100, end: float = 1e-3) -> Tensor:
    """The times of the paper's solver: t(start), the grid below it, then zero.

    The grid has `steps` times, evenly spaced from 1 to `end`.
    """
    entry = PAPER.time(torch.tensor([start], dtype=torch.float64))
    times = torch.linspace(1.0, end, steps, dtype=torch.float64)
    return torch.cat([entry, times[times < entry], torch.zeros(1, dtype=torch.float64)])
