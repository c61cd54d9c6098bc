"""The files of a comparison: compare.json, .csv, .md, .tex and .html."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ...errors import UsageError
from ...photos import files
from ...photos.results import finite
from ...scoring.score import Record
from .document import Scored
from .page import page
from .tables import csv_text, latex_text, markdown_text

STEM = "compare"


def refuse_foreign(out: Path) -> None:
    """Refuse to replace a compare.json that no comparison wrote."""
    path = out / f"{STEM}.json"
    try:
        found = json.loads(path.read_bytes())
    except OSError:
        return
    except (ValueError, RecursionError):
        found = None
    if not (isinstance(found, dict) and {"damages", "methods", "versions"} <= found.keys()):
        raise UsageError(
            f"{path} was not written by diffbcp, and the comparison would replace it",
            hint="move it away, or name another folder with -o",
        )


def write_all(out: Path, document: Record, scored: Sequence[Scored], *, limit: int) -> list[Path]:
    """Write every file; limit: of photographs in the page, for each kind of damage."""
    plain = json.dumps(finite(document), indent=2, allow_nan=False) + "\n"
    texts = {
        "md": markdown_text(document),
        "tex": latex_text(document),
        "csv": csv_text(document),
        "html": page(document, scored, limit=limit),
        "json": plain,
    }
    return [
        files.write_bytes(out / f"{STEM}.{ending}", text.encode("utf-8", "backslashreplace"))
        for ending, text in texts.items()
    ]
