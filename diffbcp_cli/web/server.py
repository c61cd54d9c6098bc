"""The server of the page: what each address does."""

from __future__ import annotations

import json
import shlex
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from .. import __version__
from ..errors import DiffbcpError, InputError, OutputError, UsageError
from ..jobs.report import explain
from ..options import METHODS, check
from ..options.methods import MethodEntry
from ..photos import detect as finding
from ..photos import files, mask_edit, masks
from ..photos.photo import Photo, read_photo
from . import views
from .store import Item, Run, Store
from .work import Worker

STATIC = Path(__file__).parent / "static"
MOST_UPLOAD = 2**30  # bytes
MOST_BODY = 2**20  # bytes of JSON
OPTIONS = ("method", "observed", "preset", "prior", "seed")
# what the page says of the methods that most people take; the command line is named in the help of the others
PLAIN = {
    "diffbcp": "The best picture, and how sure it is of every pixel. Seconds for small marks, minutes for all of it.",
    "telea": "OpenCV, in a moment: for small marks on calm ground. No uncertainty.",
}
_MEDIA = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


class Pages:
    """Every address, by what it does to the session."""

    def __init__(self, store: Store, worker: Worker) -> None:
        self.store, self.worker = store, worker

    async def static(self, request: Request) -> Response:
        """A file of the page: one of those that are there, by its name."""
        name = request.path_params.get("name", "index.html")
        known = {path.name for path in STATIC.iterdir() if path.suffix in _MEDIA}
        if name not in known:
            return Response("not found", 404)
        headers = {"cache-control": "no-cache"}
        return FileResponse(STATIC / name, media_type=_MEDIA[Path(name).suffix], headers=headers)

    def state(self, request: Request) -> Response:
        """Everything that the page shows but pictures."""
        with self.store.lock:
            runs = [self._run(run) for run in self.store.runs.values()]
            items = [asdict(item) for item in self.store.items.values()]
        methods = [
            {"name": name, "help": PLAIN.get(name, entry.help), "fast": "iterations" not in entry.defaults}
            for name, entry in METHODS.everything()
            if isinstance(entry, MethodEntry)
        ]
        return JSONResponse(
            {
                "version": __version__,
                "folder": str(self.store.folder),
                "items": items,
                "runs": runs,
                "methods": methods,
                "kinds": finding.KINDS,
            }
        )

    async def add(self, request: Request) -> Response:
        """A photograph from the browser."""
        path = self.store.upload_path(request.query_params.get("name", ""))
        try:
            await self._receive(request, path)
            item = await run_in_threadpool(self.store.add, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        return JSONResponse(asdict(item))

    def close(self, request: Request) -> Response:
        """Close a photograph; nothing on disk is removed."""
        item = self._item(request)
        for run in [run for run in self.store.runs.values() if run.item == item.id]:
            self.worker.cancel(run)
        self.store.forget(item)
        return JSONResponse({})

    def picture(self, request: Request) -> Response:
        """The photograph, a thumbnail of it, or its mask."""
        item, what = self._item(request), request.path_params["what"]
        if what == "mask":
            path = self.store.mask_path(item)
            if not path.exists():
                return Response(status_code=204)
            return FileResponse(path, media_type="image/png", filename=path.name, headers=views.FRESH)
        return views.photograph(self.store, item, small=what == "thumb")

    async def set_mask(self, request: Request) -> Response:
        """The mask that was painted, or one from a file of the user's.

        version: of the mask that it was painted from; if another tab has changed that since, nothing is replaced.
        """
        item, version = self._item(request), request.query_params.get("version", "")
        if version and version != str(item.mask_version):
            said = {
                "message": f"another tab has changed the mask of {item.name}",
                "hint": "load the page again",
            }
            return JSONResponse(said, 409)
        body = await _body(request, MOST_UPLOAD)
        suffix = ".npy" if body[:6] == b"\x93NUMPY" else ".png"
        await run_in_threadpool(self._keep_mask, item, body, suffix)
        return JSONResponse(asdict(item))

    def _keep_mask(self, item: Item, body: bytes, suffix: str) -> None:
        with files.replacing(self.store.folder / f"{item.stem}.upload{suffix}") as temporary:
            temporary.write_bytes(body)
            observed = masks.read_alone(temporary, max_pixels=self.store.max_pixels)
        (self.store.folder / f"{item.stem}.upload{suffix}").unlink(missing_ok=True)
        if observed.shape[:2] != (item.height, item.width):
            height, width = observed.shape[:2]
            raise InputError(
                f"the mask is {width}x{height} but {item.name} is {item.width}x{item.height}",
                hint="open the mask that belongs to this photograph",
            )
        if not observed.any():
            raise InputError("the mask marks every pixel: nothing is left to restore it from")
        self.store.set_mask(item, observed)

    async def detect(self, request: Request) -> Response:
        """A mask of what looks damaged, as a picture; the counts by kind are in a header."""
        item, asked = self._item(request), await _json(request)
        kinds = tuple(kind for kind in asked.get("kinds", finding.KINDS) if kind in finding.KINDS)
        sensitivity = min(10.0, max(0.1, float(asked.get("sensitivity", 1.0))))
        settings = finding.Settings(kinds, sensitivity)
        photo = await run_in_threadpool(self.store.read, item)
        found = await run_in_threadpool(finding.detect, photo.pixels, settings)
        return Response(
            views.mask_picture(found.observed),
            media_type="image/png",
            headers={"x-found": json.dumps(dict(found.counts)), **views.FRESH},
        )

    async def resize(self, request: Request) -> Response:
        """The mask under edit, grown by some pixels, or shrunk by a negative number."""
        item, asked = self._item(request), await _json(request)
        pixels = min(100.0, max(-100.0, float(asked.get("pixels", 1))))
        path = self.store.mask_path(item)
        if not path.exists():
            raise InputError("nothing is marked yet", hint="paint, or find damage")
        observed = await run_in_threadpool(masks.read_alone, path, max_pixels=self.store.max_pixels)
        changed = mask_edit.grow(observed, pixels) if pixels > 0 else mask_edit.shrink(observed, -pixels)
        return Response(views.mask_picture(changed), media_type="image/png", headers=views.FRESH)

    async def truth(self, request: Request) -> Response:
        """A picture without the damage, to measure the error by."""
        item = self._item(request)
        path = self.store.upload_path(request.query_params.get("name", ""))
        try:
            await self._receive(request, path)
            photo = await run_in_threadpool(read_photo, path, max_pixels=self.store.max_pixels)
            _check_size(photo, item)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        item.truth = str(path)
        self.store.save()
        return JSONResponse(asdict(item))

    async def restore(self, request: Request) -> Response:
        """Put a restoration in the queue."""
        item, asked = self._item(request), await _json(request)
        options = {name: asked[name] for name in OPTIONS if asked.get(name) not in (None, "")}
        check(options)
        run = self.store.new_run(item, options, lambda out, mask: command_line(item, options, out, mask))
        self.worker.add(run)
        return JSONResponse(self._run(run))

    def again(self, request: Request) -> Response:
        """Go on with a run that was interrupted."""
        run = self.store.run(request.path_params["run"])
        if run.status not in ("interrupted", "failed"):
            raise UsageError("this run has not been interrupted")
        self.worker.add(run)
        return JSONResponse(self._run(run))

    def cancel(self, request: Request) -> Response:
        """Stop a run after its present step."""
        run = self.store.run(request.path_params["run"])
        self.worker.cancel(run)
        return JSONResponse(self._run(run))

    def result(self, request: Request) -> Response:
        """A picture of a run, or its file."""
        run = self.store.run(request.path_params["run"])
        return views.result(self.store, run, self.worker.live(run), request.path_params["what"])

    def _item(self, request: Request) -> Item:
        return self.store.item(request.path_params["item"])

    def _run(self, run: Run) -> dict[str, Any]:
        live = self.worker.live(run)
        return {**asdict(run), "live": None if live is None else live.as_dict()}

    async def _receive(self, request: Request, path: Path) -> None:
        """Write the body of a request to a file; a full disk is said, and leaves nothing."""
        count = 0
        try:
            with path.open("wb") as file:
                async for part in request.stream():
                    count += len(part)
                    if count > MOST_UPLOAD:
                        raise InputError("the file has more than 1 GB", hint="diffbcp open photo.tiff")
                    await run_in_threadpool(file.write, part)
        except OSError as error:
            raise OutputError(f"{path.name} could not be kept: {error.strerror or error}") from error
        if not count:
            raise InputError(f"{path.name} is empty")


def command_line(item: Item, options: dict[str, Any], out: Path, mask: Path | None) -> str:
    """What to type to get the same file."""
    words = ["diffbcp", "denoise" if mask is None else "inpaint", item.photo]
    words += [] if mask is None else ["--mask", str(mask)]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*words, "-o", str(out.with_name(f"again-{out.name}"))])


