"""One self-contained page: pictures to compare, distributions, calibration, and the table behind them.

Everything is in the file, and its content policy forbids it to load anything else.
"""

from __future__ import annotations

import base64
import io
import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ... import __version__
from . import charts
from .tables import Column, methods, used_columns, value_at

Floats = NDArray[np.float32]

PIXEL_BUDGET = 8_000_000
MIN_SIDE, MAX_SIDE = 256, 1024
_THUMBNAIL = 96
_METHOD_COLOURS = 6


@dataclass(frozen=True)
class View:
    """The pictures of one name, all (H, W, C) in [0, 1].

    before: what the run had to go by, None if unknown. results, stds: by method, which may lack either.
    """

    name: str
    truth: Floats
    before: Floats | None
    results: Mapping[str, Floats]
    stds: Mapping[str, Floats]


def side_for(pictures: int) -> int:
    """Largest side at which so many pictures fit in the page; the file stays below some 20 MB."""
    side = math.isqrt(PIXEL_BUDGET // max(1, pictures))
    return max(MIN_SIDE, min(MAX_SIDE, side))


def page(document: Mapping[str, Any], views: Iterable[View], *, side: int = MAX_SIDE) -> str:
    """Return the page for a document of `diffbcp eval`. side: larger pictures are shown smaller."""
    sets = methods(document)
    columns = used_columns(document)
    pictures = [_picture(view, list(sets), side) for view in views]
    data = {
        "methods": list(sets),
        "images": pictures,
        "columns": _columns_data(columns),
        "records": _records(sets, columns),
    }
    count = max((one["count"] for one in sets.values()), default=0)
    parts = {
        "css": _resource("page.css"),
        "js": _resource("page.js"),
        "lede": escape(_lede(count, [name for name in sets if name])),
        "summary": _summary(sets, columns),
        "pictures_hidden": "" if pictures else "hidden",
        "shown": escape(_shown(len(pictures), count)),
        "distributions": _distributions(sets, columns),
        "calibration": _calibration(sets),
        "legend": _legend(list(sets)),
        "table": _table(sets, columns),
        "conventions": _conventions(document),
        "remarks": _remarks(document, sets),
        "version": escape(__version__),
        "data": json.dumps(data, allow_nan=False).replace("<", "\\u003c"),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda slot: parts[slot[1]], _resource("page.html"))


# ---- pictures ----


def _picture(view: View, names: list[str], side: int) -> dict[str, Any]:
    """One view for the script: pictures as lossless WebP, std as grey with the value of white."""
    truth = _fitted(view.truth, side)
    layers = []
    for number, method in enumerate(names):
        if method not in view.results:
            continue
        std = view.stds.get(method)
        entry: dict[str, Any] = {"method": number, "mean": _uri(_fitted(view.results[method], side))}
        if std is not None:
            grey = _fitted(std.mean(axis=2, keepdims=True), side)
            top = max(float(grey.max()), 1e-6)
            entry |= {"std": _uri(grey / top), "std_top": top}
        layers.append(entry)
    return {
        "name": view.name,
        "width": truth.shape[1],
        "height": truth.shape[0],
        "full": [view.truth.shape[1], view.truth.shape[0]],
        "thumbnail": _uri(_fitted(view.truth, _THUMBNAIL), quality=80),
        "truth": _uri(truth),
        "before": None if view.before is None else _uri(_fitted(view.before, side)),
        "layers": layers,
    }


def _fitted(picture: Floats, side: int) -> Floats:
    """Shrink (H, W, C) by area means so that neither side is longer than `side`."""
    h, w, _ = picture.shape
    factor = side / max(h, w)
    if factor >= 1.0:
        return picture
    size = (max(1, round(w * factor)), max(1, round(h * factor)))
    small = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), dtype=np.float32)
    return small.reshape(size[1], size[0], -1)


def _uri(picture: Floats, *, quality: int | None = None) -> str:
    """(H, W, 1 or 3) in [0, 1] as a data URI; lossless unless a quality is given."""
    levels = np.rint(255.0 * np.clip(picture, 0.0, 1.0)).astype(np.uint8)
    image = Image.fromarray(levels[:, :, 0] if levels.shape[2] == 1 else levels).convert("RGB")
    file = io.BytesIO()
    if quality is None:
        image.save(file, format="WEBP", lossless=True, quality=60, method=3)
    else:
        image.save(file, format="WEBP", quality=quality)
    return "data:image/webp;base64," + base64.b64encode(file.getvalue()).decode()


