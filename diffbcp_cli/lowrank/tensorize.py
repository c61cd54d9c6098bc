"""Tensorizations: linear maps from an image (C, H, W) to a matrix (U, V) of tensor entries.

The tensor's modes are split in two groups, left and right; U and V are the products of their sizes.
An entry has the weight w = 1 / (how many entries hold the same pixel), and zero on padding. Every pixel then counts
once, and the weighted fold average is the exact inverse of the unfolding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor
from torch.nn import functional


class Tensorization(Protocol):
    """A layout of an image as a tensor, and the way back."""

    @property
    def left(self) -> tuple[int, ...]:
        """Sizes of the left group's modes."""

    @property
    def right(self) -> tuple[int, ...]:
        """Sizes of the right group's modes."""

    def unfold(self, image: Tensor) -> Tensor:
        """Lay an image out as entries, (C, H, W) -> (U, V); padding is zero."""

    def fold(self, entries: Tensor) -> Tensor:
        """Sum the entries of each pixel, (U, V) -> (C, H, W)."""


@dataclass(frozen=True)
class Patches:
    """Overlapping p x p patches: tensor (C, p, p, P), left group (C, p, p), right group (P)."""

    channels: int
    height: int
    width: int
    patch: int = 16
    stride: int = 8

    @property
    def grid(self) -> tuple[int, int]:
        """How many patches fit down and across the padded image."""
        return _steps(self.height, self.patch, self.stride), _steps(self.width, self.patch, self.stride)

    @property
    def padded(self) -> tuple[int, int]:
        """Size of the image that the patches cover."""
        down, across = self.grid
        return (down - 1) * self.stride + self.patch, (across - 1) * self.stride + self.patch

    @property
    def left(self) -> tuple[int, ...]:
        """Channel, row and column within a patch."""
        return self.channels, self.patch, self.patch

    @property
    def right(self) -> tuple[int, ...]:
        """The patches."""
        return (math.prod(self.grid),)

    def unfold(self, image: Tensor) -> Tensor:
        """(C, H, W) -> (C p p, P)."""
        high, wide = self.padded
        padded = functional.pad(image, (0, wide - self.width, 0, high - self.height))
        return functional.unfold(padded[None], self.patch, stride=self.stride)[0]

    def fold(self, entries: Tensor) -> Tensor:
        """(C p p, P) -> (C, H, W), summed over overlapping patches."""
        image = functional.fold(entries[None], self.padded, self.patch, stride=self.stride)[0]
        return image[:, : self.height, : self.width]

    def copies(self) -> Tensor:
        """How many patches hold each pixel, (1, H, W)."""
        sides = []
        for count, length in zip(self.grid, (self.height, self.width), strict=True):
            starts = torch.arange(count) * self.stride
            place = torch.arange(length)[:, None]
            sides.append(((place >= starts) & (place < starts + self.patch)).sum(1).float())
        return sides[0][None, :, None] * sides[1]


@dataclass(frozen=True)
class SomePatches:
    """Some of the patches of an image, by their index (n,): tensor (C, p, p, n)."""

    patches: Patches
    index: Tensor

    @property
    def left(self) -> tuple[int, ...]:
        """Channel, row and column within a patch."""
        return self.patches.left

    @property
    def right(self) -> tuple[int, ...]:
        """The chosen patches."""
        return (len(self.index),)

    def unfold(self, image: Tensor) -> Tensor:
        """(C, H, W) -> (C p p, n); no other patch is laid out."""
        whole, across = self.patches, self.patches.grid[1]
        high, wide = whole.padded
        padded = functional.pad(image, (0, wide - whole.width, 0, high - whole.height))
        windows = padded.unfold(1, whole.patch, whole.stride).unfold(2, whole.patch, whole.stride)
        chosen = windows[:, self.index // across, self.index % across]  # (C, n, p, p)
        return chosen.permute(0, 2, 3, 1).reshape(-1, len(self.index))

    def fold(self, entries: Tensor) -> Tensor:
        """(C p p, n) -> (C, H, W), summed over overlapping patches; zero where there is none."""
        whole, (high, wide), across = self.patches, self.patches.padded, self.patches.grid[1]
        side = torch.arange(whole.patch, device=entries.device)
        rows = side[:, None, None] + (self.index // across) * whole.stride  # (p, 1, n)
        columns = side[None, :, None] + (self.index % across) * whole.stride  # (1, p, n)
        image = entries.new_zeros(whole.channels, high * wide)
        image.index_add_(1, (rows * wide + columns).flatten(), entries.reshape(whole.channels, -1))
        return image.view(whole.channels, high, wide)[:, : whole.height, : whole.width]


def _steps(length: int, patch: int, stride: int) -> int:
    return max(0, math.ceil((length - patch) / stride)) + 1


@dataclass(frozen=True)
class Reshape:
    """The high-resolution form: H x W x C as (H1, H2, W1, W2, C), left group (H1, H2), right group (W1, W2, C)."""

    channels: int
    height: int
    width: int

    @property
    def left(self) -> tuple[int, ...]:
        """Balanced factors of the padded height."""
        return balanced_factors(self.height)

    @property
    def right(self) -> tuple[int, ...]:
        """Balanced factors of the padded width, and the channel."""
        return *balanced_factors(self.width), self.channels

    def unfold(self, image: Tensor) -> Tensor:
        """(C, H, W) -> (H1 H2, W1 W2 C)."""
        high, wide = math.prod(self.left), math.prod(self.right[:2])
        padded = functional.pad(image, (0, wide - self.width, 0, high - self.height))
        return padded.permute(1, 2, 0).flatten(1)

    def fold(self, entries: Tensor) -> Tensor:
        """(H1 H2, W1 W2 C) -> (C, H, W)."""
        image = entries.reshape(len(entries), -1, self.channels).permute(2, 0, 1)
        return image[:, : self.height, : self.width]


def balanced_factors(length: int) -> tuple[int, int]:
    """Two factors a >= b, a <= 2 b + 1 or so, with the smallest product that holds `length` (64, 32 for 2048)."""
    root = math.isqrt(length)
    pairs = [(math.ceil(length / b), b) for b in range(max(1, math.ceil(root / 1.5)), root + 2)]
    a, b = min(pairs, key=lambda pair: (pair[0] * pair[1], abs(pair[0] - pair[1])))
    return max(a, b), min(a, b)


def tensorize(
    size: tuple[int, int, int], kind: Literal["patch", "reshape"], *, patch: int = 16, stride: int = 8
) -> Tensorization:
    """Choose the tensorization of an image of size (C, H, W)."""
    if kind == "reshape":
        return Reshape(*size)
    return Patches(*size, patch=patch, stride=stride)


def entry_weight(
    shape: Tensorization, size: tuple[int, int, int], *, once: bool, device: torch.device
) -> Tensor:
    """w (U, V): with `once` 1 / (entries that hold the pixel), else 1; zero on padding."""
    inside = shape.unfold(torch.ones(size, device=device))
    if not once:
        return inside
    return inside / shape.unfold(shape.fold(inside)).clamp_min(1.0)


def fold_average(shape: Tensorization, entries: Tensor, weight: Tensor) -> Tensor:
    """Average the entries of each pixel with their weights, (U, V) -> (C, H, W)."""
    return shape.fold(entries * weight) / shape.fold(weight)
