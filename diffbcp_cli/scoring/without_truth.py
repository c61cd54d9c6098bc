"""Results of which no truth is known: each beside the photograph of its run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError
from ..photos.before_after import Item
from .pairs import pair_of, read_run, results_in
from .read import read_pair, read_region, read_std


def before_after(results: Path, *, most: int) -> Iterator[Item]:
    """At most so many results of a folder, or a single one, as the page shows them."""
    found = results_in(results) if results.is_dir() else {results.stem.removesuffix(".mean"): results}
    shown = 0
    for name, result in found.items():
        pair = pair_of(name, result, result, None)
        photo = read_run(pair.run).photo
        if photo is None or not photo.is_file() or shown == most:
            continue
        restored, before = read_pair(pair_of(name, result, photo, None))
        observed, _ = read_region(pair, restored, "white-fills")
        std = read_std(pair, restored.pixels.shape)
        shown += 1
        yield Item(name, before.pixels, restored.pixels, std, observed)
    if not shown:
        raise InputError(
            f"{results} has no result whose photograph is still there",
            hint="name a folder that diffbcp wrote, or give a truth: diffbcp eval RESULTS TRUTH",
        )