# ---- numbers ----


def _columns_data(columns: list[Column]) -> list[dict[str, Any]]:
    return [
        {"label": c.label, "digits": c.digits, "percent": c.percent, "better": c.better, "path": c.path}
        for c in columns
    ]


def _records(sets: Mapping[str, Mapping[str, Any]], columns: list[Column]) -> dict[str, dict[str, list[str]]]:
    """By picture and method number: the numbers as they are shown."""
    found: dict[str, dict[str, list[str]]] = {}
    for number, one in enumerate(sets.values()):
        for record in one["images"]:
            texts = [column.text(value_at(record, column.path)) for column in columns]
            found.setdefault(record["name"], {})[str(number)] = texts
    return found


_NAMES = {"psnr": "PSNR", "ssim": "SSIM", "ms_ssim": "MS-SSIM", "lpips": "LPIPS", "mae": "MAE"} | {
    name: name.upper() for name in ("crps", "nll", "ause")
}


def _named(key: str) -> str:
    return _NAMES.get(key, key.replace("_", " ").capitalize())


def _lede(count: int, names: list[str]) -> str:
    images = f"{count} image{'s' if count != 1 else ''}"
    return f"{images}, {len(names)} methods, against the truth" if names else f"{images} against the truth"


def _shown(shown: int, count: int) -> str:
    return f"{shown} of {count}, evenly from the lowest to the highest PSNR." if shown < count else ""


def _summary(sets: Mapping[str, Mapping[str, Any]], columns: list[Column]) -> str:
    """A card per metric; with several methods, a line per method in it and the best one marked."""
    cards = []
    for column in columns:
        means = [value_at(one["mean"], column.path) for one in sets.values()]
        best = _best(means, column) if len(sets) > 1 else None
        lines = "".join(
            _summary_line(number, name, one, column, number == best)
            for number, (name, one) in enumerate(sets.items())
        )
        arrow = {1: "higher is better", -1: "lower is better", 0: "should be 90"}[column.better]
        cards.append(
            f'<div class="card"><h3>{escape(column.label)}</h3>{lines}<p class="hint">{arrow}</p></div>'
        )
    return "".join(cards)


def _summary_line(number: int, name: str, one: Mapping[str, Any], column: Column, best: bool) -> str:
    interval = value_at(one["interval"], column.path)
    spread = f"{column.text(interval[0])} – {column.text(interval[1])}" if interval else ""
    label = f'<span class="name"><i class="swatch"></i>{escape(name)}</span>' if name else ""
    value = escape(column.text(value_at(one["mean"], column.path)))
    return (
        f'<p class="figure method-{number % _METHOD_COLOURS}{" best" if best else ""}">{label}'
        f'<b>{value}</b><span class="interval">{spread}</span></p>'
    )


def _best(means: list[float | None], column: Column) -> int | None:
    known = [(value, number) for number, value in enumerate(means) if value is not None]
    if not known or column.better == 0:
        return None
    return (max if column.better > 0 else min)(known)[1]


def _distributions(sets: Mapping[str, Mapping[str, Any]], columns: list[Column]) -> str:
    figures = []
    for column in columns:
        samples = []
        for number, one in enumerate(sets.values()):
            rows = [(record["name"], value_at(record, column.path)) for record in one["images"]]
            rows = [(name, value) for name, value in rows if value is not None]
            if rows:
                interval = value_at(one["interval"], column.path)
                mean = value_at(one["mean"], column.path)
                factor = 100.0 if column.percent else 1.0
                samples.append(
                    charts.Sample(
                        number % _METHOD_COLOURS,
                        [name for name, _ in rows],
                        [factor * value for _, value in rows],
                        factor * mean,
                        (factor * interval[0], factor * interval[1]) if interval else None,
                    )
                )
        if samples:
            figures.append(_figure(column.label, charts.distribution(column.label, samples, _show(column))))
    return "".join(figures)


def _show(column: Column) -> Any:
    digits = 1 if column.percent else column.digits
    return lambda value: f"{value:.{digits}f}"


