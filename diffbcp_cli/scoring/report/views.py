"""The pictures that the page shows: truth, result, uncertainty, and what the run started from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...errors import InputError
from ...photos.photo import read_photo
from ..arrays import Mask
from ..document import Results
from ..pairs import Pair, read_run
from ..read import Floats, read_pair, read_region, read_std
from ..score import Settings


@dataclass(frozen=True)
class View:
    """The pictures of one name, all (H, W, C) in [0, 1].

    before: what the run started from, None if unknown. results, stds: by method; a method may lack either.
    """

    name: str
    truth: Floats
    before: Floats | None
    results: Mapping[str, Floats]
    stds: Mapping[str, Floats]


def views(sets: Mapping[str, Results], settings: Settings, *, limit: int) -> Iterator[View]:
    """Read the pictures of at most `limit` names, evenly spaced from the lowest to the highest PSNR.

    Results have the names of the sets in the document: a single set has the empty name.
    """
    sets = sets if len(sets) > 1 else {"": next(iter(sets.values()))}
    first = next(iter(sets.values()))
    ranked = sorted(first.scores, key=lambda one: one.record["psnr"] or math.inf)
    places = np.unique(np.linspace(0, len(ranked) - 1, min(limit, len(ranked))).round().astype(int))
    chosen = {ranked[place].pair.name for place in places}
    for one in first.scores:
        if one.pair.name in chosen:
            yield _view(one.pair, sets, settings)


def _view(pair: Pair, sets: Mapping[str, Results], settings: Settings) -> View:
    restored, exact = read_pair(pair)
    truth = exact.pixels
    results: dict[str, Floats] = {}
    stds: dict[str, Floats] = {}
    for method, found in sets.items():
        mine = next((one.pair for one in found.scores if one.pair.name == pair.name), None)
        if mine is None:
            continue
        results[method] = read_pair(mine)[0].pixels
        std = read_std(mine, truth.shape)
        if std is not None:
            stds[method] = std
    observed, _ = read_region(pair, restored, settings.mask_polarity)
    return View(pair.name, truth, _before(pair, truth, observed), results, stds)


def _before(pair: Pair, truth: Floats, observed: Mask | None) -> Floats | None:
    """The photograph of the run, or else the truth, with missing entries 0; None if neither is known."""
    given = _photo_of_the_run(pair)
    if given is None or given.shape != truth.shape:
        given = None if observed is None else truth
    if given is None or observed is None:
        return given
    return np.where(observed, np.nan_to_num(given), np.float32(0.0))


def _photo_of_the_run(pair: Pair) -> Floats | None:
    source = read_run(pair.run).photo
    if source is None or not source.is_file():
        return None
    try:
        return read_photo(source).pixels
    except InputError:
        return None
