"""The document of a comparison as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...photos.files import harmless
from ...scoring.report.tables import Column, flat, interval_text, markdown_cell, markdown_table, value_at

COLUMNS = (
    Column("psnr", "PSNR", 2, +1),
    Column("ssim", "SSIM", 4, +1),
    Column("lpips", "LPIPS", 4, -1),
    Column("calibration.filled.coverage.90", "90 % covers filled", 1, percent=True),
    Column("calibration.whole.coverage.90", "90 % covers", 1, percent=True),
    Column("cost.seconds", "seconds", 1, -1),
    Column("cost.peak_memory", "memory, MB", 0, -1),
)
MEGA = 1e6
SHOWN = ("psnr", "ssim", "lpips", "coverage", "interval", "difference", "p", "memory", "published")


@dataclass(frozen=True)
class Cell:
    """One number of a table. best: the best of its column."""

    text: str
    interval: str = ""
    best: bool = False
    value: float | None = None


@dataclass(frozen=True)
class Row:
    """One method: how many photographs, its means, and its difference in PSNR from the first method.

    published: the paper's PSNR of this method, and its SSIM, for each of its sets of photographs.
    """

    name: str
    count: int
    cells: tuple[Cell, ...]
    gap: Cell
    p: str
    published: tuple[Cell, ...] = ()


def columns_of(damage: Mapping[str, Any]) -> list[Column]:
    """The columns for which some method has a mean."""
    methods = damage["methods"].values()
    return [
        column for column in COLUMNS if any(value_at(one["mean"], column.path) is not None for one in methods)
    ]


def rows_of(damage: Mapping[str, Any]) -> list[Row]:
    """The table of one kind of damage."""
    columns, methods = columns_of(damage), damage["methods"]
    best = {}
    for column in columns:
        means = [(value_at(one["mean"], column.path), name) for name, one in methods.items()]
        known = [(mean, name) for mean, name in means if mean is not None]
        if known and column.better and len(methods) > 1:
            best[column.path] = (max if column.better > 0 else min)(known)[1]
    rows = []
    for name, one in methods.items():
        cells = tuple(_cell(one, column, best=best.get(column.path) == name) for column in columns)
        rows.append(Row(name, one["count"], cells, *_gap(damage, name), _published(damage, name)))
    return rows


def _cell(one: Mapping[str, Any], column: Column, *, best: bool) -> Cell:
    mean = value_at(one["mean"], column.path)
    if column.path == "cost.peak_memory":
        return Cell(column.text(None if mean is None else mean / MEGA), "", best, mean)
    return Cell(column.text(mean), interval_text(one, column), best, mean)


def _gap(damage: Mapping[str, Any], name: str) -> tuple[Cell, str]:
    """The paired difference in PSNR from the first method, and its p."""
    found = damage["differences"]["to"].get(name, {}).get("psnr")
    if found is None:
        return Cell("–"), ""
    ends = found["interval"]
    interval = f"{ends[0]:+.2f} to {ends[1]:+.2f}" if ends else ""
    return Cell(f"{found['mean']:+.2f}", interval, value=found["mean"]), p_text(found.get("p"))


def beside(damage: Mapping[str, Any]) -> list[str]:
    """The paper's sets of photographs, if its figures may stand beside ours."""
    found = damage["published"]
    return list(dict.fromkeys(row["data"] for row in found["rows"])) if found else []


def _published(damage: Mapping[str, Any], method: str) -> tuple[Cell, ...]:
    found = damage["published"]
    named = found["names"].get(method) if found else None
    rows = {row["data"]: row for row in found["rows"] if row["method"] == named} if found else {}
    return tuple(
        Cell(f"{rows[data]['psnr']:.2f}", f"{rows[data]['ssim']:.4f}") if data in rows else Cell("–")
        for data in beside(damage)
    )


def shown_conventions(document: Mapping[str, Any]) -> dict[str, str]:
    """How the numbers of the tables were made; the document has more."""
    return {key: text for key, text in document["conventions"].items() if key in SHOWN}


