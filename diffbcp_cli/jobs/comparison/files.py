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
ENDINGS = ("json", "md", "tex", "csv", "html")


def refuse_foreign(out: Path) -> None:
    """Refuse to replace files that no comparison wrote. The document is the mark of ours: it is written first."""
    mark, *others = (out / f"{STEM}.{ending}" for ending in ENDINGS)
    files.refuse_links_out((mark, *others), out)
    files.refuse_places((mark, *others))
    ours = _is_ours(mark)
    for path in (mark, *others) if not ours else ():
        if path.exists():
            raise UsageError(
                f"{path} was not written by diffbcp, and the comparison would replace it",
                hint="move it away, or name another folder with -o",
            )


def _is_ours(document: Path) -> bool:
    try:
        found = json.loads(files.read_own(document))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"damages", "methods", "versions"} <= found.keys()


def write_all(out: Path, document: Record, scored: Sequence[Scored], *, limit: int) -> list[Path]:
    """Write every file; limit: of photographs in the page, for each kind of damage."""
    plain = json.dumps(finite(document), indent=2, allow_nan=False) + "\n"
    texts = {
        "json": plain,
        "md": markdown_text(document),
        "tex": latex_text(document),
        "csv": csv_text(document),
        "html": page(document, scored, limit=limit),
    }
    mark, *others = (
        files.write_bytes(out / f"{STEM}.{ending}", text.encode("utf-8", "backslashreplace"))
        for ending, text in texts.items()
    )
    return [*others, mark]
