"""Running summaries of the draws: moments that never hold the draws themselves."""

from __future__ import annotations

import torch
from torch import Tensor

NORMAL_90 = 1.6448536269514722  # the 95 % point of a standard normal


class Moments:
    """Mean and variance of the tensors added so far (Welford), in float64 on the CPU or float32 elsewhere."""

    def __init__(self) -> None:
        self.count = 0
        self._mean: Tensor | None = None
        self._square: Tensor | None = None

    def add(self, value: Tensor) -> None:
        """Take one more draw into account."""
        value = value.double() if value.device.type == "cpu" else value
        self.count += 1
        if self._mean is None or self._square is None:
            self._mean, self._square = value.clone(), torch.zeros_like(value)
            return
        delta = value - self._mean
        self._mean = self._mean + delta / self.count
        self._square = self._square + delta * (value - self._mean)

    def tensors(self) -> dict[str, Tensor]:
        """What is held, by name; empty before the first draw."""
        if self._mean is None or self._square is None:
            return {}
        return {"mean": self._mean, "square": self._square}

    @classmethod
    def of(cls, count: int, tensors: dict[str, Tensor]) -> Moments:
        """Moments of `count` draws from what `tensors` returned."""
        moments = cls()
        moments.count, moments._mean, moments._square = count, tensors.get("mean"), tensors.get("square")
        return moments

    @property
    def mean(self) -> Tensor:
        """Mean of the draws."""
        if self._mean is None:
            raise ValueError("no draw has been added")
        return self._mean

    @property
    def std(self) -> Tensor:
        """Standard deviation of the draws, zero when there is only one."""
        if self._square is None:
            raise ValueError("no draw has been added")
        return (self._square / max(1, self.count - 1)).sqrt()
