"""The document of `diffbcp eval` for people: CSV, Markdown, and one page to look at."""

from .page import View, page, side_for
from .tables import COLUMNS, Column, csv_text, interval_text, markdown_text, methods, used_columns, value_at

__all__ = [
    "COLUMNS",
    "Column",
    "View",
    "csv_text",
    "interval_text",
    "markdown_text",
    "methods",
    "page",
    "side_for",
    "used_columns",
    "value_at",
]
