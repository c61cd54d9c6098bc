"""From files to files: read a photograph and its mask, restore it, write what was asked for.

The only module that knows every layer.
"""

from __future__ import annotations

import hashlib
import io as streams
import json
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .. import __version__
from ..errors import InputError, OutputError
from ..options import Given, Options, resolve, to_mapping
from ..photos import checkpoints, files, masks, pictures
from ..photos import photo as images
from ..photos.photo import Photo
from ..priors import LoadedPrior
from ..run.moments import NORMAL_90
from ..run.outcome import Bools, Control, Outcome, Snapshot
from .session import restore

Say = Callable[[str], None]
LONGEST_NAME = 255  # bytes, of a file on most disks


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
    max_pixels: int = images.MAX_PIXELS


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
    return isinstance(record, dict) and bool(record.get("finished")) and target.mean.exists()


@dataclass(frozen=True)
class Opened:
    """A job whose files have been read and found good: the photograph and its observed entries (H, W, C)."""

    job: Job
    photo: Photo
    observed: Bools


def read_job(job: Job, *, note: Say, warn: Say) -> Opened:
    """Read the photograph and its mask, and see that they go together; nothing is written."""
    images.check_suffix(job.target.mean)
    if len(os.fsencode(job.target.file(CHECKPOINT).name)) > LONGEST_NAME:
        raise InputError(
            f"the name of {job.photo} is too long for the names of its results",
            hint="rename it, or -o short.png",
        )
    photo = images.read_photo(job.photo, max_pixels=job.max_pixels)
    for text in photo.notes:
        note(f"{photo.name}: {text}")
    return Opened(job, photo, _observed(job, photo, note, warn))


def open_job(job: Job, *, note: Say, warn: Say) -> Opened:
    """Read the photograph and its mask, and see that results can be written, before anything is computed."""
    opened = read_job(job, note=note, warn=warn)
    files.remove_leftovers(files.ensure_writable(job.target.folder), job.target.stem)
    for loss in images.losses(job.target.mean, opened.photo):
        note(f"{job.target.mean.name}: {loss}")
    return opened


def run(
    opened: Opened,
    cfg: Given | Options,
    *,
    prior: LoadedPrior | None,
    control: Control | None = None,
    resume: bool = False,
) -> Saved:
    """Restore one photograph and write its results.

    control: what wraps the draws and may stop them; its checkpoints are set here. resume: go on from the
    checkpoint beside the results, if there is one. A finished run leaves no checkpoint.
    """
    control, path = control or Control(), opened.job.target.file(CHECKPOINT)
    height, width = opened.observed.shape[:2]
    cfg = resolve(cfg, height=height, width=width, known=float(opened.observed.mean()))
    identity = _identity(opened, cfg, prior)
    start = _start(path, identity, control) if resume else None

    def save(snapshot: Snapshot) -> None:
        tensors, plain = snapshot
        try:
            checkpoints.write(path, tensors, {**plain, **identity})
        except OutputError as error:  # hours of work are worth more than the chance to go on with them later
            control.note(f"{error.message}; the run goes on, but could not be resumed")

    outcome = restore(
        opened.photo.pixels,
        opened.observed,
        cfg,
        prior=prior,
        name=opened.job.name,
        control=replace(control, start=start, save=save),
    )
    record = _record(opened, prior, outcome)
    saved = Saved(_save(opened, outcome, record), record, outcome)
    if outcome.finished:
        path.unlink(missing_ok=True)
    return saved


CHECKPOINT = "checkpoint.safetensors"

# options that may differ between an interrupted run and the one that goes on with it
_FREE = (
    "iterations",
    "save",
    "observed",
    "until_converged",
    "max_iterations",
    "checkpoint_every",
    "time_budget",
)


def _identity(opened: Opened, cfg: Options, prior: LoadedPrior | None) -> dict[str, Any]:
    """What a checkpoint belongs to: the pixels, the mask, the options, the prior, and the kind of device."""
    digest = hashlib.sha256(opened.photo.pixels.tobytes() + np.packbits(opened.observed).tobytes())
    options = to_mapping(cfg)
    del options["preset"]  # what it did is in the other options
    return {
        "pixels": digest.hexdigest(),
        "name": opened.job.name,
        "options": options,
        "prior": None if prior is None else prior.identity.as_dict(),
        "versions": {"diffbcp": __version__, "torch": torch.__version__},
    }


