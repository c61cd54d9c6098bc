"""The document of a comparison: for each kind of damage, means of each method and differences from the first.

Its layout is in docs/reference/compare-json.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import __version__
from ...errors import DiffbcpError, InputError
from ...photos.results import read_record
from ...photos.targets import RECORD
from ...scoring.document import conventions, differences, summarize
from ...scoring.lpips import LpipsNetwork
from ...scoring.pairs import pair_of
from ...scoring.score import METRICS, Record, Score, Settings, score
from .cell import Cell
from .damage import Damage
from .published import published
from .significance import sign_flip_p

COST = ("seconds", "peak_memory", "peak_gpu_memory")


@dataclass(frozen=True)
class Scored:
    """A cell with the scores of its photographs, and why others have none."""

    cell: Cell
    scores: tuple[Score, ...]
    failed: Mapping[str, DiffbcpError]


def score_cell(
    cell: Cell, failed: Mapping[str, DiffbcpError], settings: Settings, network: LpipsNetwork | None
) -> Scored:
    """Score what a cell has restored. failed: why photographs were not restored, by name."""
    scores, bad = [], dict(failed)
    for job in cell.jobs:
        record = read_record(job.target.file(RECORD))
        if job.name in bad or record is None or not job.target.mean.exists():
            bad.setdefault(job.name, InputError("it was not restored"))
            continue
        name, truth = job.name.removesuffix(job.photo.suffix), cell.damage.truths.get(job.name)
        pair = pair_of(name, job.target.folder / job.target.mean.name, truth or job.photo, None)
        cost = {key: record.get(key) for key in COST if record.get(key) is not None}
        if truth is None:
            found = Score(pair, {"name": name, "result": str(pair.result), "not_computed": {}})
        else:
            try:
                found = score(pair, settings, network)
            except InputError as error:
                bad[job.name] = error
                continue
        size = {"width": record["size"][0], "height": record["size"][1], "channels": record["size"][2]}
        scores.append(replace(found, record={**size, **found.record, "cost": cost}))
    return Scored(cell, tuple(scores), bad)


def document(
    scored: Sequence[Scored], settings: Settings, not_computed: Mapping[str, str], *, seed: int
) -> Record:
    """All kinds of damage by name, each with its methods by name."""
    damages = list(dict.fromkeys(one.cell.damage.name for one in scored))
    known = any(one.cell.damage.truths for one in scored)
    methods = {one.cell.entry.name: dict(one.cell.entry.given) for one in scored}
    return {
        "versions": {"diffbcp": __version__},
        "seed": seed,
        "methods": [{"name": name, "options": given} for name, given in methods.items()],
        "conventions": {
            **conventions(settings, lpips_computed="lpips" not in not_computed),
            "difference": "of the same photographs, from the first method",
            "p": "two-sided, by flipping the signs of the paired differences; not corrected for many comparisons",
            "published": "the paper's PSNR (SSIM), on its own photographs",
            "memory": "the most resident memory of the process, which holds Python and torch too",
        },
        "not_computed": dict(not_computed) if known else {"metrics": "there is no truth: --truth"},
        "damages": {
            name: _damage([one for one in scored if one.cell.damage.name == name], settings)
            for name in damages
        },
    }


def _damage(scored: Sequence[Scored], settings: Settings) -> Record:
    damage: Damage = scored[0].cell.damage
    first, *others = scored
    bodies = {}
    for one in scored:
        failed = [{"name": name, "error": e.message, "hint": e.hint} for name, e in one.failed.items()]
        bodies[one.cell.entry.name] = {**summarize(one.scores, settings), "failed": failed}
    against = {one.cell.entry.name: _against(first.scores, one.scores, settings) for one in others}
    sides = ("width", "height", "channels")
    sizes = {tuple(one.record[side] for side in sides) for each in scored for one in each.scores}
    return {
        "recipe": damage.recipe,
        "noise": damage.noise,
        "mask": None if damage.mask is None else str(damage.mask),
        "methods": bodies,
        "differences": {"from": first.cell.entry.name, "to": against},
        "published": published(damage.recipe, damage.noise, sizes),
    }


def _against(first: Sequence[Score], other: Sequence[Score], settings: Settings) -> dict[str, Any]:
    """Paired differences with their intervals, and p."""
    found = differences(first, other, settings)
    mine = {one.record["name"]: one.record for one in first}
    for metric in METRICS:
        if metric in found and found[metric]["count"] > 1:
            pairs = [(one.record.get(metric), mine.get(one.record["name"], {}).get(metric)) for one in other]
            gaps = [a - b for a, b in pairs if a is not None and b is not None]
            found[metric]["p"] = sign_flip_p(gaps, rng=np.random.default_rng(settings.seed))
    return found
