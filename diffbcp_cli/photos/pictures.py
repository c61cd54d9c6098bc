"""Pictures for people: the heat map of the uncertainty, before / after panels, traces, mask overlays.

Matplotlib is imported late and used through Figure alone: no windows, no global state.
"""

from __future__ import annotations

import io
import logging
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure

logging.getLogger("matplotlib").addHandler(logging.NullHandler())  # it talks about its font cache

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

COLOURS = "inferno"
UNKNOWN = (0.78, 0.78, 0.80)  # how a value that is no number is shown
FILLED = (1.0, 0.18, 0.42)  # the tint of an overlay
_DPI = 100
_ROWS = 256  # of a picture that are coloured at once
_SMALLEST, _LARGEST = 480, 4096  # pixels of a picture's longer side
_PANEL_LARGEST = 900
_INK, _FAINT = "#222222", "#b8b8b8"


def heat_map(
    std: ArrayLike,
    *,
    top: float | None = None,
    title: str = "standard deviation of each pixel",
    bottom: float = 0.0,
) -> bytes:
    """Return a PNG of standard deviations (H, W, C) or (H, W), in [0, 1] units, with a colour bar.

    A pixel shows the root mean square over its channels, at one picture pixel or more each (up to 4096).
    top, bottom: the values of the brightest and the darkest colour; top None takes the 99.5 % quantile.
    """
    pixel_std = per_pixel(std)
    top = top if top is not None else scale_top(pixel_std)
    picture = _resized(pixel_std, _SMALLEST, _LARGEST)
    height, width = picture.shape
    unit = _text_unit(max(height, width) / 900)
    left, below, above, right = 12 * unit, 12 * unit, 34 * unit, 96 * unit
    figure = _figure(left + width + right, below + height + above)
    colours = _colours(bottom, max(top, bottom + 1e-6))
    _title(figure, title, left, below + height + 9 * unit, unit)
    _colour_bar(
        figure, colours, left + width + 12 * unit, below, height, unit, over=bool(pixel_std.max() > top)
    )
    return _png(figure, [(_coloured(picture, colours), left, below)])


def panel(before: ArrayLike, observed: ArrayLike, after: ArrayLike, std: ArrayLike | None) -> bytes:
    """Return a PNG of before, after and uncertainty side by side; of two pictures where no uncertainty is known.

    before, after, std: (H, W, C) or (H, W) in [0, 1]; observed: (H, W, C) or (H, W), True = observed.
    `before` is shown as it is, with its damage; only what is no number is a neutral grey.
    """
    known = float(np.mean(np.asarray(observed, bool)))
    shown = {f"before ({known:.0%} known)": _rgb(before), "after": _rgb(after)}
    pictures = {title: _resized(part, _SMALLEST, _PANEL_LARGEST) for title, part in shown.items()}
    height, width = pictures["after"].shape[:2]
    unit = _text_unit(max(height, width) / 500)
    edge, gap, above = 14 * unit, 14 * unit, 34 * unit
    right, bar = edge, None
    if std is not None:
        size = per_pixel(std)
        bar, right = _colours(0.0, scale_top(size)), 96 * unit
        pictures["uncertainty (std)"] = _coloured(_resized(size, _SMALLEST, _PANEL_LARGEST), bar)
    count = len(pictures)
    figure = _figure(edge + count * width + (count - 1) * gap + right, edge + height + above)
    placed = []
    for index, (title, picture) in enumerate(pictures.items()):
        left = edge + index * (width + gap)
        placed.append((picture, left, edge))
        _title(figure, title, left, edge + height + 9 * unit, unit)
    if bar is not None:
        over = bool(size.max() > scale_top(size))
        _colour_bar(figure, bar, left + width + 12 * unit, edge, height, unit, over=over)
    return _png(figure, placed)


def trace_plot(series: Mapping[str, ArrayLike], *, burn_in: int) -> bytes:
    """Return a PNG of some series over the iterations, by name, one below the other."""
    from matplotlib.ticker import MaxNLocator

    figure = _figure(900, 240 * len(series))
    axes = figure.subplots(len(series), 1, sharex=True, squeeze=False, gridspec_kw={"hspace": 0.16})[:, 0]
    for axis, (name, values) in zip(axes, series.items(), strict=True):
        shown = np.asarray(values, np.float64)
        _trace(axis, name, shown, burn_in, first=axis is axes[0])
        if np.array_equal(shown, np.rint(shown)):
            axis.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    axes[-1].set_xlabel("iteration", color=_INK)
    figure.align_ylabels(axes)
    axes[0].set_title("the first chain, step by step", loc="left", fontsize=10, color=_INK)
    figure.subplots_adjust(left=0.11, right=0.97, top=1 - 0.15 / len(series), bottom=0.24 / len(series))
    return _png(figure)


def overlay(pixels: ArrayLike, observed: ArrayLike) -> bytes:
    """Return a PNG of the photograph (H, W, C) with what will be filled (not observed) tinted.

    The more of a pixel's channels are missing, the stronger the tint.
    """
    share = 1.0 - np.asarray(observed, np.float32).reshape(*np.shape(observed)[:2], -1).mean(axis=-1)
    photo = _rgb(pixels)
    muted = 0.35 * photo + 0.65 * np.asarray(FILLED, np.float32)
    mixed = photo + share[..., None] * (muted - photo)
    return _encode(_resized(mixed.astype(np.float32), _SMALLEST, _LARGEST))


def shown(pixels: ArrayLike) -> bytes:
    """Return a PNG of a picture (H, W, C) or (H, W) in [0, 1], enlarged or reduced for a page."""
    return _encode(_resized(_rgb(pixels), _SMALLEST, _PANEL_LARGEST))


