"""What came of all photographs: summary.json and summary.csv."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..options import Given, Options, resolve, to_mapping
from ..photos import files
from .one import versions
from .plan import SUMMARY
from .work import Report, Status

STATUSES: tuple[Status, ...] = ("done", "skipped", "failed", "interrupted", "left")
COLUMNS = (
    "name",
    "status",
    "width",
    "height",
    "channels",
    "missing_share",
    "noise_std",
    "mean_std",
    "iterations",
    "seconds",
    "error",
    "photo",
    "mask",
)


def document(
    reports: Sequence[Report], cfg: Given | Options, *, seconds: float, shard: tuple[int, int] | None
) -> dict[str, Any]:
    """The summary: counts, options, and one entry for each photograph in the order of the names."""
    counts = Counter(report.status for report in reports)
    worked = counts["done"] + counts["interrupted"]
    return {
        "images": len(reports),
        **{status: counts[status] for status in STATUSES},
        "seconds": round(seconds, 3),
        "images_per_minute": round(60 * worked / seconds, 3) if worked and seconds > 0 else None,
        "shard": None if shard is None else f"{shard[0]}/{shard[1]}",
        "options": to_mapping(resolve(cfg)),
        "versions": versions(),
        "results": [report.as_dict() for report in sorted(reports, key=lambda report: report.name)],
    }


def save(out: Path, summary: dict[str, Any]) -> list[Path]:
    """Write both files; a part of a batch has its number in their names."""
    shard = summary["shard"]
    stem = SUMMARY if shard is None else f"{SUMMARY}.{shard.replace('/', '-of-')}"
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    return [
        files.write_bytes(out / f"{stem}.csv", _csv(summary["results"])),
        files.write_bytes(out / f"{stem}.json", text.encode()),
    ]


def _csv(results: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(results)
    return text.getvalue().encode("utf-8", "surrogateescape")
