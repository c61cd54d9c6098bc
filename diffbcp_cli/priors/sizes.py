"""Priors for any image size on top of priors that know one size.

`Tiled` cuts a large image into overlapping tiles and blends them with a smooth window; `Fitted` resizes to
the network's own size and back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from .base import Ask, Prior, Wrapper

FIT_SIDE = 256  # of the copy that a network of any size is given where it is not to see the whole


def reflected(length: int, *, before: int, after: int, device: torch.device) -> Tensor:
    """Indices (before + length + after,) that extend an axis by mirroring it at both ends, over and over."""
    position = torch.arange(-before, length + after, device=device)
    if length == 1:
        return torch.zeros_like(position)
    period = 2 * (length - 1)
    position = position.remainder(period)
    return torch.minimum(position, period - position)


@dataclass(frozen=True)
class Axis:
    """How one side of the image is cut.

    before, after: pixels of reflection that are added. starts: where the tiles begin on the padded side.
    weights: (tiles, tile) how much each tile counts at each of its pixels; at every pixel they sum to 1.
    """

    tile: int
    before: int
    after: int
    starts: tuple[int, ...]
    weights: Tensor


def cut(length: int, *, tile: int, overlap: int, multiple: int) -> Axis:
    """Cover a side of `length` pixels with tiles of `tile` that share at least `overlap` pixels.

    Tiles begin at multiples of `multiple`: a network that halves its input answers other shifts differently.
    """
    missing = max(tile - length, -(length - tile) % multiple)
    padded = length + missing
    steps = (padded - tile) // multiple
    stride = max((tile - overlap) // multiple, 1)
    count = math.ceil(steps / stride) + 1
    starts = [multiple * round(i * steps / max(count - 1, 1)) for i in range(count)]
    weights = torch.stack([_window(start, tile, padded, overlap) for start in starts])
    total = torch.zeros(padded, dtype=torch.float64)
    for start, weight in zip(starts, weights, strict=True):
        total[start : start + tile] += weight
    shares = torch.stack([w / total[s : s + tile] for s, w in zip(starts, weights, strict=True)])
    before = missing // 2 // multiple * multiple
    return Axis(tile, before, missing - before, tuple(starts), shares.float())


def even_tile(length: int, largest: int, overlap: int, multiple: int) -> int:
    """The side of a tile, at most `largest`, with which as many tiles as are needed overlap no more than they must.

    >>> even_tile(2048, 1024, 64, 8)  # three of 728 instead of three of 1024
    728
    """
    count = max(1, math.ceil((length - overlap) / (largest - overlap)))
    side = math.ceil((length + (count - 1) * overlap) / count)
    return min(largest, side + -side % multiple)


def _window(start: int, tile: int, length: int, overlap: int) -> Tensor:
    """How much a tile counts at each pixel (tile,): 0 near its seams, 1 inside and at the image's own border.

    The outer quarter of the overlap is not used at all, because there the network saw the tile's edge; the
    middle half rises as 3 u^2 - 2 u^3.
    """
    position = torch.arange(tile, dtype=torch.float64) + 0.5
    depth = torch.full_like(position, math.inf)
    if start > 0:
        depth = torch.minimum(depth, position)
    if start + tile < length:
        depth = torch.minimum(depth, tile - position)
    u = ((depth - overlap / 4) / max(overlap / 2, 1)).clamp(0, 1)
    return u.square() * (3 - 2 * u)


class Tiled(Wrapper):
    """A prior for images of any size from one that is at home at `size` x `size`.

    overlap: pixels that neighbouring tiles share. multiple: tiles are shifted by multiples of this.
    batch: tiles that go through the network at once. extend: an image smaller than a tile is extended to a
    whole one by reflection; without it the network gets the image as it is.
    """

    def __init__(
        self, prior: Prior, *, size: int, overlap: int, multiple: int, batch: int = 4, extend: bool = True
    ) -> None:
        if not 0 <= overlap < size:
            raise ValueError(f"tiles of {size} pixels cannot overlap by {overlap}")
        super().__init__(prior)
        self.size = size
        self.overlap = overlap
        self.multiple = multiple
        self.batch = batch
        self.extend = extend
        self._axes: dict[tuple[int, torch.device], Axis] = {}

    def _answer(self, ask: Ask, images: tuple[Tensor, ...], sigma: Tensor | float) -> Tensor:
        """Call the prior on the same tile of all images, a few tiles at a time, and blend its answers."""
        x = images[0]
        batch, _, height, width = x.shape
        levels = as_levels(sigma, x)
        if not self.extend and max(height, width) <= self.size:
            return ask(*images, levels)
        if batch > self.batch:
            cuts = [slice(first, first + self.batch) for first in range(0, batch, self.batch)]
            return torch.cat(
                [self._answer(ask, tuple(i[part] for i in images), levels[part]) for part in cuts]
            )
        rows, columns = self._axis(height, x.device), self._axis(width, x.device)
        down = reflected(height, before=rows.before, after=rows.after, device=x.device)
        across = reflected(width, before=columns.before, after=columns.after, device=x.device)
        padded = [image[:, :, down][..., across] for image in images]
        corners = [(i, j) for i in range(len(rows.starts)) for j in range(len(columns.starts))]
        at_once = max(self.batch // batch, 1)
        result = torch.zeros_like(padded[0])
        for first in range(0, len(corners), at_once):
            part = corners[first : first + at_once]
            windows = [torch.cat([_window_of(p, rows, columns, i, j) for i, j in part]) for p in padded]
            answers = ask(*windows, levels.repeat(len(part)))
            for (i, j), answer in zip(part, answers.chunk(len(part)), strict=True):
                weight = rows.weights[i][:, None] * columns.weights[j]  # (tile, tile)
                _window_of(result, rows, columns, i, j).add_(answer * weight.to(x.dtype))
        return result[:, :, rows.before : rows.before + height, columns.before : columns.before + width]

    def _axis(self, length: int, device: torch.device) -> Axis:
        """The cut of a side, made once for each length and kept on the device."""
        key = (length, device)
        if key not in self._axes:
            tile = self.size
            if not self.extend:
                tile = even_tile(length, tile, self.overlap, self.multiple)
            axis = cut(length, tile=tile, overlap=min(self.overlap, tile - 1), multiple=self.multiple)
            self._axes[key] = Axis(axis.tile, axis.before, axis.after, axis.starts, axis.weights.to(device))
        return self._axes[key]


def _window_of(x: Tensor, rows: Axis, columns: Axis, i: int, j: int) -> Tensor:
    """The view of tile (i, j) in x (B, C, H, W)."""
    top, left = rows.starts[i], columns.starts[j]
    return x[:, :, top : top + rows.tile, left : left + columns.tile]


def as_levels(sigma: Tensor | float, x: Tensor) -> Tensor:
    """sigma, a scalar or (B,), as (B,) beside x (B, C, H, W), without a copy from the host."""
    if isinstance(sigma, Tensor):
        return sigma.to(x).expand(x.shape[0])
    return torch.full((x.shape[0],), float(sigma), dtype=x.dtype, device=x.device)


class Fitted(Wrapper):
    """A prior for images of any size that resizes them to `size` x `size` (bicubic) and the answer back.

    Resizing averages the noise, so the network is told the level that is left in the resized image.
    """

    def __init__(self, prior: Prior, *, size: int) -> None:
        super().__init__(prior, replace(prior.traits, takes_mask=False, shrinks_to=size))
        self.size = size

    def _answer(self, ask: Ask, images: tuple[Tensor, ...], sigma: Tensor | float) -> Tensor:
        (x,) = images
        height, width = x.shape[-2:]
        levels = as_levels(sigma, x)
        if (height, width) == (self.size, self.size):
            return ask(x, levels)
        left = noise_gain(height, self.size) * noise_gain(width, self.size)
        answer = ask(resize(x, self.size, self.size), levels * left)
        return resize(answer, height, width)


def resize(x: Tensor, height: int, width: int) -> Tensor:
    """Bicubic, with a wider kernel when it shrinks: (B, C, H, W) -> (B, C, height, width)."""
    return F.interpolate(x, size=(height, width), mode="bicubic", antialias=True, align_corners=False)


@lru_cache(maxsize=64)
def noise_gain(length: int, size: int) -> float:
    """The standard deviation of white noise of level 1 after one side is resized from `length` to `size`."""
    kernel = resize(torch.eye(length)[None, None], length, size)[0, 0]  # (length, size): how much goes where
    return float(kernel.square().sum(0).mean().sqrt())
