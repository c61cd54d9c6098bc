"""Representative crops of a picture: the prior is tried on them before it works on the whole."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_SIDE = 192  # pixels a side, at most, of the only crop
_SMALL_SIDE, _EVERY = 128, 512  # of a large picture: squares of so many pixels, one for every 512 a side
_STEP = 16  # pixels between places that are looked at
_ENOUGH = 0.5  # the middle is taken if it has this share of what the best place has


@dataclass(frozen=True)
class Crops:
    """Rectangles of one size; corners: their tops and left sides."""

    corners: tuple[tuple[int, int], ...]
    height: int
    width: int

    def of(self, image: Tensor) -> Tensor:
        """The crops of an image (C, H, W), as (N, C, h, w)."""
        return torch.stack(
            [image[:, top : top + self.height, left : left + self.width] for top, left in self.corners]
        )


def representative_crops(useful: Tensor) -> Crops:
    """Crops of a picture that hold useful entries, (C, H, W) bool: one of a picture, several all over a large one.

    Each is the middle of its cell, unless a hole is there: then the place in the cell with the most useful entries.
    """
    (down, high), (across, wide) = (_cells(length) for length in useful.shape[-2:])
    sums = torch.zeros(useful.shape[-2] + 1, useful.shape[-1] + 1, dtype=torch.long)
    sums[1:, 1:] = useful.sum(0).cpu().cumsum(0).cumsum(1)

    def count(tops: Tensor, lefts: Tensor) -> Tensor:
        """Useful entries in the crops that begin there, (tops, lefts)."""
        top, left = tops[:, None], lefts[None]
        return (
            sums[top + high, left + wide] - sums[top, left + wide] - sums[top + high, left] + sums[top, left]
        )

    corners = []
    for tops in down:
        for lefts in across:
            found = count(tops, lefts)  # the first place is the middle
            best = int(found.argmax())
            if found[0, 0] >= _ENOUGH * found.flatten()[best]:
                best = 0
            corners.append((int(tops[best // len(lefts)]), int(lefts[best % len(lefts)])))
    return Crops(tuple(corners), high, wide)


def crops_share(side: int) -> float:
    """The share of the pixels of a square picture that are in its crops."""
    cells, size = _cells(side)
    return (len(cells) * size / side) ** 2


def _cells(length: int) -> tuple[list[Tensor], int]:
    """For each cell along a side the places where its crop may begin, the middle first; and how long a crop is."""
    count = max(1, round(length / _EVERY))
    size = min(length, _SIDE if count == 1 else _SMALL_SIDE)
    cells = []
    for index in range(count):
        middle = round((2 * index + 1) * length / (2 * count) - size / 2)
        first, last = index * length // count, (index + 1) * length // count - size
        cells.append(torch.tensor([middle, *range(first, last + 1, _STEP)]))
    return cells, size
