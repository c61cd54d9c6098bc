"""From files to files: read a photograph and its mask, restore it, write what was asked for.

The only module that knows every layer.
"""

from __future__ import annotations

import io as streams
import json
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from . import __version__
from .config import RunConfig, to_mapping
from .io import files, images, masks, pictures
from .io.images import Photo
from .restoration import Bools, Outcome, Wrap, plain, restore
from .summary import NORMAL_90
from .weights import LoadedPrior

Say = Callable[[str], None]


@dataclass(frozen=True)
class Target:
    """Where the results of one photograph go: names start with `stem`; the mean has a name of its own."""

    folder: Path
    stem: str
    mean: Path

    def file(self, ending: str) -> Path:
        """The path of one result, for example ending = "std.tiff"."""
        return self.folder / f"{self.stem}.{ending}"


def target_of(photo: Path, out: Path) -> Target:
    """Where the results of `photo` go: into the folder `out`, or the mean to the file `out`, the rest beside it."""
    if out.suffix.lower() in images.SUFFIXES and not out.is_dir():
        return Target(out.parent, out.stem, out)
    return Target(out, photo.stem, out / f"{photo.stem}.mean.png")


@dataclass(frozen=True)
class Job:
    """One photograph to restore. mask: a path, "alpha", or None when nothing is missing."""

    photo: Path
    mask: Path | str | None
    target: Target
    name: str
    polarity: masks.Polarity = "white-fills"


@dataclass(frozen=True)
class Saved:
    """What a job wrote, and the record that stands in its JSON file."""

    files: list[Path]
    record: dict[str, Any]
    outcome: Outcome


