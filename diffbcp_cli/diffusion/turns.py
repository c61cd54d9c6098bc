"""The mean of what a network answers to a picture in all four quarter turns.

A photograph upside down is as good a photograph, but a network treats it a little differently. Its errors that depend
on the way up cancel in the mean.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def turned(image: Tensor, quarters: int) -> Tensor:
    """The image (..., H, W) by so many quarter turns."""
    return torch.rot90(image, quarters, (-2, -1))


def mean_over_turns(answer: Callable[..., Tensor], *images: Tensor) -> Tensor:
    """The mean of `answer(*images)` over the quarter turns of all the images (..., H, W) together."""
    total = torch.zeros_like(images[0])
    for quarters in range(4):
        total += turned(answer(*(turned(image, quarters) for image in images)), -quarters)
    return total / 4
