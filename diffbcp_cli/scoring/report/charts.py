"""The geometry of the charts. charts.html draws them as SVG; colours and fonts are in page.css."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Scale = Callable[[float], float]

WIDTH = 360.0
_LEFT, _RIGHT = 12.0, 348.0  # the ends of a distribution's axis
_ROW = 46.0


@dataclass(frozen=True)
class Sample:
    """The values of one method: one value per named picture, their mean and its interval."""

    method: int
    names: Sequence[str]
    values: Sequence[float]
    mean: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Line:
    """A curve over [0, 1]. style: `solid`, `dashed` or `dotted`."""

    method: int
    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "solid"


@dataclass(frozen=True)
class Mark:
    """A point, a tick or a dot: where it is, and its text."""

    x: float
    y: float
    text: str
    name: str = ""


# ---- distributions ----


@dataclass(frozen=True)
class Row:
    """One method in a distribution: a dot per picture, quartile box and median, mean and its interval."""

    method: int
    y: float
    radius: float
    dots: Sequence[Mark]
    box: tuple[float, float]
    median: float
    mean: Mark
    whisker: tuple[float, float] | None

    @property
    def crowded(self) -> bool:
        """Whether there are so many dots that they overlap."""
        return self.radius < 3.0


@dataclass(frozen=True)
class Distribution:
    """A row per method over a common axis."""

    title: str
    height: float
    top: float
    bottom: float
    ticks: Sequence[Mark]
    rows: Sequence[Row]


def distribution(title: str, samples: Sequence[Sample], show: Callable[[float], str]) -> Distribution:
    """Lay out the values of each method. show: a value as text."""
    values = [value for one in samples for value in one.values]
    ticks = nice_ticks(min(values), max(values), 4)
    low, high = min(ticks[0], min(values)), max(ticks[-1], max(values))

    def x(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low)

    height = _ROW * len(samples) + 26
    bottom = height - 22
    return Distribution(
        title=title,
        height=height,
        top=4.0,
        bottom=bottom,
        ticks=[Mark(x(tick), bottom + 15, f"{tick:g}") for tick in ticks],
        rows=[_row(one, x, _ROW * (row + 0.5) + 2, show) for row, one in enumerate(samples)],
    )


def _row(one: Sample, x: Scale, y: float, show: Callable[[float], str]) -> Row:
    first, median, third = np.quantile(one.values, [0.25, 0.5, 0.75])
    count = len(one.values)
    dots = []
    for index, (name, value) in enumerate(zip(one.names, one.values, strict=True)):
        offset = 13.0 * (
            ((index * 0.618034) % 1.0) - 0.5
        )  # golden-ratio steps: even, and the same every time
        dots.append(Mark(x(value), y + offset, f"{name}: {show(value)}", name))
    return Row(
        method=one.method,
        y=y,
        radius=3.2 if count <= 60 else 2.2 if count <= 300 else 1.5,
        dots=dots,
        box=(x(first), max(1.0, x(third) - x(first))),
        median=x(median),
        mean=Mark(x(one.mean), y + 17, f"mean {show(one.mean)}"),
        whisker=None if one.interval is None else (x(one.interval[0]), x(one.interval[1])),
    )


# ---- curves ----


@dataclass(frozen=True)
class Curve:
    """One line: its points with their texts."""

    method: int
    style: str
    points: Sequence[Mark]


@dataclass(frozen=True)
class Curves:
    """Lines in a square. left, top, side: of the square. diagonal: from corner to corner, if wanted."""

    title: str
    height: float
    left: float
    top: float
    side: float
    x_ticks: Sequence[Mark]
    y_ticks: Sequence[Mark]
    x_label: Mark
    y_label: Mark
    diagonal: bool
    lines: Sequence[Curve]


def curves(
    title: str, lines: Sequence[Line], *, x_label: str, y_label: str, diagonal: bool, y_top: float = 1.0
) -> Curves:
    """Lay out lines over [0, 1] x [0, y_top]."""
    left, top, side = 58.0, 10.0, 286.0
    bottom = top + side

    def x(value: float) -> float:
        return left + side * value

    def y(value: float) -> float:
        return top + side * (1.0 - value / y_top)

    quarters = [0.0, 0.25, 0.5, 0.75, 1.0]
    return Curves(
        title=title,
        height=bottom + 42,
        left=left,
        top=top,
        side=side,
        x_ticks=[Mark(x(tick), bottom + 16, f"{tick:.0%}") for tick in quarters],
        y_ticks=[
            Mark(left - 6, y(tick), f"{tick:.0%}")
            for tick in (quarters if y_top == 1.0 else nice_ticks(0.0, y_top, 4))
        ],
        x_label=Mark(left + side / 2, bottom + 34, x_label),
        y_label=Mark(12.0, top + side / 2, y_label),
        diagonal=diagonal,
        lines=[
            Curve(
                line.method,
                line.style,
                [
                    Mark(x(a), y(b), f"{line.label}: {a:.0%} → {b:.3g}")
                    for a, b in zip(line.x, line.y, strict=True)
                ],
            )
            for line in lines
        ],
    )


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """About `count` round numbers that enclose low and high."""
    if not high > low:
        margin = abs(low) * 0.05 or 0.5
        low, high = low - margin, high + margin
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * unit >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * n, 12) for n in range(first, last + 1)]
