"""What `inpaint` and `denoise` take besides the options of the run itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ..options import Option, option
from ..options.spec import IO, MANY, SAMPLING
from ..options.written import read_size

INPAINT = ("inpaint",)


@dataclass(frozen=True)
class Common:
    """What the commands take besides the options of the run itself: files, and how to go about them."""

    mask: str | None = option(
        None,
        IO,
        "Mask (white: fill), a folder of them, alpha, or auto.",
        names=("--mask", "-m"),
        metavar="MASK",
        commands=INPAINT,
        essential=True,
    )
    mask_polarity: Literal["white-fills", "white-keeps"] | None = option(
        None, IO, "What white means in a mask picture.", shown="white-fills", commands=INPAINT
    )
    out: Path = option(
        Path(),
        IO,
        "Folder for results, one file, or - for stdout.",
        names=("--output", "-o"),
        shown="",
        essential=True,
    )
    format: Literal["png", "jpg", "webp", "tiff", "bmp", "npy"] | None = option(
        None, IO, "Format of the picture that -o - writes.", shown="the input's"
    )
    config: Path | None = option(None, IO, "Options from a TOML file or a result's JSON.", essential=True)
    overwrite: bool = option(False, IO, "Restore again even if the result is there.", essential=True)
    resume: bool = option(False, IO, "Go on from the checkpoint of an interrupted run.", essential=True)
    dry_run: bool = option(False, IO, "Show what would be done, with estimates; do nothing.", essential=True)
    print_config: bool = option(False, IO, "Print every option as TOML for --config; do nothing.")
    as_json: bool = option(False, IO, "Print the record as JSON.", names=("--json",), essential=True)
    quiet: bool = option(
        False, IO, "No progress, no notes: paths and errors only.", names=("--quiet", "-q"), essential=True
    )
    progress: Literal["bar", "json", "none"] = option(
        "bar", IO, "How progress is shown on stderr; json: an object a line."
    )
    verbose: bool = option(False, IO, "Say more: versions, options, stages.", names=("--verbose", "-v"))
    log_file: Path | None = option(None, IO, "Write all that is said, with times, to this file too.")
    watch: Path | None = option(
        None, MANY, "Restore each photograph that appears in this folder, until Ctrl-C.", metavar="FOLDER"
    )
    fast: bool = option(False, SAMPLING, "Trade a little quality for speed (--preset fast).", essential=True)
    jobs: int = option(
        0,
        MANY,
        "Photographs at a time.",
        names=("--jobs", "-j"),
        shown="by cores and memory",
        least=0,
        essential=True,
    )
    engine: Literal["local", "ray"] = option("local", MANY, "Work here, or on a Ray cluster.")
    address: str | None = option(
        None, MANY, "Address of the Ray cluster; without it, one of its own is started."
    )
    shard: str | None = option(None, MANY, "Do part I of N only, by a hash of the names: 1/4.", metavar="I/N")
    root: Path | None = option(None, MANY, "Names and sub-folders are relative to this folder.")
    null: bool = option(False, MANY, "Names in the list on stdin end in NUL.", names=("--null", "-0"))
    wait: bool = option(False, MANY, "Wait for another run that works on the same photograph.")
    max_pixels: int = option(
        100_000_000, MANY, "Refuse pictures with more pixels.", read=read_size, metavar="NUMBER", shown="100M"
    )


def default_text(one: Option) -> str:
    """The default as help shows it, "" for none."""
    if one.shown is not None:
        return one.shown
    return (
        ""
        if one.default is None or one.default is False
        else "on"
        if one.default is True
        else str(one.default)
    )
