"""The tensors of a low-rank model, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import tree

Factors = Mapping[str, NDArray[Any]]
_WRAPPERS = ("state", "model")  # parts of a name that say nothing


def factors_of(state: Any, picture: tuple[int, ...]) -> Factors:
    """Every tensor of a state but pictures (C, H, W): factors, weights, shrinkage, by the names of its fields."""
    tensors, _ = tree.pack(state)
    return {
        ".".join(part for part in name.split(".") if part not in _WRAPPERS): np.asarray(value.float().numpy())
        for name, value in tensors.items()
        if tuple(value.shape) != picture
    }
