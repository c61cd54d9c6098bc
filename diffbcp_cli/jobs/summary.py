"""What came of all photographs: summary.json and summary.csv."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..options import Given, Options, resolve, to_mapping
from ..photos import files
from .one import versions
from .plan import SUMMARY
from .report import Report, Status

STATUSES: tuple[Status, ...] = ("done", "skipped", "failed", "interrupted", "left")
LONGEST_HEAD = 100  # bytes of the table that are looked at
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


def refuse_foreign(out: Path, shard: tuple[int, int] | None) -> None:
    """Refuse to replace files that no batch of ours wrote."""
    table, record = _paths(out, None if shard is None else f"{shard[0]}/{shard[1]}")
    foreign = [path for path, ours in ((table, _is_our_table), (record, _is_our_record)) if not ours(path)]
    files.refuse_links_out((table, record), out)
    for path in foreign:
        raise UsageError(
            f"{path} was not written by diffbcp, and the summary would replace it",
            hint="move it away, or name another folder with -o",
        )


def _is_our_table(path: Path) -> bool:
    if path.exists() and not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_HEAD).startswith(f"{COLUMNS[0]},{COLUMNS[1]},".encode())
    except OSError:  # not there, most likely; if it cannot be written either, that will be said
        return True


def _is_our_record(path: Path) -> bool:
    if path.exists() and not path.is_file():
        return False
    try:
        found = json.loads(path.read_bytes())
    except OSError:
        return True
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {"images", "results", "versions"} <= found.keys()


def _paths(out: Path, shard: str | None) -> tuple[Path, Path]:
    """The two files; a part of a batch has its number in their names."""
    stem = SUMMARY if shard is None else f"{SUMMARY}.{shard.replace('/', '-of-')}"
    return out / f"{stem}.csv", out / f"{stem}.json"


def save(out: Path, summary: dict[str, Any]) -> list[Path]:
    """Write both files."""
    table, record = _paths(out, summary["shard"])
    text = json.dumps(summary, indent=2, allow_nan=False) + "\n"
    return [
        files.write_bytes(table, _csv(summary["results"])),
        files.write_bytes(record, text.encode()),
    ]


def _csv(results: Sequence[dict[str, Any]]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: files.harmless(value) for key, value in row.items()} for row in results)
    return text.getvalue().encode("utf-8", "surrogateescape")
