"""The odds that a candidate is damage: a small network over the numbers that describe it.

Its weights were fitted by `benchmarks/fit_detector.py` to candidates of made scans and of clean photographs. None of
these is among those that `benchmarks/detect.py` measures on. The limits were set for few false alarms on clean ones.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .ground import Floats

_FILE = Path(__file__).parent / "weights.json"
TOGETHER = ("scratch", "fold")  # kinds whose candidates in a scene come together: railings, masts, roofs
_FARTHEST = 6.0  # standard deviations: numbers beyond are cut


@dataclass(frozen=True)
class Judge:
    """log odds = w2 . relu(W1 z + b1) + b2, z = (features - mean) / std, cut at 6.

    strict: log odds from which a candidate alone is damage. usual: those that do in a picture that surely is damaged.
    """

    mean: Floats
    std: Floats
    layers: tuple[tuple[Floats, Floats], ...]
    strict: float
    usual: float

    def odds(self, features: Floats) -> NDArray[np.float64]:
        """Log odds (count,) of features (count, F)."""
        values = np.nan_to_num((features - self.mean) / self.std).clip(-_FARTHEST, _FARTHEST)
        for index, (weights, offsets) in enumerate(self.layers):
            values = (values if index == 0 else np.maximum(values, 0)) @ weights + offsets
        return np.asarray(values[:, 0], np.float64)


@cache
def _fitted() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
    return found


def beyond_doubt(odds: Mapping[str, NDArray[np.float64]]) -> bool:
    """Whether a picture is a damaged one, by the log odds of its candidates: the sum of those above even.

    Of lines only the best counts, as the lines of a scene come together.
    """
    total = 0.0
    for kind, one in odds.items():
        above = np.maximum(one, 0)
        total += float(above.max(initial=0) if kind in TOGETHER else above.sum())
    return total > float(_fitted()["evidence"])


@cache
def judge_of(kind: str) -> Judge:
    """The judge of dust, scratch, fold or text."""
    found = _fitted()[kind]
    layers = tuple(
        (np.asarray(weights, np.float32), np.asarray(offsets, np.float32))
        for weights, offsets in found["layers"]
    )
    mean, std = np.asarray(found["mean"], np.float32), np.asarray(found["std"], np.float32)
    return Judge(mean, std, layers, float(found["strict"]), float(found["usual"]))
