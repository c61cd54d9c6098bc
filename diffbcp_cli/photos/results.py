"""The results of one photograph: what its record says, and how they are written together."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import numpy as np

from ..problem import NORMAL_90, Restoration
from ..units import Bools, Floats
from . import files, pictures
from . import photo as images
from .film import film
from .masks import AUTO, write_mask
from .photo import Photo
from .targets import CHECKPOINT, MASK, RECORD, Target

_TRACED = {"noise_std": "noise std", "active_rank": "rank", "change": "change"}


class Record(TypedDict, total=False):
    """What the JSON file says: enough to understand the result, and to make it again.

    digest: SHA-256 of the photograph's file and of the mask's. given: the options that were asked for;
    options: those that were used. Sizes are width, height, channels; levels are on the [0, 1] scale.
    """

    command: str
    photo: str
    mask: str | None
    mask_polarity: str
    name: str
    digest: dict[str, str | None]
    size: list[int]
    depth: str
    missing_share: float
    seed: int
    given: dict[str, Any]
    options: dict[str, Any]
    threads: int
    device: str
    precision: str | None
    versions: dict[str, str]
    prior: dict[str, Any] | None
    noise: dict[str, float] | None
    noise_source: str
    noise_model: str
    jpeg_step: float | None
    noise_prior: dict[str, Any]
    tensor_noise: dict[str, float]
    finish_level: float | None
    finish_weights: list[float] | None
    rank: dict[str, int]
    mean_std: float | None
    iterations: int
    draws: int
    finished: bool
    seconds: float
    peak_memory: int
    peak_gpu_memory: int | None
    at_once: int
    diagnostics: dict[str, Any]
    grain: float | None
    calibration: dict[str, Any] | None
    trace: dict[str, Any]
    traces: list[dict[str, Any]]
    notes: list[str]
    stack: dict[str, Any]
    files: list[str]


def read_record(path: Path) -> Record | None:
    """Read the record of a result. None: there is no such file, or it is not a record of ours."""
    try:
        found = json.loads(files.read_own(path))
    except (OSError, ValueError, RecursionError):
        return None
    return found if _is_ours(found) else None


def _is_ours(found: Any) -> bool:
    """Whether JSON is a record, of this version or an older one; a camera writes photo.json files too."""
    if not isinstance(found, dict):
        return False
    kinds = {"name": str, "photo": str, "options": dict, "versions": dict, "size": list, "finished": bool}
    return (
        all(isinstance(found.get(key), kind) for key, kind in kinds.items())
        and "diffbcp" in found["versions"]
    )


def save(target: Target, photo: Photo, observed: Bools, found: Restoration, record: Record) -> list[Path]:
    """Write every result that was asked for, or none: they take their places together, the record last.

    observed: (H, W, C). Files of an earlier result that the new one does not have are removed, so that all that
    stands beside a record belongs to it.
    """
    earlier = read_record(target.file(RECORD)) or Record()
    like = photo if record["mask"] is None else _opaque_where_filled(photo, observed)
    with files.together(marker=target.file(RECORD)):
        written: list[Path] = []
        for kind, write in _WRITERS.items():
            if kind in found.options.save:
                written += write(target, like, observed, found)
        if record["mask"] == AUTO:
            written.append(write_mask(target.file(MASK), observed))
        record["files"] = [path.name for path in written]
        text = json.dumps(finite(record), indent=2, allow_nan=False) + "\n"
        written.append(files.write_bytes(target.file(RECORD), text.encode()))
    _remove_stale(target, earlier, written)
    return written


def finite(value: Any) -> Any:
    """The same plain value with None for every number that is NaN or infinite: JSON has no word for these."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(part) for key, part in value.items()}
    return [finite(part) for part in value] if isinstance(value, list | tuple) else value


def _remove_stale(target: Target, earlier: Record, written: Sequence[Path]) -> None:
    """Remove what the earlier record lists and the new result lacks; other files are none of ours."""
    listed = earlier.get("files")
    for path in set(target.every_file()) - {*written, target.file(CHECKPOINT)}:
        if isinstance(listed, list) and path.name in listed:
            with suppress(OSError):
                path.unlink()


