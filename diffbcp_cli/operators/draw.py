"""Draw a picture given its measurements and a Gaussian around another picture."""

from __future__ import annotations

import math

from torch import Generator, Tensor

from .. import random
from ..problem import Operator


def draw_image(
    operator: Operator, y: Tensor, centre: Tensor, *, data: float, pull: float, rng: Generator
) -> Tensor:
    """Draw x | y, centre with density prop. to exp(-data/2 |y - A x|^2 - pull/2 |x - centre|^2).

    Perturb and solve: with e, f standard normal, the solution of
    (data A'A + pull I) x = data A'(y + e / sqrt(data)) + pull (centre + f / sqrt(pull)) is an exact draw.
    """
    noisy = y + random.normal_like(y, rng=rng) / math.sqrt(data)
    moved = centre + random.normal_like(centre, rng=rng) / math.sqrt(pull)
    return operator.solve(data * operator.adjoint(noisy) + pull * moved, data=data, pull=pull)
