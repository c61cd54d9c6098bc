"""One self-contained page: pictures to compare, distributions, calibration, and the table behind them.

Everything is in the file, and its content security policy forbids it to load anything else. Python prepares what is
shown; page.html, a jinja2 template with escaping on, says how.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ... import __version__
from . import charts
from .pictures import MAX_SIDE, picture_data
from .tables import Column, methods, used_columns, value_at
from .views import View

Sets = Mapping[str, Mapping[str, Any]]

METHOD_COLOURS = 6
SCRIPTS = ("pictures.js", "viewer.js", "page.js")


def page(document: Mapping[str, Any], views: Iterable[View], *, side: int = MAX_SIDE) -> str:
    """Return the page for a document of `diffbcp eval`. side: larger pictures are shrunk to it."""
    sets = methods(document)
    columns = used_columns(document)
    pictures = [picture_data(view, list(sets), side) for view in views]
    reliability, sparsification = calibration_charts(sets)
    return (
        _templates()
        .get_template("page.html")
        .render(
            css=Markup(_resource("page.css")),
            js=Markup("\n".join(_resource(name) for name in SCRIPTS)),
            version=__version__,
            count=max((one["count"] for one in sets.values()), default=0),
            names=[name for name in sets if name],
            columns=columns,
            cards=[_card(sets, column) for column in columns],
            remarks=_remarks(document, sets),
            distributions=_distributions(sets, columns),
            reliability=reliability,
            sparsification=sparsification,
            rows=_rows(sets, columns),
            conventions={_named(key): text for key, text in document["conventions"].items()},
            shown=len(pictures),
            data={
                "methods": list(sets),
                "images": pictures,
                "columns": [_column_data(column) for column in columns],
                "records": _records(sets, columns),
            },
        )
    )


def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader(__package__, "."), autoescape=True, undefined=StrictUndefined
    )
    templates.filters |= {"px": "{:.1f}".format, "whole": "{:.0f}".format, "short": "{:g}".format}
    templates.globals |= {"width": charts.WIDTH, "colours": METHOD_COLOURS}
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return templates


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


# ---- numbers ----


@dataclass(frozen=True)
class Figure:
    """The mean of one method on a card. best: the best of several methods."""

    method: int
    name: str
    value: str
    interval: str
    best: bool


@dataclass(frozen=True)
class Card:
    """The means of one metric."""

    label: str
    better: int
    figures: list[Figure]


def _card(sets: Sets, column: Column) -> Card:
    means = [value_at(one["mean"], column.path) for one in sets.values()]
    best = _best(means, column) if len(sets) > 1 else None
    figures = []
    for number, (name, one) in enumerate(sets.items()):
        ends = value_at(one["interval"], column.path)
        interval = f"{column.text(ends[0])} – {column.text(ends[1])}" if ends else ""
        value = column.text(means[number])
        figures.append(Figure(number % METHOD_COLOURS, name, value, interval, number == best))
    return Card(column.label, column.better, figures)


def _best(means: list[float | None], column: Column) -> int | None:
    known = [(value, number) for number, value in enumerate(means) if value is not None]
    if not known or column.better == 0:
        return None
    return (max if column.better > 0 else min)(known)[1]


def _rows(sets: Sets, columns: list[Column]) -> list[dict[str, Any]]:
    """A row of the table per picture and method: its cells are (number, text)."""
    return [
        {
            "name": record["name"],
            "method": method,
            "colour": number % METHOD_COLOURS,
            "cells": [
                (value, column.text(value))
                for column, value in ((column, value_at(record, column.path)) for column in columns)
            ],
        }
        for number, (method, one) in enumerate(sets.items())
        for record in one["images"]
    ]


def _column_data(column: Column) -> dict[str, Any]:
    keys = ("label", "digits", "percent", "better", "path")
    return {key: getattr(column, key) for key in keys}


def _records(sets: Sets, columns: list[Column]) -> dict[str, dict[str, list[str]]]:
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


def _remarks(document: Mapping[str, Any], sets: Sets) -> list[str]:
    """What was left out, and why."""
    lines = [f"{_named(key)} was not computed: {reason}" for key, reason in document["not_computed"].items()]
    for name, one in sets.items():
        where = f" ({name})" if name else ""
        lines += [f"{bad['name']}{where} was not scored: {bad['error']}" for bad in one["failed"]]
        lone = one["unmatched"]["results"]
        lines += [f"no truth for {', '.join(lone)}{where}"] if lone else []
    return lines


# ---- charts ----


def _distributions(sets: Sets, columns: list[Column]) -> list[charts.Distribution]:
    """A chart per metric that some picture has."""
    found = []
    for column in columns:
        samples = [
            sample
            for number, one in enumerate(sets.values())
            if (sample := _sample(number % METHOD_COLOURS, one, column)) is not None
        ]
        if samples:
            digits = 1 if column.percent else column.digits
            found.append(charts.distribution(column.label, samples, f"{{:.{digits}f}}".format))
    return found


def _sample(colour: int, one: Mapping[str, Any], column: Column) -> charts.Sample | None:
    """The values of one metric in one set; None if no picture has one."""
    values = {record["name"]: value_at(record, column.path) for record in one["images"]}
    factor = 100.0 if column.percent else 1.0
    known = {name: factor * value for name, value in values.items() if value is not None}
    if not known:
        return None
    ends = value_at(one["interval"], column.path)
    return charts.Sample(
        colour,
        list(known),
        list(known.values()),
        factor * value_at(one["mean"], column.path),
        (factor * ends[0], factor * ends[1]) if ends else None,
    )


def calibration_charts(sets: Sets) -> tuple[charts.Curves | None, charts.Curves | None]:
    """The reliability and the sparsification chart; None without uncertainty."""
    reliability, sparsification = [], []
    for number, (name, one) in enumerate(sets.items()):
        found, colour = one["curves"], number % METHOD_COLOURS
        for region, style in (("whole", "solid"), ("filled", "dashed")):
            if region in found:
                levels, covered = found["levels"], found[region]["reliability"]
                label = f"{name} {region}".strip()
                line = charts.Line(colour, label, [0.0, *levels, 1.0], [0.0, *covered, 1.0], style)
                reliability.append(line)
        if "whole" in found:
            removed, label = found["removed"], f"{name} whole".strip()
            by_std, by_error = found["whole"]["by_std"], found["whole"]["by_error"]
            sparsification.append(charts.Line(colour, label, removed, by_std))
            sparsification.append(charts.Line(colour, f"{label}, oracle", removed, by_error, "dotted"))
    if not reliability:
        return None, None
    return charts.curves(
        "Coverage of the intervals",
        reliability,
        x_label="nominal level of the interval",
        y_label="share of the truth covered",
        diagonal=True,
    ), charts.curves(
        "Sparsification",
        sparsification,
        x_label="removed share, least certain first",
        y_label="remaining error",
        diagonal=False,
        y_top=max(1.0, *(max(line.y) for line in sparsification)),
    )
