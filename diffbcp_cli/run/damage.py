"""Windows around the damage of a picture, with context: the rest need not be worked on.

The damage is cut along rows and columns while the windows of the pieces are less work than one window around them
all; so pieces whose contexts overlap much stay together, and a long scratch gets a chain of small windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..options import METHODS, Options, takes
from ..units import Bools, Floats
from .blend import Window

_CELL = 8  # pixels: damage is looked at in squares of this side
_CONTEXT = 16  # pixels around the damage, and
_PER_DEPTH = 0.6  # for each pixel from its inside to its edge, so many more
_MOST_CONTEXT = 128
_FADE = 16  # pixels beyond its piece over which a window's share falls to nothing
_NEAR = 64  # pixels a side: the smallest window of a sampler that only sees what is near
_OVERHEAD = 48 * 48  # pixels that a window costs beyond its own
_DENSE = 0.5  # share of damaged cells above which a piece is not cut
_GAPS = 12  # the widest gaps that are tried as cuts
MOST_DAMAGED = 0.5  # share of damaged cells up to which damage is in places, and not all over the picture
WORTH = 0.9  # share of the picture below which windows are worth it
WHOLE_ONLY = frozenset({"samples", "film", "film-mp4"})  # results that are not put together from windows


@dataclass(frozen=True)
class _Piece:
    """Damaged cells from rows top to bottom and columns left to right."""

    top: int
    bottom: int
    left: int
    right: int


class _Cells:
    """The damage in squares. depth: (rows, columns) about how far damaged pixels are from known ones."""

    def __init__(self, holes: Bools, least: int, most: int) -> None:
        """holes: (H, W). least, most: the side of a window."""
        self.height, self.width = holes.shape
        self.least, self.most = min(least, most), most
        self.depth = _depth(holes)
        self.there: Bools = self.depth > 0

    def tight(self, piece: _Piece) -> _Piece | None:
        """The piece without undamaged rows and columns at its edges; None if nothing is left."""
        there = self.there[piece.top : piece.bottom, piece.left : piece.right]
        rows, columns = np.flatnonzero(there.any(1)), np.flatnonzero(there.any(0))
        if not len(rows):
            return None
        down, across = (piece.top + int(rows[0]), piece.left + int(columns[0]))
        return _Piece(down, piece.top + int(rows[-1]) + 1, across, piece.left + int(columns[-1]) + 1)

    def window(self, piece: _Piece) -> tuple[slice, slice]:
        """Rows and columns of the window around a piece."""
        depth = float(self.depth[piece.top : piece.bottom, piece.left : piece.right].max())
        context = min(_CONTEXT + round(_PER_DEPTH * depth), _MOST_CONTEXT, self.most // 4)
        return (
            _around(piece.top, piece.bottom, context, self.height, self.least),
            _around(piece.left, piece.right, context, self.width, self.least),
        )

    def cost(self, piece: _Piece) -> int:
        """Work for the window of a piece, in pixels."""
        rows, columns = self.window(piece)
        return int((rows.stop - rows.start) * (columns.stop - columns.start) + _OVERHEAD)

    def pieces(self, piece: _Piece) -> tuple[list[_Piece], int]:
        """The pieces that a tight piece is best cut into, and what they cost together."""
        alone = self.cost(piece)
        fits = all(part.stop - part.start <= self.most for part in self.window(piece))
        there = self.there[piece.top : piece.bottom, piece.left : piece.right]
        if (fits and there.mean() > _DENSE) or there.size == 1:
            return [piece], alone
        tried = [[half for half in map(self.tight, halves) if half] for halves in _cuts(piece, there)]
        best = min(tried, key=lambda halves: sum(map(self.cost, halves)))
        found = [self.pieces(half) for half in best]
        together = sum(cost for _, cost in found)
        if fits and alone <= together:
            return [piece], alone
        return [one for pieces, _ in found for one in pieces], together


def _depth(holes: Bools) -> Floats:
    """How deep the holes (H, W) are in each cell, in pixels: (rows, columns), 0 without damage.

    A stroke as wide as t leaves a share of t / _CELL of a cell; a cell that is full lies inside a wider hole.
    """
    rows, columns = (np.arange(0, length, _CELL) for length in holes.shape)
    count = np.add.reduceat(np.add.reduceat(holes, rows, axis=0, dtype=np.float32), columns, axis=1)
    depth = np.asarray(count / (2 * _CELL), np.float32)
    inner = count == _CELL**2
    while inner.any():
        depth[inner] += _CELL
        if depth.max() > _MOST_CONTEXT:
            break
        framed = np.pad(inner, 1)
        for axis in (0, 1):
            middle = framed.shape[axis] - 2
            framed = np.minimum.reduce([framed.take(range(i, i + middle), axis) for i in range(3)])
        inner = framed
    return depth


def _around(first: int, last: int, context: int, length: int, least: int) -> slice:
    """Cells first to last as pixels, with their context, inside the picture and no shorter than `least`."""
    begin, end = first * _CELL - context, last * _CELL + context
    missing = max(0, least - (end - begin))
    begin = min(max(0, begin - missing // 2), max(0, length - least))
    return slice(begin, min(length, max(end, begin + least)))


def _cuts(piece: _Piece, there: Bools) -> Iterator[tuple[_Piece, _Piece]]:
    """Pairs of halves: cut in the widest gaps, and at each quarter."""
    top, bottom, left, right = piece.top, piece.bottom, piece.left, piece.right
    for at in _places(np.flatnonzero(there.any(1)), bottom - top):
        yield _Piece(top, top + at, left, right), _Piece(top + at, bottom, left, right)
    for at in _places(np.flatnonzero(there.any(0)), right - left):
        yield _Piece(top, bottom, left, left + at), _Piece(top, bottom, left + at, right)


def _places(full: NDArray[np.intp], length: int) -> list[int]:
    """Where a line of cells may be cut; full: those with damage."""
    gaps = np.diff(full)
    widest = [int(full[i]) + 1 for i in np.argsort(-gaps, kind="stable")[:_GAPS] if gaps[i] > 1]
    quarters = [length * part // 4 for part in (1, 2, 3)]
    return sorted({at for at in (*widest, *quarters) if 0 < at < length})


@dataclass(frozen=True)
class DamageWindows:
    """The windows of a picture (H, W) in which something is missing."""

    pieces: Sequence[_Piece]
    cells: _Cells

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Height and width of each."""
        places = map(self.cells.window, self.pieces)
        return [(rows.stop - rows.start, columns.stop - columns.start) for rows, columns in places]

    @property
    def pixels(self) -> int:
        """Of all together."""
        return sum(height * width for height, width in self.sizes)

    @cached_property
    def windows(self) -> list[Window]:
        """The windows with their shares, which sum to 1 at each damaged pixel."""
        total = np.zeros((self.cells.height, self.cells.width, 1), np.float32)
        found = []
        for index, piece in enumerate(self.pieces):
            rows, columns = self.cells.window(piece)
            down, across = _fall(rows, piece.top, piece.bottom), _fall(columns, piece.left, piece.right)
            weight = (down[:, None] * across)[..., None]
            total[rows, columns] += weight
            found.append(Window(index, rows, columns, weight))
        return [_share(window, total[window.rows, window.columns]) for window in found]