def _rgb(pixels: ArrayLike) -> Floats:
    values = np.asarray(pixels, np.float32)
    values = values.reshape(*values.shape[:2], -1)[..., :3]
    finite = np.where(np.isfinite(values), values, np.float32(UNKNOWN[0]))
    return np.broadcast_to(finite, (*values.shape[:2], 3)).clip(0, 1)


def per_pixel(std: ArrayLike) -> Floats:
    """The root mean square (H, W) over the channels."""
    values = np.asarray(std, np.float32)
    values = values.reshape(*values.shape[:2], -1)
    mean: Floats = np.einsum("hwc,hwc->hw", values, values)
    mean /= np.float32(values.shape[2])
    return np.sqrt(mean, out=mean)


def scale_top(pixel_std: Floats) -> float:
    """The 99.5 % quantile, rounded up to two digits, so that a few wild pixels do not darken the rest."""
    value = float(np.quantile(pixel_std, 0.995))
    if not value > 0:
        return 1 / 255
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / step) * step


def _resized(picture: NDArray[Any], smallest: int, largest: int) -> NDArray[Any]:
    """Repeat the pixels of a small picture, average those of a large one."""
    height, width = picture.shape[:2]
    longer = max(height, width)
    if longer > largest:
        size = (max(1, round(width * largest / longer)), max(1, round(height * largest / longer)))
        return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA))
    times = max(1, round(smallest / longer))
    return picture.repeat(times, axis=0).repeat(times, axis=1)


def _text_unit(wanted: float) -> float:
    """The scale of letters and margins: larger beside a large picture, to stay legible."""
    return min(max(wanted, 1.0), 4.0)


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(math.ceil(width) / _DPI, math.ceil(height) / _DPI), dpi=_DPI, facecolor="white")


def _frame(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place given in pixels."""
    across, up = figure.get_size_inches() * _DPI
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def _colours(bottom: float, top: float) -> ScalarMappable:
    """The map from values to colours."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    return ScalarMappable(Normalize(bottom, top), COLOURS)


def coloured(values: Floats, bottom: float, top: float) -> NDArray[np.uint8]:
    """Values (H, W) as RGB by the map of the uncertainty."""
    return _coloured(values, _colours(bottom, max(top, bottom + 1e-6)))


def _coloured(values: Floats, colours: ScalarMappable) -> NDArray[np.uint8]:
    """Values (H, W) as RGB; a few rows at a time, because matplotlib makes many copies."""
    picture = np.empty((*values.shape, 3), np.uint8)
    for top in range(0, len(values), _ROWS):
        picture[top : top + _ROWS] = colours.to_rgba(values[top : top + _ROWS], bytes=True)[..., :3]
    return picture


def _title(figure: Figure, text: str, left: float, bottom: float, unit: float) -> None:
    across, up = figure.get_size_inches() * _DPI
    figure.text(left / across, bottom / up, text, fontsize=10 * unit, color=_INK, va="bottom", ha="left")


def _colour_bar(
    figure: Figure,
    colours: ScalarMappable,
    left: float,
    bottom: float,
    height: float,
    unit: float,
    *,
    over: bool,
) -> None:
    axes = _frame(figure, left, bottom, 14 * unit, height)
    bar = figure.colorbar(colours, cax=axes, extend="max" if over else "neither", extendfrac=0.03)
    bar.ax.tick_params(labelsize=9 * unit, color=_INK, labelcolor=_INK, width=0.8 * unit, length=3 * unit)
    bar.outline.set_visible(False)
    bar.locator = _ticks(height / unit)
    bar.update_ticks()


def _ticks(room: float) -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=max(2, min(8, int(room / 50))), steps=[1, 2, 2.5, 5, 10])


def _trace(axis: Axes, name: str, values: NDArray[np.float64], burn_in: int, *, first: bool) -> None:
    steps = np.arange(1, len(values) + 1)
    axis.plot(steps, values, color="#3b528b", linewidth=1.4, marker="o" if len(values) == 1 else None)
    if burn_in > 0:
        axis.axvspan(0.5, burn_in + 0.5, color="#000000", alpha=0.05, linewidth=0)
        if first:
            axis.annotate(
                "burn-in",
                (burn_in + 0.5, 1),
                (-5, -5),
                xycoords=("data", "axes fraction"),
                textcoords="offset points",
                va="top",
                ha="right",
                fontsize=9,
                color="#777777",
            )
    axis.set_xlim(0.5, max(len(values), burn_in) + 0.5)
    axis.set_ylabel(name, color=_INK)
    axis.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    axis.spines[["left", "bottom"]].set_color(_FAINT)
    axis.tick_params(color=_FAINT, labelcolor=_INK, labelsize=9)


def _png(figure: Figure, placed: Sequence[tuple[NDArray[Any], float, float]] = ()) -> bytes:
    """Draw the figure, and on it RGB pictures with their lower left corners, a pixel at a pixel.

    matplotlib's own imshow would take 1.9 GB for a picture of 4096 x 4096.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    drawn = np.array(canvas.buffer_rgba())  # type: ignore[no-untyped-call]
    for picture, left, below in placed:
        height, width = picture.shape[:2]
        first, bottom = round(left), len(drawn) - round(below)
        drawn[bottom - height : bottom, first : first + width, :3] = _bytes(picture)
    file = io.BytesIO()
    Image.fromarray(drawn).save(file, "PNG")
    return file.getvalue()


def _bytes(picture: NDArray[Any]) -> NDArray[np.uint8]:
    return picture if picture.dtype == np.uint8 else np.rint(picture * 255).astype(np.uint8)


def _encode(picture: NDArray[Any]) -> bytes:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(_bytes(picture)).save(file, "PNG")
    return file.getvalue()
