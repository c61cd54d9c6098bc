"""How tightly the prior's image and the tensor model hold each other: rho from the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class CouplingRule:
    """rho = clip(sqrt(strength / tau), smallest, largest), on the [-1, 1] scale."""

    strength: float = 15.0
    smallest: float = 0.1
    largest: float = 10.0

    def rho(self, noise_precision: float) -> float:
        """The coupling distance at noise precision tau."""
        return min(max(math.sqrt(self.strength / noise_precision), self.smallest), self.largest)
