"""Masks to train with: what photographs lose, on a crop."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Generator, Tensor

from ..photos.mask_kinds import Per, make

# kind, share of the masks, least and most that is missing; uniform ones by the log of what is left
_KINDS = (
    ("uniform", 0.45, 0.3, 0.97),
    ("stripe", 0.2, 0.2, 0.7),
    ("irregular", 0.2, 0.2, 0.6),
    ("scratch", 0.05, 0.05, 0.3),
    ("text", 0.05, 0.05, 0.3),
    ("box", 0.05, 0.02, 0.15),
)


def draw_mask(shape: torch.Size, *, rng: Generator) -> Tensor:
    """Known entries of a crop, bool (C, H, W)."""
    channels, height, width = shape
    draw = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
    kind, _, least, most = _KINDS[draw.choice(len(_KINDS), p=[share for _, share, _, _ in _KINDS])]
    missing = draw.uniform(least, most)
    if kind == "uniform":
        missing = 1 - math.exp(draw.uniform(math.log(1 - most), math.log(1 - least)))
    per: Per = "entry" if draw.random() < 0.4 else "pixel"
    observed = make(kind, (height, width, channels), missing=missing, per=per, rng=draw)
    return torch.from_numpy(np.array(observed)).permute(2, 0, 1)
