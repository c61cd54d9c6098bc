"""Grain: what was filled gets the grain that flat places of the known pixels have.

A posterior mean is smooth, so a fill stands out in a grainy picture. The grain is measured in flat blocks: its
spectrum for brightness and for the two colour differences, and its strength as a function of brightness. A seeded
draw of it is added to what was filled. This is for the eye: the standard deviation stays that of the mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from .. import random
from ..units import Bools, Floats

_BLOCK = 16  # pixels a side
_MOST_BLOCKS = 4000
_FEWEST = 12  # flat blocks that a spectrum can be measured by
_FLAT = 0.2  # share of the blocks that count as flat
_LOW = 3  # frequencies below are the picture's rather than the grain's
_MEDIAN = 0.4549  # of a squared standard normal
_LEVELS = 6  # of brightness, each with as many blocks
_LEAST = 0.5 / 255  # std below which there is no grain to see
_CLIPPED = 0.03  # from black and white: blocks nearer to them have lost some of their grain
_TILE = 512  # pixels a side, after which the draw repeats
_OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / np.sqrt([[3], [2], [6]])


@dataclass(frozen=True)
class Grain:
    """The grain of a picture on [0, 1].

    spectrum: (C, 16, 16) mean squares of the DCT of flat blocks, brightness first. brightness, strength: (n,) its
    std at some levels of brightness, over that of all.
    """

    spectrum: Floats
    brightness: Floats
    strength: Floats

    @property
    def std(self) -> float:
        """Of all frequencies and channels."""
        return float(np.sqrt(self.spectrum.mean()))

    def draw(self, *, rng: Generator) -> Floats:
        """A periodic square of it at mean strength, (_TILE, _TILE, C)."""
        channels = len(self.spectrum)
        white = random.normal_like(torch.zeros(channels, _TILE, _TILE, device=rng.device), rng=rng).cpu()
        shape = torch.from_numpy(self.spectrum).sqrt()
        coloured = torch.fft.rfft2(white) * _by_frequency(shape)
        drawn: Floats = torch.fft.irfft2(coloured, s=(_TILE, _TILE)).permute(1, 2, 0).numpy()
        return np.asarray(drawn @ _axes(channels), np.float32)


def measure_grain(pixels: Floats, known: Bools) -> Grain | None:
    """The grain of the known pixels, both (H, W, C); None if there is none to see, or no flat block is known."""
    blocks = _known_blocks(pixels, known)
    channels = pixels.shape[2]
    basis = _dct()
    level = blocks.mean((1, 2, 3))
    coefficients = np.einsum("ij,njkc,lk->ncil", basis, _level(blocks) @ _axes(channels).T, basis)
    inside = (level > _CLIPPED) & (level < 1 - _CLIPPED)
    squares, level = np.square(coefficients[inside]), level[inside]
    low = np.add.outer(np.arange(_BLOCK), np.arange(_BLOCK)) < _LOW
    rough = squares[:, 0][:, low].sum(1)
    groups = _flattest(level, rough)
    flat = np.concatenate(groups)
    if len(flat) < _FEWEST:
        return None
    spectrum = np.median(squares[flat], axis=0) / _MEDIAN
    ring = np.add.outer(np.arange(_BLOCK), np.arange(_BLOCK)) == _LOW
    spectrum[:, low] = spectrum[:, ring].mean(1, keepdims=True)
    energy = squares[:, 0][:, ~low].mean(1)
    brightness = np.array([np.median(level[group]) for group in groups], np.float32)
    energies = np.array([np.median(energy[group]) for group in groups])
    strength = np.sqrt(energies / max(np.median(energy[flat]), 1e-12)).astype(np.float32)
    found = Grain(spectrum.astype(np.float32), brightness, strength)
    return found if found.std >= _LEAST else None


def with_grain(mean: Floats, filled: Bools, grain: Grain, *, rng: Generator) -> Floats:
    """Add a draw of the grain to what was filled, all (H, W, C), as strong as its brightness asks for."""
    tile, (rows, columns, channels) = grain.draw(rng=rng), np.nonzero(filled)
    brightness = mean.mean(axis=-1)[rows, columns]
    strength = np.interp(brightness, grain.brightness, grain.strength).astype(np.float32)
    result = mean.copy()
    result[filled] = mean[filled] + strength * tile[rows % _TILE, columns % _TILE, channels]
    return result.clip(0, 1)


def _known_blocks(pixels: Floats, known: Bools) -> Floats:
    """Blocks (n, 16, 16, C) of which every entry is known, evenly spread over the picture."""
    down, across = (length // _BLOCK for length in known.shape[:2])
    inside = known[: down * _BLOCK, : across * _BLOCK].all(axis=-1)
    whole = inside.reshape(down, _BLOCK, across, _BLOCK).all(axis=(1, 3))
    places = np.argwhere(whole)
    places = places[:: max(1, len(places) // _MOST_BLOCKS)] * _BLOCK
    found = [pixels[top : top + _BLOCK, left : left + _BLOCK] for top, left in places]
    return np.stack(found) if found else np.zeros((0, _BLOCK, _BLOCK, pixels.shape[2]), np.float32)


def _level(blocks: Floats) -> Floats:
    """Blocks (n, 16, 16, C) without the plane that fits each best."""
    slope = (np.arange(_BLOCK) - (_BLOCK - 1) / 2) / math.sqrt(_BLOCK * (_BLOCK**2 - 1) / 12)
    rest = blocks - blocks.mean((1, 2), keepdims=True)
    for axis, shape in ((1, (-1, 1, 1)), (2, (1, -1, 1))):
        along = slope.reshape(shape)
        rest = rest - (rest.mean(3 - axis, keepdims=True) * along).sum(axis, keepdims=True) * along
    return np.asarray(rest, np.float32)


def _flattest(level: Floats, rough: Floats) -> list[NDArray[np.intp]]:
    """The flattest blocks of each group of like brightness, from dark to bright."""
    count = max(1, min(_LEVELS, round(_FLAT * len(level)) // _FEWEST))
    groups = np.array_split(np.argsort(level, kind="stable"), count)
    most = [max(_FEWEST, round(_FLAT * len(group))) for group in groups]
    flat = [group[np.argsort(rough[group], kind="stable")[:n]] for group, n in zip(groups, most, strict=True)]
    return sorted(flat, key=lambda group: float(np.median(level[group])) if len(group) else 0.0)


def _axes(channels: int) -> NDArray[np.float64]:
    """Rows: brightness and colour differences, orthonormal; a grey picture has its own axis."""
    return _OPPONENT if channels == 3 else np.eye(channels)


def _dct() -> NDArray[np.float64]:
    """The orthonormal DCT of a block, (frequencies, pixels)."""
    at = np.arange(_BLOCK)
    basis = np.cos(math.pi * (at + 0.5) * at[:, None] / _BLOCK) * math.sqrt(2 / _BLOCK)
    basis[0] /= math.sqrt(2)
    return basis


def _by_frequency(values: Tensor) -> Tensor:
    """Values (C, 16, 16) at the frequencies of a DCT, at those of a half-sided FFT of a tile: (C, T, T / 2 + 1)."""
    down, across = torch.fft.fftfreq(_TILE).abs(), torch.fft.rfftfreq(_TILE)
    across, down = (
        place * 2 * _BLOCK / (_BLOCK - 1) for place in (across, down)
    )  # 0 to 1, and a little beyond
    places = torch.stack(torch.meshgrid(across, down, indexing="xy"), -1)[None] - 0.5
    found = torch.nn.functional.grid_sample(
        values[None], places + places, padding_mode="border", align_corners=True
    )
    return found[0]