def _mean(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    yield from _picture(target.mean, found.mean, photo)


def _std(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    if found.std is not None:
        yield images.encode_std(target.file("std.tiff"), found.std)
        yield files.write_bytes(target.file("std.png"), pictures.heat_map(found.std))


def _interval(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    if found.std is None:
        return
    for name, sign in (("lower", -1.0), ("upper", 1.0)):
        edge = (found.mean + sign * np.float32(NORMAL_90) * found.std).clip(0, 1)
        yield from _picture(target.file(f"{name}.png"), edge, photo)


def _plain(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    """The mean without grain."""
    yield from _picture(target.file("plain.png"), found.maps.get("plain", found.mean), photo)


def _prior(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    if "prior" in found.maps:
        yield from _picture(target.file("prior.png"), found.maps["prior"], photo)


def _samples(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    if found.samples is not None:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, samples=found.samples)
        yield files.write_bytes(target.file("samples.npz"), buffer.getvalue())


def _factors(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    """The tensors of each chain: chain0.weights, chain1.left.0, ..."""
    named = {f"chain{i}.{name}": value for i, one in enumerate(found.states) for name, value in one.items()}
    if named:
        buffer = io.BytesIO()
        np.savez_compressed(buffer, **named)  # type: ignore[arg-type]
        yield files.write_bytes(target.file("factors.npz"), buffer.getvalue())


def _panel(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    picture = pictures.panel(photo.pixels, observed, found.mean, found.std)
    yield files.write_bytes(target.file("panel.png"), picture)


def _page(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    """Before and after under a slider."""
    from . import before_after  # heavy: jinja2

    item = before_after.Item(target.stem, photo.pixels, found.mean, found.std, observed)
    yield files.write_bytes(target.file("page.html"), before_after.page([item]).encode())


def _trace(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    """A plot of what the first chain said of itself, as far as the method says it."""
    trace = found.traces[0] if found.traces else {}
    series = {
        label: [np.nan if value is None else value for value in trace[name]]
        for name, label in _TRACED.items()
        if name in trace
    }
    if series:
        picture = pictures.trace_plot(series, burn_in=found.options.burn_in)
        yield files.write_bytes(target.file("trace.png"), picture)


def _convergence(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    """Maps of R-hat and of the effective sample size, as pictures and as numbers."""
    who = "the chains agree" if len(found.traces) > 1 else "the two halves of the chain agree"
    for name, title, low in (
        ("rhat", f"R-hat of each pixel (1: {who})", 1.0),
        ("ess", "effective sample size of each pixel", 0.0),
    ):
        if name not in found.maps:
            continue
        values = found.maps[name]
        shown = np.nan_to_num(values, posinf=float(values[np.isfinite(values)].max(initial=low)))
        yield images.encode_std(target.file(f"{name}.tiff"), values)
        picture = pictures.heat_map(shown, title=title, bottom=low)
        yield files.write_bytes(target.file(f"{name}.png"), picture)


def _film(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    if found.frames is not None:
        yield files.write_bytes(target.file("film.webp"), film(found.frames, found.mean, ".webp"))


def _film_mp4(target: Target, photo: Photo, observed: Bools, found: Restoration) -> Iterator[Path]:
    if found.frames is not None:
        yield files.write_bytes(target.file("film.mp4"), film(found.frames, found.mean, ".mp4"))


_WRITERS: dict[str, Callable[[Target, Photo, Bools, Restoration], Iterator[Path]]] = {
    "mean": _mean,
    "std": _std,
    "interval": _interval,
    "plain": _plain,
    "prior": _prior,
    "samples": _samples,
    "panel": _panel,
    "page": _page,
    "trace": _trace,
    "convergence": _convergence,
    "factors": _factors,
    "film": _film,
    "film-mp4": _film_mp4,
}


def _opaque_where_filled(photo: Photo, observed: Bools) -> Photo:
    """A filled pixel is opaque, whatever its transparency was; the others keep theirs."""
    if photo.alpha is None:
        return photo
    return replace(photo, alpha=np.where(observed.all(axis=-1), photo.alpha, np.float32(1)))


def _picture(path: Path, pixels: Floats, photo: Photo) -> Iterator[Path]:
    """Write a picture like the photograph; beside a PNG of a float photograph, a TIFF that keeps the floats."""
    yield images.write_photo(path, pixels, photo)
    if photo.depth == "float32" and path.suffix.lower() == ".png":
        yield images.write_photo(path.with_suffix(".tiff"), pixels, photo)
