"""Masks that simulate damage: random entries, stripes, lines, boxes, text, scratches.

Every function returns observed entries, True = observed, and draws from the generator it is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from ..errors import UsageError

Bools = NDArray[np.bool_]
Canvas = NDArray[np.uint8]
Per = Literal["entry", "pixel"]
Shape = tuple[int, int, int]
Stroke = Callable[[Canvas, float], None]

STRIPE_SHARE = 0.3  # of the rows and of the columns
STRIPE_BAND = (1, 8)
LINE_BRUSH = (2, 6)
LINE_LENGTH = (10, 200)
LINES_MISSING = (0.3, 0.5)  # 50-70 % is left
_TOLERANCE = 0.005  # of the share, for kinds that are drawn stroke by stroke
_PATIENCE = 30  # strokes that would cover too much before smaller ones are tried
_HALVINGS = 10
_FILL = 255
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_WORDS = (
    "lorem",
    "ipsum",
    "dolor",
    "sit",
    "amet",
    "consectetur",
    "adipiscing",
    "elit",
    "sed",
    "tempor",
    "ut",
)

DEFAULT_MISSING = {
    "uniform": 0.5,
    "stripe": 1 - (1 - STRIPE_SHARE) ** 2,
    "irregular": 0.4,
    "box": 0.25,
    "text": 0.1,
    "scratch": 0.05,
}
KINDS = tuple(DEFAULT_MISSING)
RECIPES = ("paper-uniform-0.9", "paper-uniform-0.7", "paper-stripe", "paper-irregular")


def make(
    kind: str, shape: Shape, *, missing: float | None = None, per: Per = "entry", rng: Generator
) -> Bools:
    """Return a mask (H, W, C) of the named kind.

    missing: the share to lose, met as nearly as the kind allows; None is the kind's own. per: whether the
    channels of a pixel are lost one by one or together (uniform only; the other kinds lose whole pixels).
    """
    if kind not in DEFAULT_MISSING:
        raise UsageError(f"there is no mask kind {kind!r}", hint=f"use one of {', '.join(KINDS)}")
    share = DEFAULT_MISSING[kind] if missing is None else missing
    if not 0 < share < 1:
        raise UsageError(
            f"the missing share is {share:g}", hint="give a number between 0 and 1: --missing 0.9"
        )
    height, width, channels = shape
    if kind == "uniform":
        observed = uniform(shape if per == "entry" else (height, width, 1), share, rng=rng)
    else:
        drawn = {"stripe": stripe, "irregular": irregular, "box": box, "text": text, "scratch": scratch}[kind]
        observed = drawn(height, width, share, rng=rng)[..., None]
    return np.ascontiguousarray(np.broadcast_to(observed, (height, width, channels)))


def recipe(name: str, shape: Shape, *, rng: Generator) -> Bools:
    """Return a mask (H, W, C) by one of the paper's recipes.

    paper-uniform-0.9, -0.7: that share of the entries, exactly. paper-stripe: 30 % of the rows and 30 % of
    the columns, in bands of 1..8. paper-irregular: lines, brush 2..6, length 10..200, until 50-70 % is left.
    """
    if name not in RECIPES:
        raise UsageError(f"there is no recipe {name!r}", hint=f"use one of {', '.join(RECIPES)}")
    if name == "paper-irregular":
        low, high = LINES_MISSING
        return make("irregular", shape, missing=rng.uniform(low + _TOLERANCE, high - _TOLERANCE), rng=rng)
    if name == "paper-stripe":
        return make("stripe", shape, rng=rng)
    return make("uniform", shape, missing=float(name.removeprefix("paper-uniform-")), rng=rng)


def uniform(shape: tuple[int, ...], missing: float, *, rng: Generator) -> Bools:
    """Lose exactly round(missing * n) entries, each set of that size equally likely."""
    total = math.prod(shape)
    observed = np.ones(total, bool)
    lost = min(max(round(missing * total), 1), total - 1)
    observed[rng.choice(total, lost, replace=False, shuffle=False)] = False
    return observed.reshape(shape)


def stripe(height: int, width: int, missing: float, *, rng: Generator) -> Bools:
    """Lose the share s of the rows and of the columns in bands of 1..8, where 1 - (1 - s)^2 = missing."""
    share = 1 - math.sqrt(1 - missing)
    rows, columns = _bands(height, share, rng=rng), _bands(width, share, rng=rng)
    return ~(rows[:, None] | columns[None, :])


def _bands(length: int, share: float, *, rng: Generator) -> Bools:
    """Return `length` flags, round(share * length) of them set, in bands of 1..8 that do not touch."""
    lost = min(max(round(share * length), 1), length - 1)
    sizes: list[int] = []
    while sum(sizes) < lost:
        sizes.append(min(int(rng.integers(*STRIPE_BAND, endpoint=True)), lost - sum(sizes)))
    spare = length - lost - (len(sizes) - 1)
    if spare < 0:  # so much is lost that bands must touch
        starts = np.sort(rng.integers(0, length - lost, len(sizes), endpoint=True))
    else:
        starts = np.sort(rng.integers(0, spare, len(sizes), endpoint=True)) + np.arange(len(sizes))
    flags = np.zeros(length, bool)
    before = 0
    for start, size in zip(starts, sizes, strict=True):
        flags[start + before : start + before + size] = True
        before += size
    return flags


def irregular(height: int, width: int, missing: float, *, rng: Generator) -> Bools:
    """Draw straight lines of random place, angle, length 10..200 and brush 2..6 until the share is lost."""

    def line(canvas: Canvas, scale: float) -> None:
        length = rng.uniform(*LINE_LENGTH) * scale
        brush = math.ceil(int(rng.integers(*LINE_BRUSH, endpoint=True)) * min(1.0, 4 * scale))
        angle = rng.uniform(0, 2 * math.pi)
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        end = (round(x + length * math.cos(angle)), round(y + length * math.sin(angle)))
        cv2.line(canvas, (int(x), int(y)), end, _FILL, brush)

    largest = LINE_BRUSH[1] + 2
    return _cover(height, width, missing, line, reach=largest * (LINE_LENGTH[1] + largest))


def scratch(height: int, width: int, missing: float, *, rng: Generator) -> Bools:
    """Draw long thin scratches, nearly straight, most of them upright, until the share is lost."""
    longest = max(height, width)
    widest = 2 + longest // 500

    def stroke(canvas: Canvas, scale: float) -> None:
        length = rng.uniform(0.3, 1.0) * longest * scale
        steps = max(2, round(length / 12))
        angles = rng.normal(math.pi / 2, 0.35) + np.cumsum(rng.normal(0, 0.06, steps))
        x = rng.uniform(0, width) + np.cumsum(np.cos(angles)) * length / steps
        y = rng.uniform(-0.3, 0.9) * height + np.cumsum(np.sin(angles)) * length / steps
        points = np.stack([x, y], axis=-1).round().astype(np.int32)
        thickness = int(rng.integers(1, math.ceil(widest * scale), endpoint=True))
        cv2.polylines(canvas, [points], isClosed=False, color=_FILL, thickness=thickness)

    return _cover(height, width, missing, stroke, reach=longest * (widest + 2))


def text(height: int, width: int, missing: float, *, rng: Generator) -> Bools:
    """Write words, line by line in a random order, until the share is lost."""
    size = max(min(height, width) / 400, 0.3)
    slots = _word_slots(height, width, size, rng=rng)

    def word(canvas: Canvas, scale: float) -> None:
        place, letters = next(slots)
        letters = letters[: math.ceil(len(letters) * scale)]
        thickness = max(1, round(2 * size * min(1.0, 2 * scale)))
        cv2.putText(canvas, letters, place, _FONT, size * max(scale, 0.5), _FILL, thickness)

    return _cover(height, width, missing, word, reach=_line_height(size) * 200 * size)


def _word_slots(
    height: int, width: int, size: float, *, rng: Generator
) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield places and words of one page of text after another, each page in a random order."""
    line_height = _line_height(size)
    while True:
        page = []
        offset = int(rng.integers(0, line_height))
        for y in range(offset, height + line_height, line_height):
            x = -int(rng.integers(0, max(2, width // 8)))
            while x < width:
                word = _WORDS[int(rng.integers(len(_WORDS)))]
                page.append(((x, y), word))
                x += cv2.getTextSize(word + " ", _FONT, size, 1)[0][0]
        for index in rng.permutation(len(page)):
            yield page[index]


def _line_height(size: float) -> int:
    return max(8, round(34 * size))


def box(height: int, width: int, missing: float, *, rng: Generator) -> Bools:
    """Lose one rectangle of that share of the area, of about the picture's own proportions, anywhere."""
    area = missing * height * width
    tall = math.sqrt(missing) * height * rng.uniform(0.8, 1.25)
    rows = min(max(round(tall), math.ceil(area / width), 1), height)
    columns = min(max(round(area / rows), 1), width)
    if rows == height and columns == width:
        rows -= 1
    top, left = rng.integers(0, height - rows, endpoint=True), rng.integers(0, width - columns, endpoint=True)
    observed = np.ones((height, width), bool)
    observed[top : top + rows, left : left + columns] = False
    return observed


def _cover(height: int, width: int, missing: float, stroke: Stroke, *, reach: float) -> Bools:
    """Add strokes until the share is covered, as nearly as they allow.

    A stroke draws itself on a canvas (H, W) at a scale in (0, 1], on about reach * scale pixels at most.
    Strokes that would cover too much are undone; after many of them smaller ones are drawn.
    """
    total = height * width
    wanted = min(max(round(missing * total), 1), total - 1)
    most = wanted + int(_TOLERANCE * total)
    least = wanted - int(_TOLERANCE * total)
    canvas = np.zeros((height, width), np.uint8)
    nearest, covered, refused = canvas, 0, 0
    while covered < max(least, 1) and refused < _PATIENCE * _HALVINGS:
        scale = 0.5 ** (refused // _PATIENCE)
        trial = canvas.copy()
        for _ in range(max(1, int((most - covered) / (reach * scale)))):  # so many surely fit
            stroke(trial, scale)
        count = int(np.count_nonzero(trial))
        if 0 < count < total and abs(count - wanted) < abs(np.count_nonzero(nearest) - wanted):
            nearest = trial
        if count > most:
            refused += 1
        else:
            canvas, covered = trial, count
    return np.equal(nearest, 0)
