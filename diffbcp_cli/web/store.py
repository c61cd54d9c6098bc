"""The folder of a session: which photographs are open, their masks, and the runs. It survives the server."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from ..errors import InputError
from ..photos import files, masks
from ..photos.photo import SUFFIXES, Photo, read_photo
from ..photos.targets import Target, target_of

Status = Literal["queued", "running", "done", "interrupted", "failed"]
STATE, CACHE, UPLOADS = "session.json", "shown", "photos"
LONGEST_STEM = 80
_T = TypeVar("_T")


@dataclass
class Item:
    """One photograph. stem: its name in this folder, of which no other photograph has the same.

    share: of its pixels that the mask fills. truth: a picture without the damage, if one was given.
    """

    id: str
    name: str
    photo: str
    stem: str
    width: int
    height: int
    channels: int
    depth: str
    alpha: bool = False
    share: float = 0.0
    mask_version: int = 0
    truth: str | None = None


@dataclass
class Run:
    """One restoration of one photograph, with the options that were set and the mask of that moment."""

    id: str
    item: str
    options: dict[str, Any]
    out: str
    mask: str | None
    command: str
    status: Status = "queued"
    message: str = ""
    hint: str = ""
    record: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    has_std: bool = False


class Store:
    """Photographs and runs of a session, each change written before it is answered."""

    def __init__(self, folder: Path, *, max_pixels: int) -> None:
        self.folder, self.max_pixels = folder, max_pixels
        self.lock = threading.RLock()
        self.items: dict[str, Item] = {}
        self.runs: dict[str, Run] = {}
        self.next_id = 1
        files.ensure_writable(folder)
        self._load()

    def add(self, path: Path, *, name: str | None = None, first: bool = False) -> Item:
        """Open a photograph, or give back the one that is open already. first: before the others."""
        path = path.resolve()
        with self.lock:
            for item in self.items.values():
                if Path(item.photo) == path:
                    self._put(item, first)
                    return item
        photo = read_photo(path, max_pixels=self.max_pixels)
        with self.lock:
            stem = self._free_stem(path.stem)
            item = Item(
                self._new_id(),
                name or path.name,
                str(path),
                stem,
                photo.width,
                photo.height,
                photo.channels,
                photo.depth,
                photo.alpha is not None,
            )
            self._put(item, first)
        return item

    def _put(self, item: Item, first: bool) -> None:
        self.items = {item.id: item} | self.items if first else self.items | {item.id: item}
        self.save()

    def upload_path(self, name: str) -> Path:
        """A new path for a photograph from the browser: its own name, or a numbered one."""
        plain = Path(name.replace("\\", "/")).name
        suffix = Path(plain).suffix.lower()
        if suffix not in SUFFIXES:
            raise InputError(
                f"{plain[:80] or 'the file'} is no image", hint=f"use one of {', '.join(SUFFIXES)}"
            )
        stem = re.sub(r"[^\w .()+-]", "_", Path(plain).stem).strip(". ")[:LONGEST_STEM] or "photo"
        folder = self.folder / UPLOADS
        folder.mkdir(parents=True, exist_ok=True)
        with self.lock:
            path, number = folder / f"{stem}{suffix}", 2
            while path.exists():
                path, number = folder / f"{stem}-{number}{suffix}", number + 1
            path.touch()
        return path

    def item(self, key: str) -> Item:
        """A photograph by its id."""
        return _found(self.items, key, "photograph")

    def run(self, key: str) -> Run:
        """A run by its id."""
        return _found(self.runs, key, "run")

    def read(self, item: Item) -> Photo:
        """The photograph as it is on disk now."""
        return read_photo(Path(item.photo), max_pixels=self.max_pixels)

    def mask_path(self, item: Item) -> Path:
        """Where the mask under edit is."""
        return self.folder / f"{item.stem}.mask.png"

    def set_mask(self, item: Item, observed: masks.Bools) -> None:
        """Keep a mask (H, W, C); an empty one removes the file."""
        with self.lock:
            if observed.all():
                self.mask_path(item).unlink(missing_ok=True)
            else:
                masks.write_mask(self.mask_path(item), observed)
            item.share = masks.missing_share(observed)
            item.mask_version += 1
            self.save()

    def new_run(self, item: Item, options: dict[str, Any], command: Any) -> Run:
        """A run in the queue. command(run's target, mask) says what to type for the same."""
        with self.lock:
            key, number = self._new_id(), 1
            suffix = Path(item.photo).suffix.lower()
            while any(self.folder.glob(f"{_literal(item.stem)}-{number}.*")):
                number += 1
            out = self.folder / f"{item.stem}-{number}{suffix}"
            mask = None
            if item.share > 0:
                mask = self.folder / f"{item.stem}-{number}.mask.png"
                files.write_bytes(mask, self.mask_path(item).read_bytes())
            run = Run(
                key, item.id, options, str(out), None if mask is None else str(mask), command(out, mask)
            )
            self.runs[key] = run
            self.save()
        return run

    def target(self, run: Run) -> Target:
        """Where its results are."""
        return target_of(Path(self.items[run.item].photo), Path(run.out))

    def forget(self, item: Item) -> None:
        """Close a photograph; its files stay."""
        with self.lock:
            del self.items[item.id]
            self.runs = {key: run for key, run in self.runs.items() if run.item != item.id}
            self.save()

    def save(self) -> None:
        """Write the state."""
        with self.lock:
            state = {
                "version": 1,
                "next_id": self.next_id,
                "items": [asdict(item) for item in self.items.values()],
                "runs": [asdict(run) for run in self.runs.values()],
            }
            files.write_bytes(self.folder / STATE, json.dumps(state, indent=1).encode())

    def _load(self) -> None:
        """What an earlier server left. What it was working on was interrupted; what waited waits still."""
        path = self.folder / STATE
        if not path.exists():
            return
        try:
            state = json.loads(files.read_own(path))
            self.next_id = int(state["next_id"])
            self.items = {item.id: item for item in _built(Item, state["items"]) if Path(item.photo).exists()}
            runs = [run for run in _built(Run, state["runs"]) if run.item in self.items]
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise InputError(
                f"{path} is damaged, or is none of ours", hint="name another folder with -o"
            ) from error
        for run in runs:
            if run.status == "running":
                run.status = "interrupted"
                run.message = "the server was stopped; restore again goes on from there"
            self.runs[run.id] = run

    def _free_stem(self, stem: str) -> str:
        stem = stem[:LONGEST_STEM] or "photo"
        taken = {item.stem for item in self.items.values()}
        found, number = stem, 2
        while found in taken:
            found, number = f"{stem}_{number}", number + 1
        return found

    def _new_id(self) -> str:
        self.next_id += 1
        return str(self.next_id - 1)


def _found(table: dict[str, _T], key: str, what: str) -> _T:
    if key not in table:
        raise InputError(f"there is no such {what} in this session", hint="load the page again")
    return table[key]


def _built(kind: type[_T], rows: Iterable[dict[str, Any]]) -> list[_T]:
    names = {one.name for one in fields(kind)}  # type: ignore[arg-type]  # they are dataclasses
    return [kind(**{name: value for name, value in row.items() if name in names}) for row in rows]


def _literal(text: str) -> str:
    """A name as a pattern that matches itself only."""
    return re.sub(r"([*?[])", r"[\1]", text)