def is_finished(target: Target) -> bool:
    """Whether a complete result stands there already: the JSON file is written last."""
    try:
        record = json.loads(target.file("json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(record.get("finished")) and target.mean.exists()


@dataclass(frozen=True)
class Opened:
    """A job whose files have been read and found good: the photograph and its observed entries (H, W, C)."""

    job: Job
    photo: Photo
    observed: Bools


def open_job(job: Job, *, note: Say, warn: Say) -> Opened:
    """Read the photograph and its mask, and see that results can be written, before anything is computed."""
    images.check_suffix(job.target.mean)
    photo = images.read_photo(job.photo)
    for text in photo.notes:
        note(f"{photo.name}: {text}")
    observed = _observed(job, photo, note, warn)
    files.ensure_writable(job.target.folder)
    for loss in images.losses(job.target.mean, photo):
        note(f"{job.target.mean.name}: {loss}")
    return Opened(job, photo, observed)


def run(opened: Opened, cfg: RunConfig, *, prior: LoadedPrior | None, wrap: Wrap = plain) -> Saved:
    """Restore one photograph and write its results."""
    outcome = restore(opened.photo.pixels, opened.observed, cfg, prior=prior, name=opened.job.name, wrap=wrap)
    record = _record(opened, cfg, prior, outcome)
    return Saved(_save(opened, cfg, outcome, record), record, outcome)


def _observed(job: Job, photo: Photo, note: Say, warn: Say) -> Bools:
    """Read the mask (H, W, C), True = observed, and say what it will do."""
    if job.mask is None:
        observed = np.ones(photo.pixels.shape, bool)
    else:
        observed = masks.read_mask(job.mask, photo, polarity=job.polarity)
        note(f"{photo.name}: {100 * masks.missing_share(observed):.1f} % will be filled")
        doubt = masks.looks_inverted(observed, photo)
        if doubt:
            warn(doubt)
    masks.check_finite(photo, observed)
    return observed


def _save(opened: Opened, cfg: RunConfig, outcome: Outcome, record: dict[str, Any]) -> list[Path]:
    """Write every result that was asked for, the JSON file last: it marks the photograph as done."""
    target, photo = opened.job.target, _opaque_where_filled(opened)
    written = []
    stale = target.file("json")
    stale.unlink(missing_ok=True)
    if "mean" in cfg.save:
        written += _save_picture(target.mean, outcome.mean, photo)
    if "std" in cfg.save:
        written.append(images.encode_std(target.file("std.tiff"), outcome.std))
        written.append(files.write_bytes(target.file("std.png"), pictures.heat_map(outcome.std)))
    if "interval" in cfg.save:
        for name, sign in (("lower", -1.0), ("upper", 1.0)):
            edge = (outcome.mean + sign * np.float32(NORMAL_90) * outcome.std).clip(0, 1)
            written += _save_picture(target.file(f"{name}.png"), edge, photo)
    if "prior" in cfg.save and outcome.prior_mean is not None:
        written += _save_picture(target.file("prior.png"), outcome.prior_mean, photo)
    if "samples" in cfg.save and outcome.samples is not None:
        buffer = streams.BytesIO()
        np.savez_compressed(buffer, samples=outcome.samples)
        written.append(files.write_bytes(target.file("samples.npz"), buffer.getvalue()))
    if "panel" in cfg.save:
        picture = pictures.panel(photo.pixels, opened.observed, outcome.mean, outcome.std)
        written.append(files.write_bytes(target.file("panel.png"), picture))
    if "trace" in cfg.save:
        trace = outcome.trace
        change = [np.nan if value is None else value for value in trace.change]
        picture = pictures.trace_plot(trace.noise_std, trace.active_rank, change, burn_in=cfg.burn_in)
        written.append(files.write_bytes(target.file("trace.png"), picture))
    record["files"] = [path.name for path in written]
    text = json.dumps(record, indent=2, allow_nan=False) + "\n"
    return [*written, files.write_bytes(stale, text.encode())]


def _opaque_where_filled(opened: Opened) -> Photo:
    """A pixel that was filled is there now, whatever its transparency said; the rest keep theirs."""
    if opened.photo.alpha is None or opened.job.mask is None:
        return opened.photo
    filled = ~opened.observed.all(axis=-1)
    return replace(opened.photo, alpha=np.where(filled, np.float32(1), opened.photo.alpha))


def _save_picture(path: Path, pixels: np.ndarray[Any, Any], photo: Photo) -> list[Path]:
    """Write a picture like the photograph; beside a PNG of a float photograph, a TIFF that keeps the floats."""
    written = [images.write_photo(path, pixels, photo)]
    if photo.depth == "float32" and path.suffix.lower() == ".png":
        written.append(images.write_photo(path.with_suffix(".tiff"), pixels, photo))
    return written


def _record(opened: Opened, cfg: RunConfig, prior: LoadedPrior | None, outcome: Outcome) -> dict[str, Any]:
    """What the JSON file says: enough to understand the result, and to make it again."""
    job, photo, trace = opened.job, opened.photo, outcome.trace
    return {
        "photo": str(job.photo),
        "mask": None if job.mask is None else str(job.mask),
        "mask_polarity": job.polarity,
        "name": job.name,
        "size": [photo.width, photo.height, photo.channels],
        "depth": photo.depth,
        "missing_share": masks.missing_share(opened.observed),
        "seed": cfg.seed,
        "options": to_mapping(cfg),
        "versions": versions(),
        "prior": None if prior is None else prior.identity.as_dict(),
        "noise": outcome.noise(cfg.burn_in),
        "rank": {"last": trace.rank[-1], "active": trace.active_rank[-1]},
        "mean_std": float(outcome.std.mean()),
        "iterations": len(trace.noise_std),
        "draws": outcome.draws,
        "finished": outcome.finished,
        "seconds": round(outcome.seconds, 3),
        "trace": {
            "noise_std": trace.noise_std,
            "rank": trace.rank,
            "active_rank": trace.active_rank,
            "rho": trace.rho,
            "change": trace.change,
        },
        "notes": list(photo.notes),
    }


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {
        "diffbcp": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