def p_text(p: float | None) -> str:
    """A p value; empty if there is none."""
    return "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _head(damage: Mapping[str, Any]) -> list[str]:
    first = damage["differences"]["from"]
    labels = [column.label for column in columns_of(damage)]
    return [
        "method",
        "photographs",
        *labels,
        f"PSNR from {first}",
        "p",
        *(f"paper, {data}" for data in beside(damage)),
    ]


def _described(name: str, damage: Mapping[str, Any]) -> str:
    noise = damage["noise"]
    return name if noise is None else f"{name}, noise {noise:g}"


def markdown_text(document: Mapping[str, Any]) -> str:
    """The table of each kind of damage, the paper's rows where they compare, and how the numbers were made."""
    lines: list[str] = []
    for name, damage in document["damages"].items():
        lines += [f"## {markdown_cell(_described(name, damage))}", ""]
        lines += markdown_table(
            [markdown_cell(text) for text in _head(damage)],
            [
                [
                    markdown_cell(row.name),
                    str(row.count),
                    *map(_bracketed, (*row.cells, row.gap)),
                    row.p,
                    *map(_bracketed, row.published),
                ]
                for row in rows_of(damage)
            ],
        )
        for method, one in damage["methods"].items():
            lines += [f"\nFailed: {method}, {bad['name']}: {bad['error']}" for bad in one["failed"]]
        lines += ["", *_published_lines(damage["published"])]
    lines += ["## How the numbers were made", ""]
    lines += [f"- {key}: {text}" for key, text in shown_conventions(document).items()]
    lines += [f"- {key} was not computed: {reason}" for key, reason in document["not_computed"].items()]
    return "\n".join(lines) + "\n"


def _bracketed(cell: Cell) -> str:
    text = f"**{cell.text}**" if cell.best else cell.text
    return f"{text} ({cell.interval})" if cell.interval else text


def _published_lines(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    rows = [
        [row["data"], markdown_cell(row["method"]), *(f"{row[key]:.{d}f}" for key, d in PUBLISHED)]
        for row in found["rows"]
    ]
    table = markdown_table(["photographs", "published", *(key.upper() for key, _ in PUBLISHED)], rows)
    return [f"{found['source']}. {found['comparable']}", "", *table, ""]


PUBLISHED = (("psnr", 2), ("ssim", 4), ("lpips", 4))
"""The columns of the paper, and their digits."""


def latex_text(document: Mapping[str, Any]) -> str:
    """One tabular (booktabs) for each kind of damage; the best of each column is bold."""
    parts = ["% \\usepackage{booktabs}"]
    for name, damage in document["damages"].items():
        head = [column.label for column in columns_of(damage)]
        parts += [
            f"% {_described(name, damage)}",
            f"\\begin{{tabular}}{{l{'r' * (len(head) + 2)}}}",
            "\\toprule",
        ]
        titles = ["method", *head, f"PSNR from {damage['differences']['from']}", "p"]
        parts += [" & ".join(map(latex_escaped, titles)) + r" \\", "\\midrule"]
        for row in rows_of(damage):
            cells = [
                f"\\textbf{{{latex_escaped(cell.text)}}}" if cell.best else latex_escaped(cell.text)
                for cell in (*row.cells, row.gap)
            ]
            parts.append(" & ".join([latex_escaped(row.name), *cells, latex_escaped(row.p)]) + r" \\")
        parts += ["\\bottomrule", "\\end{tabular}", ""]
    return "\n".join(parts)


_LATEX = {"\\": r"\textbackslash{}", "–": "--", "<": "$<$", ">": "$>$", "~": r"\textasciitilde{}"} | {
    letter: f"\\{letter}" for letter in "&%$#_{}"
}
_LATEX["^"] = r"\textasciicircum{}"


def latex_escaped(text: str) -> str:
    """Text in which nothing is a command of LaTeX."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def csv_text(document: Mapping[str, Any]) -> str:
    """A row for each photograph, damage and method, with every number of its record."""
    rows = [dict(row) for row in _records(document)]
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({key: harmless(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _records(document: Mapping[str, Any]) -> Iterator[Iterator[tuple[str, Any]]]:
    for name, damage in document["damages"].items():
        for method, one in damage["methods"].items():
            for record in one["images"]:
                yield iter([("damage", name), ("method", method), *flat(record)])