def _check_size(photo: Photo, item: Item) -> None:
    if (photo.width, photo.height) != (item.width, item.height):
        raise InputError(
            f"the truth is {photo.width}x{photo.height} but {item.name} is {item.width}x{item.height}"
        )


async def _body(request: Request, most: int) -> bytes:
    parts, count = [], 0
    async for part in request.stream():
        count += len(part)
        if count > most:
            raise InputError("the request is too large")
        parts.append(part)
    return b"".join(parts)


async def _json(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await _body(request, MOST_BODY) or b"{}")
    except ValueError as error:
        raise UsageError("the request is not JSON") from error
    if not isinstance(found, dict):
        raise UsageError("the request is not a JSON object")
    return found


def _said(request: Request, error: Exception) -> Response:
    """An error that a user can act on, as the page shows it."""
    said = cast(DiffbcpError, error)
    status = 507 if isinstance(said, OutputError) else 400
    return JSONResponse({"message": said.message, "hint": said.hint}, status)


def _broken(request: Request, error: Exception) -> Response:
    """A failure that nobody foresaw, in the words that a run would report it with."""
    said = explain(error)
    return JSONResponse({"message": said.message, "hint": said.hint}, 500)


def application(store: Store, worker: Worker) -> Starlette:
    """Every address, below the token."""
    pages = Pages(store, worker)
    photo, run = "/api/photos/{item}", "/api/runs/{run}"
    table: list[tuple[str, Callable[[Request], Response | Awaitable[Response]], str]] = [
        ("/", pages.static, "GET"),
        ("/static/{name}", pages.static, "GET"),
        ("/api/state", pages.state, "GET"),
        ("/api/photos", pages.add, "POST"),
        (photo, pages.close, "DELETE"),
        (f"{photo}/mask", pages.set_mask, "PUT"),
        (f"{photo}/truth", pages.truth, "PUT"),
        (f"{photo}/detect", pages.detect, "POST"),
        (f"{photo}/resize", pages.resize, "POST"),
        (f"{photo}/restore", pages.restore, "POST"),
        (f"{photo}/{{what:str}}", pages.picture, "GET"),
        (f"{run}/cancel", pages.cancel, "POST"),
        (f"{run}/again", pages.again, "POST"),
        (f"{run}/{{what:str}}", pages.result, "GET"),
    ]
    routes = [Route(path, endpoint, methods=[method]) for path, endpoint, method in table]
    return Starlette(routes=routes, exception_handlers={DiffbcpError: _said, Exception: _broken})
