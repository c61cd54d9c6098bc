"""Where the results of a photograph go, and by which names they are known."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .photo import SUFFIXES, check_suffix

LONGEST_NAME = 255  # bytes, of a file on most disks
RECORD, CHECKPOINT, MASK = "json", "checkpoint.safetensors", "mask.png"
ENDINGS: dict[str, tuple[str, ...]] = {
    "mean": ("mean.png", "mean.tiff"),
    "std": ("std.tiff", "std.png"),
    "interval": ("lower.png", "lower.tiff", "upper.png", "upper.tiff"),
    "prior": ("prior.png", "prior.tiff"),
    "samples": ("samples.npz",),
    "plain": ("plain.png", "plain.tiff"),
    "panel": ("panel.png",),
    "page": ("page.html",),
    "trace": ("trace.png",),
    "convergence": ("rhat.tiff", "rhat.png", "ess.tiff", "ess.png"),
    "factors": ("factors.npz",),
    "film": ("film.webp",),
    "film-mp4": ("film.mp4",),
}
"""How the files of each `--save` end. A TIFF beside a picture is there if the photograph is made of floats."""
KINDS = tuple(dict.fromkeys(ending.partition(".")[0] for group in ENDINGS.values() for ending in group))
"""`photo.KIND.png` is a result."""


@dataclass(frozen=True)
class Target:
    """Where the results of one photograph go: names start with `stem`; the mean has a name of its own."""

    folder: Path
    stem: str
    mean: Path

    def file(self, ending: str) -> Path:
        """The path of one result, for example ending = "std.tiff"."""
        return self.folder / f"{self.stem}.{ending}"

    def every_file(self) -> list[Path]:
        """Every path that a run may write, whatever its options and the depth of the photograph."""
        endings = (RECORD, CHECKPOINT, MASK, *(ending for group in ENDINGS.values() for ending in group))
        return [self.mean, *(self.file(ending) for ending in endings)]

    def files_for(self, save: Sequence[str], *, floats: bool, finds: bool = False) -> list[Path]:
        """The paths that a run with this `--save` writes.

        floats: of a photograph that is made of floats. finds: it finds its mask by itself, and keeps it.
        """
        found = [self.file(RECORD), self.file(CHECKPOINT), *([self.file(MASK)] if finds else [])]
        for kind in save:
            paths = [self.file(ending) for ending in ENDINGS[kind]]
            if kind == "mean":
                paths = [self.mean]
                paths += [self.mean.with_suffix(".tiff")] if self.mean.suffix.lower() == ".png" else []
            has_twin = kind in ("mean", "interval", "prior")
            found += [path for path in paths if floats or not has_twin or path.suffix != ".tiff"]
        return found


def target_of(photo: Path, out: Path) -> Target:
    """Where the results of `photo` go: into the folder `out`, or the mean to the file `out`, the rest beside it."""
    if out.suffix.lower() in SUFFIXES and not out.is_dir():
        return Target(out.parent, out.stem, out)
    return Target(out, photo.stem, out / f"{photo.stem}.mean.png")


def check_name(target: Target, photo: Path) -> None:
    """Refuse a name that is too long for its results, and a suffix that names no format."""
    check_suffix(target.mean)
    if len(os.fsencode(target.file(CHECKPOINT).name)) > LONGEST_NAME:
        raise InputError(
            f"the name of {photo} is too long for the names of its results",
            hint="rename it, or -o short.png",
        )


def is_result(path: Path) -> bool:
    """Whether a name is that of a result, or of a mask beside its photograph: `photo.std.png`, `photo.mask.png`."""
    stem, _, kind = path.stem.rpartition(".")
    return bool(stem) and kind in (*KINDS, "mask")
