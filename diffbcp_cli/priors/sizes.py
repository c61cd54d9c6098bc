"""Priors for images of any size, built on priors for one size.

`Tiled` cuts an image into overlapping tiles and blends the results with a smooth window. `Fitted` resizes the image
to the native size of the network, and the result back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional as F

from .base import Ask, Prior, Wrapper

FIT_SIDE = 256  # pixels, for a network without a native size
SMALLEST_TILE = 128  # pixels, where memory is short


def reflected(length: int, *, before: int, after: int, device: torch.device) -> Tensor:
    """Indices (before + length + after,) that extend an axis by mirroring it at both ends, repeatedly if need be."""
    position = torch.arange(-before, length + after, device=device)
    if length == 1:
        return torch.zeros_like(position)
    period = 2 * (length - 1)
    position = position.remainder(period)
    return torch.minimum(position, period - position)


@dataclass(frozen=True)
class Axis:
    """How one side of the image is cut into tiles.

    before, after: pixels added by reflection. starts: where the tiles begin on the padded side.
    weights: (tiles, tile) the weight of each tile at each of its pixels; at every pixel of the image they sum to 1.
    """

    tile: int
    before: int
    after: int
    starts: tuple[int, ...]
    weights: Tensor


def cut(length: int, *, tile: int, overlap: int, multiple: int) -> Axis:
    """Cover a side of `length` pixels with tiles of `tile` that share at least `overlap` pixels.

    Tiles begin at multiples of `multiple`: a network that halves its input gives other results at other shifts.
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
    """The smallest tile with which the fewest tiles, of side `largest` at most, still cover `length`.

    >>> even_tile(2048, 1024, 64, 8)  # three of 728 instead of three of 1024
    728
    """
    count = max(1, math.ceil((length - overlap) / (largest - overlap)))
    side = math.ceil((length + (count - 1) * overlap) / count)
    return min(largest, side + -side % multiple)


def _window(start: int, tile: int, length: int, overlap: int) -> Tensor:
    """The weight of a tile at each of its pixels (tile,): 0 near a seam, 1 inside and at the border of the image.

    The outer quarter of the overlap has weight 0, because the network saw the edge of the tile there. The middle
    half rises as 3 u^2 - 2 u^3.
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
    """A prior for images of any size, from tiles of `size` x `size`.

    overlap: pixels that neighbouring tiles share. multiple: tiles begin at multiples of this. batch: tiles in one
    call of the inner prior. extend: extend an image smaller than a tile to a whole tile by reflection; otherwise
    the inner prior gets the image as it is.
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
        self.most: int | None = None  # images at once, where each is taken whole
        self._axes: dict[tuple[int, torch.device], Axis] = {}

    def _answer(self, ask: Ask, images: tuple[Tensor, ...], sigma: Tensor | float) -> Tensor:
        """Call the inner prior on a few tiles at a time, the same tiles of all images, and blend its answers."""
        x = images[0]
        batch, _, height, width = x.shape
        levels = as_levels(sigma, x)
        whole = not self.extend and max(height, width) <= self.size
        at_once = self.most if whole else self.batch
        if at_once is not None and batch > at_once:
            cuts = [slice(first, first + at_once) for first in range(0, batch, at_once)]
            return torch.cat(
                [self._answer(ask, tuple(i[part] for i in images), levels[part]) for part in cuts]
            )
        if whole:
            return ask(*images, levels)
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

    def shrink(self) -> str | None:
        """Take less memory from now on, by smaller batches or tiles; say which, None if neither helps."""
        if self.most is None or self.most > 1:
            self.batch = self.most = max(1, self.batch // 2)
            return f"batches of {self.batch}"
        if self.extend or self.size <= SMALLEST_TILE:
            return None
        self.size = max(SMALLEST_TILE, self.size // 2)
        self.overlap = min(self.overlap, self.size // 4)
        self._axes.clear()
        return f"tiles of {self.size} pixels"

    def _axis(self, length: int, device: torch.device) -> Axis:
        """The tiles along one side, computed once for each length and kept on the device."""
        key = (length, device)
        if key not in self._axes:
            tile = self.size
            if not self.extend:
                tile = even_tile(length, tile, self.overlap, self.multiple)
            axis = cut(length, tile=tile, overlap=min(self.overlap, tile - 1), multiple=self.multiple)
            self._axes[key] = replace(axis, weights=axis.weights.to(device))
        return self._axes[key]


def _window_of(x: Tensor, rows: Axis, columns: Axis, i: int, j: int) -> Tensor:
    """The view of tile (i, j) in x (B, C, H, W)."""
    top, left = rows.starts[i], columns.starts[j]
    return x[:, :, top : top + rows.tile, left : left + columns.tile]


def as_levels(sigma: Tensor | float, x: Tensor) -> Tensor:
    """sigma, a scalar or (B,), as (B,) of the type and device of x (B, C, H, W), without a copy from the host."""
    if isinstance(sigma, Tensor):
        return sigma.to(x).expand(x.shape[0])
    return torch.full((x.shape[0],), float(sigma), dtype=x.dtype, device=x.device)


class Fitted(Wrapper):
    """A prior for images of any size: they are resized to `size` x `size` (bicubic), and the result back.

    Resizing averages the noise, so the inner prior is told the level that remains. It gets no mask.
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
        gain = noise_gain(height, self.size) * noise_gain(width, self.size)
        answer = ask(resize(x, self.size, self.size), levels * gain)
        return resize(answer, height, width)


def resize(x: Tensor, height: int, width: int) -> Tensor:
    """Bicubic, antialiased when it shrinks: (B, C, H, W) -> (B, C, height, width)."""
    return F.interpolate(x, size=(height, width), mode="bicubic", antialias=True, align_corners=False)


@lru_cache(maxsize=64)
def noise_gain(length: int, size: int) -> float:
    """The standard deviation of white noise of level 1 after one side is resized from `length` to `size`."""
    matrix = resize(torch.eye(length)[None, None], length, size)[0, 0]  # (length, size), the resizing itself
    return float(matrix.square().sum(0).mean().sqrt())
