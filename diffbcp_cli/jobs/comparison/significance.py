"""Paired differences and whether they could be chance."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

MOST_EXACT = 14  # pairs of which every pattern of signs is tried
RESAMPLES = 20_000


def sign_flip_p(gaps: Sequence[float], *, rng: np.random.Generator) -> float:
    """Two-sided p of the mean of paired differences (n,), by flipping their signs.

    If two methods are alike, each difference is as likely as its negative. p is the share of all 2^n patterns of
    signs whose mean is at least as far from 0 as the one found; beyond 14 pairs, of 20,000 random ones and itself.
    """
    values = np.asarray(gaps, dtype=np.float64)
    found = abs(values.sum())
    if len(values) <= MOST_EXACT:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(values))))
        return float((np.abs(signs @ values) >= found * (1 - 1e-12)).mean())
    signs = rng.choice((-1.0, 1.0), size=(RESAMPLES, len(values)))
    beyond = int((np.abs(signs @ values) >= found * (1 - 1e-12)).sum())
    return (beyond + 1) / (RESAMPLES + 1)
