"""Pictures for the page: photographs, previews, results, uncertainty, error; and the files to keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from starlette.responses import FileResponse, Response

from ..errors import InputError
from ..photos import display, files
from ..photos.display import mask_picture
from ..photos.photo import Floats, read_photo
from .store import CACHE, Item, Run, Store
from .work import Live

__all__ = ["FRESH", "mask_picture", "photograph", "result"]

FRESH = {"cache-control": "no-store"}
KEPT = {"cache-control": "private, max-age=86400"}


def photograph(store: Store, item: Item, *, small: bool) -> Response:
    """The photograph as a browser shows it; made once."""
    stem = f"{item.id}.{'thumb' if small else 'view'}"
    found = _cached(store, stem)
    if found is None:
        pixels = store.read(item).pixels
        data, media = (display.thumbnail(pixels), "image/jpeg") if small else display.shown(pixels)
        found = _keep(store, stem, data, media)
    return FileResponse(found, media_type=_media(found), headers=KEPT)


def result(store: Store, run: Run, live: Live | None, what: str) -> Response:
    """preview, view, std, error: pictures. file: the result itself, to be kept. mask: the one that was used."""
    if what == "preview":
        preview = None if live is None else live.preview
        if preview is None:
            return Response(status_code=204)
        data, media = display.shown(preview)
        return Response(data, media_type=media, headers=FRESH)
    path = Path(run.out) if what != "mask" else Path(run.mask or run.out)
    if not path.exists():
        raise InputError("there is no result yet", hint="wait for it, or restore again")
    if what in ("file", "mask"):
        return FileResponse(path, filename=path.name, headers=FRESH)
    if what == "view":
        data, media = display.shown(read_photo(path).pixels)
        return Response(data, media_type=media, headers=FRESH)
    values = _std(store, run) if what == "std" else _error(store, run)
    data, media, top = display.heat(values, read_photo(path).pixels)
    return Response(data, headers={"x-top": f"{top:.2g}", **FRESH}, media_type=media)


def _std(store: Store, run: Run) -> Floats:
    path = store.target(run).file("std.tiff")
    if not path.exists():
        raise InputError("this method gives no uncertainty", hint="restore with diffbcp")
    return read_photo(path).pixels


def _error(store: Store, run: Run) -> Floats:
    item = store.item(run.item)
    if item.truth is None:
        raise InputError("there is no truth to compare with", hint="give the picture without its damage")
    truth, found = read_photo(Path(item.truth)).pixels, read_photo(Path(run.out)).pixels
    if truth.shape[2] != found.shape[2]:
        truth, found = (values.mean(axis=-1, keepdims=True) for values in (truth, found))
    return np.asarray(np.abs(found - truth), np.float32)


def _cached(store: Store, stem: str) -> Path | None:
    return next((path for path in (store.folder / CACHE).glob(f"{stem}.*")), None)


def _keep(store: Store, stem: str, data: bytes, media: str) -> Path:
    folder = store.folder / CACHE
    folder.mkdir(parents=True, exist_ok=True)
    return files.write_bytes(folder / f"{stem}.{media.partition('/')[2]}", data)


def _media(path: Path) -> str:
    return f"image/{path.suffix[1:]}"
