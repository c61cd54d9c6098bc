"""The question and the answer: a Problem goes in, a Restoration comes out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .options import Options
from .units import Floats

NORMAL_90 = (
    1.6448536269514722  # the 95 % point of a standard normal: 90 % intervals are mean +- NORMAL_90 std
)


class Operator(Protocol):
    """What was done to the picture before it was measured: y = A x + noise, all (C, H, W)."""

    @property
    def mask(self) -> Tensor | None:
        """Which entries were measured, if A only selects entries; None if A mixes pixels."""
        ...

    @property
    def complete(self) -> bool:
        """Whether every entry was measured."""
        ...

    def forward(self, x: Tensor) -> Tensor:
        """A x."""
        ...

    def adjoint(self, y: Tensor) -> Tensor:
        """A' y."""
        ...

    def solve(self, b: Tensor, *, data: float, pull: float) -> Tensor:
        """(data A'A + pull I)^-1 b."""
        ...


@dataclass(frozen=True)
class Problem:
    """What is known of a picture, on [-1, 1].

    y: the measurements (C, H, W); zero where there is none. noise_std: of the measurements, None if it is to be
    inferred. name: the relative path of the photograph, which with the seed of the run fixes every draw. later: known
    entries (C, H, W) that a method which can do so is to use after burn-in only, and to predict at its end.
    """

    y: Tensor
    operator: Operator
    noise_std: float | None = None
    name: str = ""
    later: Tensor | None = None

    @property
    def device(self) -> torch.device:
        """Where the measurements are."""
        return self.y.device

    @property
    def known(self) -> Tensor:
        """(C, H, W) bool: which entries were measured. An operator that mixes pixels has no such thing."""
        mask = self.operator.mask
        if mask is None:
            raise ValueError("this operator mixes pixels: no single entry is known or missing")
        return mask


class Trace(Mapping[str, list[Any]]):
    """What each step of a chain said about itself: lists by name, all of one length; noise in [0, 1] units.

    The lists are also attributes: `trace.noise_std`.
    """

    def __init__(self, values: Mapping[str, list[Any]] | None = None) -> None:
        self._values: dict[str, list[Any]] = {name: list(found) for name, found in (values or {}).items()}

    def add(self, numbers: Mapping[str, float | None]) -> None:
        """Record one step."""
        for name, value in numbers.items():
            self._values.setdefault(name, []).append(value)

    @property
    def steps(self) -> int:
        """How many steps there were."""
        return len(next(iter(self._values.values()), []))

    def __getitem__(self, name: str) -> list[Any]:
        return self._values[name]

    def __getattr__(self, name: str) -> list[Any]:
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"the trace has no {name!r}")
        found: list[Any] = values[name]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True)
class Restoration:
    """A restored picture, arrays (H, W, C) in [0, 1] units.

    mean: what is shown. std: its standard deviation, None if the method gives no uncertainty. noise: the standard
    deviation of the noise with its 90 % interval (std, lower, upper). samples: (n, H, W, C) draws, if asked
    for; owners: the chain of each.
    frames: (n, h, w, C) levels 0..255, small pictures of the first chain on its way, if a film was asked for.
    traces: one for each chain. maps: further pictures, by name. numbers: what else the record says, by its keys.
    states: of each chain, the tensors of its low-rank model by name, if asked for.
    options: those that were used. warnings: what the user should know. finished: False after an interruption.
    """

    mean: Floats
    std: Floats | None
    noise: Mapping[str, float] | None
    options: Options
    samples: Floats | None = None
    owners: tuple[int, ...] = ()
    frames: NDArray[np.uint8] | None = None
    traces: tuple[Trace, ...] = ()
    states: tuple[Mapping[str, NDArray[Any]], ...] = ()
    maps: Mapping[str, Floats] = field(default_factory=dict)
    numbers: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    finished: bool = True

    @property
    def trace(self) -> Trace:
        """The trace of the first chain."""
        return self.traces[0]