def _fall(part: slice, first: int, last: int) -> Floats:
    """1 over cells first to last, falling to 0 on both sides within `part`."""
    at = np.arange(part.start, part.stop)
    outside = np.maximum(first * _CELL - at, at - (last * _CELL - 1)).clip(0)
    return np.asarray((1 - outside / _FADE).clip(0), np.float32)


def _share(window: Window, total: Floats) -> Window:
    share = np.divide(window.share, total, out=np.zeros_like(total), where=total > 0)
    return Window(window.index, window.rows, window.columns, share)


def keeps_known(observed: Bools, options: Options) -> bool:
    """Whether known pixels come out as they were: asked for, or damage in places; observed: (H, W, C)."""
    if options.observed != "auto":
        return options.observed == "keep"
    share = float((_depth(_holes(observed)) > 0).mean())
    return 0 < share <= MOST_DAMAGED


def damage_windows(observed: Bools, options: Options, side: int | None) -> DamageWindows | None:
    """The windows around what is missing of a picture, (H, W, C); None where the whole picture must be worked on.

    That is where known pixels are denoised too, where the windows would hold much of it, or where what was asked for
    cannot be put together. side: of the largest window that the memory allows.
    """
    if not keeps_known(observed, options) or WHOLE_ONLY & {*options.save}:
        return None
    holes = _holes(observed)
    height, width = holes.shape
    cells = _Cells(holes, _least_window(options), side or max(height, width))
    start = cells.tight(_Piece(0, cells.there.shape[0], 0, cells.there.shape[1]))
    if start is None or float(cells.there.mean()) > MOST_DAMAGED:
        return None
    found = DamageWindows(cells.pieces(start)[0], cells)
    return found if found.pixels < WORTH * height * width else None


def _least_window(options: Options) -> int:
    """The smallest side of a window: what the prior alone restores needs only what is near."""
    by_prior = takes(options.method, "sampler") and options.sampler == "langevin" and options.prior != "none"
    return _NEAR if by_prior else METHODS[options.method].least_window


def _holes(observed: Bools) -> Bools:
    return np.asarray(~observed.all(axis=-1))
