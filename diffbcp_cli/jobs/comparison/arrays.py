"""Compare methods from Python: arrays in, a table and arrays out."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ...options import METHODS, Arguments, Options, check
from ...priors.base import Denoises, Prior
from ...scoring import metrics
from ...scoring.calibration import coverage
from ..arrays import inpaint
from ..images import ImageLike, read_image
from ..restoration import Restoration
from .entries import entries

DIGITS = {"psnr": 2, "ssim": 4, "coverage": 3, "seconds": 1}


@dataclass(frozen=True)
class Comparison:
    """What each method made of one picture. scores: by method, its numbers by name; see `compare`."""

    results: Mapping[str, Restoration]
    scores: Mapping[str, Mapping[str, float]]

    def __getitem__(self, method: str) -> Restoration:
        return self.results[method]

    def __str__(self) -> str:
        widest = max(len(row[0]) for row in self._rows())
        return "\n".join(
            f"{row[0]:{widest}}" + "".join(f"{text:>10}" for text in row[1:]) for row in self._rows()
        )

    def _rows(self) -> list[list[str]]:
        names = list(dict.fromkeys(name for one in self.scores.values() for name in one))
        rows = [["method", *names]]
        for method, one in self.scores.items():
            rows.append([method, *(f"{one[n]:.{DIGITS[n]}f}" if n in one else "" for n in names)])
        return rows

    def _repr_html_(self) -> str:
        head, *rows = [[html.escape(text) for text in row] for row in self._rows()]
        cells = "".join(f"<tr>{''.join(f'<td>{text}</td>' for text in row)}</tr>" for row in rows)
        return f"<table><tr>{''.join(f'<th>{text}</th>' for text in head)}</tr>{cells}</table>"


def compare(
    image: ImageLike,
    known: ImageLike | None = None,
    methods: Sequence[str] = ("diffbcp", "tctv"),
    *,
    mask: ImageLike | None = None,
    truth: ImageLike | None = None,
    prior: Prior | Denoises | str = "natural",
    **options: Unpack[Arguments],
) -> Comparison:
    """Restore one picture by several methods.

    image, known, mask, prior, options: as in `inpaint`; each method gets the options that it takes. methods: NAME, or
    NAME:OPTION=VALUE for one with options of its own. truth: the clean picture, for PSNR, SSIM, and the share of the
    missing entries inside the 90 % intervals.

    >>> import numpy as np
    >>> clean = np.linspace(0, 1, 32)[:, None] * np.ones((32, 32))
    >>> known = np.random.default_rng(0).random((32, 32)) < 0.5
    >>> found = compare(clean * known, known, ["telea", "navier-stokes"], truth=clean)
    >>> list(found.scores), found["telea"].mean.shape, bool(found.scores["telea"]["psnr"] > 25)
    (['telea', 'navier-stokes'], (32, 32), True)
    """
    shared = dict(check(options))
    if isinstance(prior, str) and prior != Options.prior:
        shared["prior"] = prior
    results, scores = {}, {}
    for entry in entries(methods, shared):
        given: dict[str, Any] = dict(entry.given)
        named = METHODS[given["method"]]
        used = given.pop("prior", named.own_prior or (prior if named.takes_prior else "none"))
        results[entry.name] = found = inpaint(image, known, mask=mask, prior=used, **given)
        scores[entry.name] = _scores(found, truth)
    return Comparison(results, scores)


def _scores(found: Restoration, truth: ImageLike | None) -> dict[str, float]:
    """PSNR, SSIM and coverage if there is a truth, and the seconds."""
    made: dict[str, float] = {}
    if truth is not None:
        mean, exact = read_image(found.mean).pixels, read_image(truth).pixels
        made = {"psnr": metrics.psnr(mean, exact), "ssim": metrics.ssim(mean, exact)}
        missing = np.ones(mean.shape, bool) if found.known is None else ~found.known
        if found.std is not None and missing.any():
            std = np.reshape(found.std, mean.shape)
            made["coverage"] = float(coverage(mean, std, exact, (0.9,), missing)[0])
    return {**made, "seconds": found.seconds}