def _calibration(sets: Mapping[str, Mapping[str, Any]]) -> str:
    reliability, sparsification = [], []
    for number, (name, one) in enumerate(sets.items()):
        found = one["curves"]
        for region, style in (("whole", "solid"), ("filled", "dashed")):
            if region not in found:
                continue
            colour, label = number % _METHOD_COLOURS, f"{name} {region}".strip()
            curve = found[region]
            reliability.append(
                charts.Line(
                    colour, label, [0.0, *found["levels"], 1.0], [0.0, *curve["reliability"], 1.0], style
                )
            )
            if region == "whole":
                sparsification.append(charts.Line(colour, label, found["removed"], curve["by_std"]))
                oracle = charts.Line(
                    colour, f"{label}, oracle", found["removed"], curve["by_error"], "dotted"
                )
                sparsification.append(oracle)
    if not reliability:
        return (
            '<p class="hint">No std or draws were found beside the results, so there is nothing to check.</p>'
        )
    top = max(1.0, *(max(line.y) for line in sparsification))
    first = charts.curves(
        "Coverage against level",
        reliability,
        x_label="interval's level",
        y_label="share of the truth inside",
        diagonal=True,
    )
    second = charts.curves(
        "Sparsification",
        sparsification,
        x_label="least certain entries taken away",
        y_label="error that is left",
        diagonal=False,
        y_top=top,
    )
    dashed = any(line.style == "dashed" for line in reliability)
    return _figure(
        "Do the intervals cover what they claim?",
        first,
        "On the diagonal they do; below it the result is too sure of itself, above it too cautious."
        + (" Solid: whole picture, dashed: filled region." if dashed else ""),
    ) + _figure(
        "Does the std know where the errors are?",
        second,
        "The error of what is left when the least certain entries go first. Dotted: an oracle that takes "
        "away the largest errors. The closer the two, the better.",
    )


def _figure(title: str, svg: str, note: str = "") -> str:
    caption = f'<p class="hint">{escape(note)}</p>' if note else ""
    return f"<figure><figcaption>{escape(title)}</figcaption>{svg}{caption}</figure>"


def _legend(names: list[str]) -> str:
    if names == [""]:
        return ""
    items = (
        f'<li class="method-{number % _METHOD_COLOURS}"><i class="swatch"></i>{escape(name)}</li>'
        for number, name in enumerate(names)
    )
    return f'<ul class="legend" aria-label="Methods">{"".join(items)}</ul>'


def _table(sets: Mapping[str, Mapping[str, Any]], columns: list[Column]) -> str:
    several = list(sets) != [""]
    heads = ["image", *(["method"] if several else []), *(column.label for column in columns)]
    head = "".join(
        f'<th scope="col"{"" if place < len(heads) - len(columns) else " class=number"}>'
        f'<button type="button">{escape(text)}</button></th>'
        for place, text in enumerate(heads)
    )
    rows = []
    for number, (method, one) in enumerate(sets.items()):
        for record in one["images"]:
            cells = "".join(_cell(column, value_at(record, column.path)) for column in columns)
            label = (
                f'<td class="method-{number % _METHOD_COLOURS}"><i class="swatch"></i>{escape(method)}</td>'
            )
            name = escape(record["name"])
            rows.append(
                f'<tr data-image="{name}"><th scope="row">{name}</th>{label if several else ""}{cells}</tr>'
            )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(column: Column, value: float | None) -> str:
    key = "" if value is None else f' data-value="{value!r}"'
    return f'<td class="number"{key}>{escape(column.text(value))}</td>'


def _conventions(document: Mapping[str, Any]) -> str:
    rows = (
        f"<div><dt>{escape(_named(key))}</dt><dd>{escape(str(text))}</dd></div>"
        for key, text in document["conventions"].items()
    )
    return f"<dl>{''.join(rows)}</dl>"


def _remarks(document: Mapping[str, Any], sets: Mapping[str, Mapping[str, Any]]) -> str:
    """What was left out, and why."""
    lines = [f"{_named(key)} was not computed: {reason}" for key, reason in document["not_computed"].items()]
    for name, one in sets.items():
        where = f" ({name})" if name else ""
        lines += [f"{bad['name']}{where} was not scored: {bad['error']}" for bad in one["failed"]]
        lone = one["unmatched"]["results"]
        lines += [f"no truth for {', '.join(lone)}{where}"] if lone else []
    if not lines:
        return ""
    return f'<ul class="remarks">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
