"""The images in a folder. One rule for all commands.

Sub-folders are searched. Hidden files and folders are left out: names that start with a dot. A link to a file counts
as a file; a link to a folder is not followed, so there are no loops. The suffix decides what is an image. Results of
earlier runs are left out unless they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path

from .photo import READABLE
from .targets import is_result


def images_in(
    folder: Path,
    *,
    results: bool,
    suffixes: Collection[str] = READABLE,
    apart_from: Collection[Path] = (),
    on_error: Callable[[OSError], None] | None = None,
) -> list[Path]:
    """The images below a folder, in the order of their paths.

    results: whether results of earlier runs count. apart_from: files and folders to leave out, under whatever
    name. on_error: hears of folders that cannot be read; without it they are passed over.
    """
    skip = {os.path.realpath(path) for path in apart_from}
    found = []
    for at, folders, names in os.walk(folder, onerror=on_error):
        folders[:] = [name for name in folders if name[0] != "." and not _is_one_of(Path(at, name), skip)]
        found += [
            Path(at, name)
            for name in names
            if is_image(name, suffixes) and not _is_one_of(Path(at, name), skip)
        ]
    return sorted(path for path in found if results or not is_result(path))


def is_image(name: str, suffixes: Collection[str] = READABLE) -> bool:
    """Whether a file name is that of an image that is not hidden."""
    return name[:1] not in ("", ".") and Path(name).suffix.lower() in suffixes


def _is_one_of(path: Path, places: Collection[str]) -> bool:
    return bool(places) and os.path.realpath(path) in places
