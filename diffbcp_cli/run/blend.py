"""Windows of a photograph that is too large for its memory budget, and how they become one picture again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from ..priors.interpolate import interpolate
from ..priors.sizes import Axis, cut, even_tile
from ..units import GREY, Bools, Floats

OVERLAP = 64  # pixels that neighbouring windows share
_ROUGH_SIDE = 512  # squares along the longer side of a rough guess


@dataclass(frozen=True)
class Window:
    """A part of the picture, its place among all, and its share (h, w, 1) in the result at each of its pixels."""

    index: int
    rows: slice
    columns: slice
    share: Floats


def windows(height: int, width: int, side: int) -> Iterator[Window]:
    """Cover a picture with windows of at most `side` pixels that overlap; at each pixel their shares sum to 1."""
    overlap = min(OVERLAP, side // 4)
    down, across = _axis(height, side, overlap), _axis(width, side, overlap)
    for i, top in enumerate(down.starts):
        for j, left in enumerate(across.starts):
            share = (down.weights[i][:, None] * across.weights[j]).numpy()[..., None]
            yield Window(
                i * len(across.starts) + j,
                slice(top, top + down.tile),
                slice(left, left + across.tile),
                np.ascontiguousarray(share, np.float32),
            )


def _axis(length: int, side: int, overlap: int) -> Axis:
    return cut(length, tile=even_tile(length, side, overlap, 1), overlap=overlap, multiple=1)


class RoughGuess:
    """The whole picture as averages of its known pixels over large squares: for windows in which none is known.

    pixels, observed: (H, W, C). The spread is that of the averages.
    """

    def __init__(self, pixels: Floats, observed: Bools) -> None:
        height, width = observed.shape[:2]
        self.step = math.ceil(max(height, width) / _ROUGH_SIDE)
        columns = np.arange(0, width, self.step)
        totals, counts = [], []
        for top in range(0, height, self.step):  # a few rows at a time: no copy of the picture
            known = observed[top : top + self.step]
            rows = np.where(known, pixels[top : top + self.step], np.float32(0)).sum(0)
            totals.append(np.add.reduceat(rows, columns, axis=0))
            counts.append(np.add.reduceat(known.sum(0, dtype=np.float32), columns, axis=0))
        count = np.stack(counts)
        averages = np.stack(totals) / count.clip(1)
        there = torch.from_numpy(count.transpose(2, 0, 1)[None] > 0)
        self.image = interpolate(torch.from_numpy(averages.transpose(2, 0, 1)[None]), there)
        self.spread = np.float32(averages[count > 0].std())

    def of(self, window: Window) -> tuple[Floats, Floats]:
        """Mean and std of a window."""
        height, width = self.image.shape[-2:]
        down, across = (
            torch.arange(part.start, part.stop, dtype=torch.float32)
            .add(0.5)
            .mul(2 / (self.step * length))
            .sub(1)
            for part, length in ((window.rows, height), (window.columns, width))
        )
        grid = torch.stack(torch.meshgrid(across, down, indexing="xy"), -1)[None]
        found = F.grid_sample(self.image, grid, padding_mode="border", align_corners=False)
        mean = np.ascontiguousarray(found[0].permute(1, 2, 0).numpy())
        return mean, np.full_like(mean, self.spread)


class Blend:
    """The restored windows put together: means by their shares, and likewise the variances."""

    def __init__(self, shape: tuple[int, ...], *, with_prior: bool = False) -> None:
        """with_prior: the means of the prior's image are put together as well."""
        self.done: list[Window] = []
        self.mean = np.zeros(shape, np.float32)
        self.var = np.zeros(shape, np.float32)
        self.prior = np.zeros(shape, np.float32) if with_prior else None

    def add(self, window: Window, mean: Floats, std: Floats, prior: Floats | None = None) -> None:
        """Take one window's result in; prior: its mean of the prior's image, its mean where there is none."""
        place = (window.rows, window.columns)
        self.mean[place] += window.share * mean
        self.var[place] += window.share * np.square(std)
        if self.prior is not None:
            self.prior[place] += window.share * (mean if prior is None else prior)
        self.done.append(window)

    def result(self) -> tuple[Floats, Floats]:
        """Mean and std, when all windows are in; what is held is given away, not copied."""
        return self.mean, np.sqrt(self.var, out=self.var)

    def shares(self) -> Floats:
        """The shares (H, W, 1) of all windows that are in, together."""
        share = np.zeros((*self.mean.shape[:2], 1), np.float32)
        for window in self.done:
            share[window.rows, window.columns] += window.share
        return share

    def partial(self, pixels: Floats, observed: Bools) -> tuple[Floats, Floats]:
        """The same of the windows so far; elsewhere the pixels as they came, grey where they are missing."""
        share = self.shares()
        there = share > 0
        share = np.where(there, share, np.float32(1))
        untouched = np.where(observed, pixels, np.float32(GREY))
        return np.where(there, self.mean / share, untouched), np.sqrt(self.var / share)

    def resume(self, mean: Floats, var: Floats, prior: Floats | None, done: list[Window]) -> None:
        """Go on from a checkpoint that holds these windows."""
        np.copyto(self.mean, mean)
        np.copyto(self.var, var)
        if self.prior is not None and prior is not None:
            np.copyto(self.prior, prior)
        self.done = done