def _start(path: Path, identity: dict[str, Any], control: Control) -> Snapshot | None:
    """Read the checkpoint to go on from, None if there is none; one of another run is refused."""
    if not path.exists():
        return None
    tensors, plain = checkpoints.read(path)
    try:
        differences = _differences(plain, identity)
        running = plain.get("running") or {"chains": []}  # the window under way, if it is a run in windows
        chains = [*plain["chains"], *running["chains"]]
        steps = sum(len(chain["trace"]["noise_std"]) for chain in chains)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"the checkpoint {path} is damaged", hint="run without --resume") from error
    if differences:
        raise InputError(
            f"the checkpoint {path} belongs to another run: {differences[0]}",
            hint="the options of that run, or no --resume to begin anew",
        )
    control.note(f"going on from {path.name}, {steps} iterations done")
    return tensors, plain


def _differences(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    free = _FREE if now["options"]["time_budget"] is None else (*_FREE, "burn_in")
    found = [
        f"--{name.replace('_', '-')} was {then['options'].get(name)}, now {value}"
        for name, value in now["options"].items()
        if name not in free and then["options"].get(name) != value
    ]
    names = {"pixels": "the photograph or its mask", "name": "the name", "prior": "the prior"}
    return found + [f"{text} has changed" for key, text in names.items() if then[key] != now[key]]


def _observed(job: Job, photo: Photo, note: Say, warn: Say) -> Bools:
    """Read the mask (H, W, C), True = observed, and say what it will do."""
    if job.mask is None:
        observed = np.ones(photo.pixels.shape, bool)
    else:
        observed = masks.read_mask(job.mask, photo, polarity=job.polarity, max_pixels=job.max_pixels)
        note(f"{photo.name}: {100 * masks.missing_share(observed):.1f} % will be filled")
        doubt = masks.looks_inverted(observed, photo)
        if doubt:
            warn(doubt)
    masks.check_finite(photo, observed)
    return observed


def _save(opened: Opened, outcome: Outcome, record: dict[str, Any]) -> list[Path]:
    """Write every result that was asked for, or none: they take their places together, the JSON file last."""
    with files.together(marker=opened.job.target.file("json")):
        return _write(opened, outcome, record)


def _write(opened: Opened, outcome: Outcome, record: dict[str, Any]) -> list[Path]:
    """Write the results; the JSON file marks the photograph as done."""
    cfg = outcome.cfg
    target, photo = opened.job.target, _opaque_where_filled(opened)
    written = []
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
    if "convergence" in cfg.save and outcome.convergence.rhat_map is not None:
        written += _save_convergence(target, outcome)
    record["files"] = [path.name for path in written]
    text = json.dumps(record, indent=2, allow_nan=False) + "\n"
    return [*written, files.write_bytes(target.file("json"), text.encode())]


def _save_convergence(target: Target, outcome: Outcome) -> list[Path]:
    """Write maps of R-hat and of the effective sample size, as pictures and as numbers."""
    found = outcome.convergence
    assert found.rhat_map is not None
    assert found.ess_map is not None
    written = []
    for name, values, title, low in (
        ("rhat", found.rhat_map, "R-hat of each pixel (1: the chains agree)", 1.0),
        ("ess", found.ess_map, "effective sample size of each pixel", 0.0),
    ):
        shown = np.nan_to_num(values, posinf=float(values[np.isfinite(values)].max(initial=low)))
        written.append(images.encode_std(target.file(f"{name}.tiff"), values))
        picture = pictures.heat_map(shown, title=title, bottom=low)
        written.append(files.write_bytes(target.file(f"{name}.png"), picture))
    return written


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


def _record(opened: Opened, prior: LoadedPrior | None, outcome: Outcome) -> dict[str, Any]:
    """What the JSON file says: enough to understand the result, and to make it again."""
    job, photo, trace, cfg = opened.job, opened.photo, outcome.trace, outcome.cfg
    record: dict[str, Any] = {
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
        "tensor_noise": outcome.tensor_noise(cfg.burn_in),
        "finish_level": outcome.finish_level,
        "finish_weights": None if outcome.finish_weights is None else list(outcome.finish_weights),
        "rank": {"last": trace.rank[-1], "active": trace.active_rank[-1]},
        "mean_std": float(outcome.std.mean()),
        "iterations": len(trace.noise_std),
        "draws": outcome.draws,
        "finished": outcome.finished,
        "seconds": round(outcome.seconds, 3),
        "diagnostics": outcome.convergence.as_dict(),
        "calibration": None if outcome.calibration is None else outcome.calibration.as_dict(),
        "trace": trace.as_dict(),
        "notes": list(photo.notes),
    }
    if len(outcome.traces) > 1:
        record["traces"] = [one.as_dict() for one in outcome.traces]
    return record


def versions() -> dict[str, str]:
    """Versions that a result depends on."""
    return {
        "diffbcp": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
