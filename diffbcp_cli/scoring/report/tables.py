"""The document of `diffbcp eval` as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ...photos.files import harmless


@dataclass(frozen=True)
class Column:
    """A number of a record: its dotted path and how it is shown.

    better: +1 higher, -1 lower, 0 neither. brief: whether the terminal shows it.
    """

    path: str
    label: str
    digits: int
    better: int = 0
    percent: bool = False
    brief: bool = True

    def text(self, value: float | None) -> str:
        """The number as text; a dash if there is none."""
        if value is None:
            return "–"
        return f"{100 * value:.1f}" if self.percent else f"{value:.{self.digits}f}"


COLUMNS = (
    Column("psnr", "PSNR", 2, +1),
    Column("ssim", "SSIM", 4, +1),
    Column("ms_ssim", "MS-SSIM", 4, +1),
    Column("lpips", "LPIPS", 4, -1),
    Column("mae", "MAE", 4, -1),
    Column("regions.filled.psnr", "PSNR filled", 2, +1),
    Column("regions.filled.ssim", "SSIM filled", 4, +1),
    Column("regions.observed.psnr", "PSNR observed", 2, +1, brief=False),
    Column("calibration.whole.coverage.90", "90 % covers", 1, percent=True),
    Column("calibration.filled.coverage.90", "90 % covers filled", 1, percent=True),
    Column("calibration.whole.correlation", "std vs error", 3, +1, brief=False),
    Column("calibration.whole.ause", "AUSE", 3, -1),
    Column("calibration.whole.crps", "CRPS", 4, -1, brief=False),
    Column("calibration.whole.nll", "NLL", 2, -1, brief=False),
)


def methods(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The sets of a document by name; a single set has the empty name."""
    found: Mapping[str, Mapping[str, Any]] | None = document.get("methods")
    return dict(found) if found is not None else {"": document}


def value_at(record: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, or None."""
    value: Any = record
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def used_columns(document: Mapping[str, Any]) -> list[Column]:
    """The columns for which at least one set has a mean."""
    sets = methods(document).values()
    return [
        column for column in COLUMNS if any(value_at(one["mean"], column.path) is not None for one in sets)
    ]


def csv_text(document: Mapping[str, Any]) -> str:
    """One row per picture and method, with a column for every number of the record."""
    rows = []
    for method, one in methods(document).items():
        for record in one["images"]:
            rows.append(({"method": method} if method else {}) | dict(flat(record)))
    names = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, names, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows({key: harmless(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def markdown_text(document: Mapping[str, Any]) -> str:
    """Means with intervals for each method, its pictures, and how the numbers were computed."""
    columns = used_columns(document)
    sets = methods(document)
    lines = markdown_table(
        ["method", "images", *(column.label for column in columns)],
        [
            [
                markdown_cell(name or "results"),
                str(one["count"]),
                *(mean_cell(one, column) for column in columns),
            ]
            for name, one in sets.items()
        ],
    )
    for name, one in sets.items():
        lines += ["", f"### {markdown_cell(name) or 'Images'}", ""]
        lines += markdown_table(
            ["image", *(column.label for column in columns)],
            [
                [
                    markdown_cell(record["name"]),
                    *(column.text(value_at(record, column.path)) for column in columns),
                ]
                for record in one["images"]
            ],
        )
        lines += [
            f"\nNot scored: {markdown_cell(bad['name'])}, {markdown_cell(bad['error'])}"
            for bad in one["failed"]
        ]
    lines += ["", "### How the numbers were made", ""]
    lines += [f"- {key}: {text}" for key, text in document["conventions"].items()]
    lines += [f"- {key} was not computed: {reason}" for key, reason in document["not_computed"].items()]
    return "\n".join(lines) + "\n"


def interval_text(one: Mapping[str, Any], column: Column) -> str:
    """The 95 % interval of a mean as `low to high`; empty if there is none."""
    interval = value_at(one["interval"], column.path)
    return f"{column.text(interval[0])} to {column.text(interval[1])}" if interval else ""


def mean_cell(one: Mapping[str, Any], column: Column) -> str:
    """A mean and its interval in brackets."""
    interval = interval_text(one, column)
    return column.text(value_at(one["mean"], column.path)) + (f" ({interval})" if interval else "")


def markdown_table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Lines of a table with its first column to the left, the others to the right."""
    rule = ["---"] + ["---:"] * (len(head) - 1)
    return ["| " + " | ".join(row) + " |" for row in (head, rule, *rows)]


def markdown_cell(text: str) -> str:
    """Text as it may stand in a cell."""
    return text.replace("|", "\\|").replace("\n", " ")


def flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The entries of a record, those of inner records by joined names."""
    for key, value in record.items():
        if key == "not_computed":
            continue
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}_")
        else:
            yield prefix + key, value
