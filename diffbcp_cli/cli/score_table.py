"""The table of `diffbcp eval` on the screen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.markup import escape
from rich.table import Table

from . import render

if TYPE_CHECKING:
    from ..scoring.report import Column

MAX_ROWS = 60


def show(document: Mapping[str, Any]) -> None:
    """Print the table of the images, or of the methods if there are several, and what the numbers mean."""
    from ..scoring.report import methods

    render.out.print(_methods_table(document) if len(methods(document)) > 1 else _images_table(document))
    for key in ("psnr", "ssim", "ms_ssim", "lpips", "interval"):
        render.out.print(f"[dim]{key}: {escape(document['conventions'][key])}[/dim]")


def _table(first: str, columns: list[Column]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(first, overflow="ellipsis", no_wrap=True, min_width=12)
    for column in columns:
        widest = max(map(len, (*column.label.split(), column.text(0.0))))
        table.add_column(column.label, justify="right", min_width=widest)
    return table


def _images_table(document: Mapping[str, Any]) -> Table:
    from ..scoring.report import used_columns, value_at

    columns = [column for column in used_columns(document) if column.brief]
    table = _table("image", columns)
    records = document["images"]
    for record in records[:MAX_ROWS]:
        numbers = (column.text(value_at(record, column.path)) for column in columns)
        table.add_row(escape(render.printable(record["name"])), *numbers)
    if len(records) > MAX_ROWS:
        table.add_row(f"... {len(records) - MAX_ROWS} more")
    table.add_section()
    _add_means(table, f"mean of {document['count']}", document, columns)
    return table


def _methods_table(document: Mapping[str, Any]) -> Table:
    from ..scoring.report import used_columns

    columns = [column for column in used_columns(document) if column.brief]
    table = _table("method", columns)
    for name, one in document["methods"].items():
        _add_means(table, f"{name} ({one['count']})", one, columns)
    return table


def _add_means(table: Table, label: str, one: Mapping[str, Any], columns: list[Column]) -> None:
    """A row of means, and below it the two ends of their intervals."""
    from ..scoring.report import value_at

    means = [column.text(value_at(one["mean"], column.path)) for column in columns]
    table.add_row(escape(render.printable(label)), *means, style="bold")
    intervals = [value_at(one["interval"], column.path) for column in columns]
    if any(intervals):
        for end, text in enumerate(("  95 % from", "  to")):
            ends = [
                column.text(found[end]) if found else ""
                for column, found in zip(columns, intervals, strict=True)
            ]
            table.add_row(text, *ends, style="dim")
