"""The document of `diffbcp eval` for people: CSV, Markdown, and an HTML page."""

from .page import page
from .pictures import side_for
from .tables import COLUMNS, Column, csv_text, interval_text, markdown_text, methods, used_columns, value_at
from .views import View, views

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
    "views",
]
