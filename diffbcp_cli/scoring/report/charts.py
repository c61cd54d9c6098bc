"""Small charts as inline SVG. Colours, fonts and line styles come from the page's style sheet by class."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

Scale = Callable[[float], float]

_LEFT, _RIGHT = 12.0, 348.0  # where a distribution's axis begins and ends
_ROW = 46.0


@dataclass(frozen=True)
class Sample:
    """The values of one method: named dots, their mean and its interval."""

    method: int
    names: Sequence[str]
    values: Sequence[float]
    mean: float
    interval: tuple[float, float] | None


@dataclass(frozen=True)
class Line:
    """A curve. style: `solid`, `dashed` or `dotted`."""

    method: int
    label: str
    x: Sequence[float]
    y: Sequence[float]
    style: str = "solid"


def distribution(title: str, samples: Sequence[Sample], show: Callable[[float], str]) -> str:
    """Every picture a dot, a row per method: quartile box, median, and the mean with its interval."""
    values = [value for one in samples for value in one.values]
    ticks = nice_ticks(min(values), max(values), 4)
    low, high = min(ticks[0], min(values)), max(ticks[-1], max(values))

    def x(value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * (value - low) / (high - low)

    height = _ROW * len(samples) + 26
    parts = [_axis_below(ticks, x, top=4.0, bottom=height - 22)]
    for row, one in enumerate(samples):
        parts.append(_distribution_row(one, x, _ROW * (row + 0.5) + 2, show))
    return _svg(title, 360, height, parts)


def _distribution_row(one: Sample, x: Scale, y: float, show: Callable[[float], str]) -> str:
    first, median, third = np.quantile(one.values, [0.25, 0.5, 0.75])
    radius = 3.2 if len(one.values) <= 60 else 2.2 if len(one.values) <= 300 else 1.5
    dots = []
    for index, (name, value) in enumerate(zip(one.names, one.values, strict=True)):
        offset = 13.0 * (((index * 0.618034) % 1.0) - 0.5)  # golden steps: spread without chance
        dots.append(
            f'<circle class="dot" cx="{x(value):.1f}" cy="{y + offset:.1f}" r="{radius}" '
            f'data-image="{escape(name)}"><title>{escape(name)}: {show(value)}</title></circle>'
        )
    box = (
        f'<rect class="box" x="{x(first):.1f}" y="{y - 11:.1f}" width="{max(1.0, x(third) - x(first)):.1f}" '
        f'height="22" rx="4"/><line class="median" x1="{x(median):.1f}" x2="{x(median):.1f}" '
        f'y1="{y - 11:.1f}" y2="{y + 11:.1f}"/>'
    )
    mean_y = y + 17
    whisker = ""
    if one.interval is not None:
        a, b = (x(end) for end in one.interval)
        whisker = f'<line class="whisker" x1="{a:.1f}" x2="{b:.1f}" y1="{mean_y:.1f}" y2="{mean_y:.1f}"/>'
    mean = (
        f'<path class="mean" d="M{x(one.mean):.1f} {mean_y - 4.5:.1f}l4.5 4.5l-4.5 4.5l-4.5 -4.5z">'
        f"<title>mean {show(one.mean)}</title></path>"
    )
    crowd = " crowd" if radius < 3.0 else ""
    return f'<g class="method-{one.method}{crowd}">{box}{"".join(dots)}{whisker}{mean}</g>'


def curves(
    title: str, lines: Sequence[Line], *, x_label: str, y_label: str, diagonal: bool, y_top: float = 1.0
) -> str:
    """Curves over [0, 1]; with a diagonal, above it is too cautious and below it too sure."""
    left, top, side = 44.0, 10.0, 300.0

    def x(value: float) -> float:
        return left + side * value

    def y(value: float) -> float:
        return top + side * (1.0 - value / y_top)

    ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
    parts = [_grid(ticks, x, ticks if y_top == 1.0 else nice_ticks(0.0, y_top, 4), y, top, side, left)]
    if diagonal:
        parts.append(f'<path class="diagonal" d="M{x(0):.1f} {y(0):.1f}L{x(1):.1f} {y(1):.1f}"/>')
    for line in lines:
        points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(line.x, line.y, strict=True))
        parts.append(
            f'<g class="method-{line.method} line {line.style}"><polyline points="{points}"/>'
            + "".join(
                f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.6">'
                f"<title>{escape(line.label)}: {a:.0%} → {b:.3g}</title></circle>"
                for a, b in zip(line.x, line.y, strict=True)
            )
            + "</g>"
        )
    bottom = top + side
    parts.append(
        f'<text class="label" x="{left + side / 2:.0f}" y="{bottom + 34:.0f}">{escape(x_label)}</text>'
    )
    middle = top + side / 2
    parts.append(
        f'<text class="label" transform="translate(12 {middle:.0f}) rotate(-90)">{escape(y_label)}</text>'
    )
    return _svg(title, 360, bottom + 42, parts)


def nice_ticks(low: float, high: float, count: int) -> list[float]:
    """Round numbers that reach from low to high, some `count` of them."""
    if not high > low:
        margin = abs(low) * 0.05 or 0.5
        low, high = low - margin, high + margin
    rough = (high - low) / count
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * unit for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * unit >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * n, 12) for n in range(first, last + 1)]


def _axis_below(ticks: Sequence[float], x: Scale, *, top: float, bottom: float) -> str:
    return "".join(
        f'<line class="grid" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{bottom}"/>'
        f'<text class="tick" x="{x(tick):.1f}" y="{bottom + 15}">{tick:g}</text>'
        for tick in ticks
    )


def _grid(
    x_ticks: Iterable[float],
    x: Scale,
    y_ticks: Iterable[float],
    y: Scale,
    top: float,
    side: float,
    left: float,
) -> str:
    down = "".join(
        f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="{top}" y2="{top + side}"/>'
        f'<text class="tick" x="{x(t):.1f}" y="{top + side + 16}">{t:.0%}</text>'
        for t in x_ticks
    )
    across = "".join(
        f'<line class="grid" x1="{left}" x2="{left + side}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
        f'<text class="tick end" x="{left - 6}" y="{y(t) + 3.5:.1f}">{t:.0%}</text>'
        for t in y_ticks
    )
    return down + across


def _svg(title: str, width: float, height: float, parts: Iterable[str]) -> str:
    head = f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">'
    return f"{head}{''.join(parts)}</svg>"
