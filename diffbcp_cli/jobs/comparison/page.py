"""One self-contained page: the tables, and all pictures of a photograph side by side under one zoom."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ... import __version__
from ...photos.photo import read_photo
from ...scoring.report.pictures import data_uri, fitted, side_for
from ...scoring.report.tables import value_at
from ...units import Floats
from .document import Scored
from .tables import PUBLISHED, beside, columns_of, rows_of, shown_conventions


def page(document: Mapping[str, Any], scored: Sequence[Scored], *, limit: int) -> str:
    """The page of a comparison, with at most `limit` photographs for each kind of damage."""
    panels = 2 + max((len(damage["methods"]) for damage in document["damages"].values()), default=0)
    side = side_for(panels * limit * len(document["damages"]))
    pictures = list(_pictures(scored, limit=limit, side=side))
    return (
        _templates()
        .get_template("page.html")
        .render(
            css=Markup(
                _resource("diffbcp_cli.scoring.report", "page.css") + _resource(__package__, "page.css")
            ),
            js=Markup(_resource(__package__, "page.js")),
            version=__version__,
            methods=[one["name"] for one in document["methods"]],
            damages=[_damage(name, damage) for name, damage in document["damages"].items()],
            remarks=[f"{key} was not computed: {text}" for key, text in document["not_computed"].items()],
            conventions=shown_conventions(document),
            published=PUBLISHED,
            data={"pictures": pictures},
        )
    )


def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader(__package__, "."), autoescape=True, undefined=StrictUndefined
    )
    templates.policies["json.dumps_kwargs"] = {"allow_nan": False}
    return templates


def _resource(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _damage(name: str, damage: Mapping[str, Any]) -> dict[str, Any]:
    """What the template shows of one kind of damage."""
    failed = [
        f"{method}, {bad['name']}: {bad['error']}"
        for method, one in damage["methods"].items()
        for bad in one["failed"]
    ]
    return {
        "name": name,
        "noise": damage["noise"],
        "columns": columns_of(damage),
        "rows": rows_of(damage),
        "first": damage["differences"]["from"],
        "published": damage["published"],
        "beside": beside(damage),
        "failed": failed,
    }


def _pictures(scored: Sequence[Scored], *, limit: int, side: int) -> Iterator[dict[str, Any]]:
    """For each damage and photograph: its panels, the truth and the damaged one first."""
    for damage in dict.fromkeys(one.cell.damage.name for one in scored):
        methods = [one for one in scored if one.cell.damage.name == damage]
        jobs = {job.name: job for one in methods for job in one.cell.jobs if job.name not in one.failed}
        for name, job in list(jobs.items())[:limit]:
            damaged = read_photo(job.photo).pixels
            panels = [_panel("damaged", damaged, side)]
            truth = methods[0].cell.damage.truths.get(name)
            if truth is not None:
                panels.insert(0, _panel("truth", read_photo(truth).pixels, side))
            panels += [panel for one in methods for panel in _of_method(one, name, side)]
            height, width = fitted(damaged, side).shape[:2]
            yield {"damage": damage, "name": name, "width": width, "height": height, "panels": panels}


def _of_method(one: Scored, name: str, side: int) -> Iterator[dict[str, str]]:
    """The result of one method, with its numbers; nothing if there is none."""
    job = next((job for job in one.cell.jobs if job.name == name), None)
    if job is None or name in one.failed:
        return
    record = next((s.record for s in one.scores if s.pair.result == job.target.mean), {})
    shown = (value_at(record, "psnr"), value_at(record, "ssim"), value_at(record, "cost.seconds"))
    texts = [
        form.format(v)
        for form, v in zip(("{:.2f} dB", "{:.3f}", "{:.0f} s"), shown, strict=True)
        if v is not None
    ]
    yield _panel(one.cell.entry.name, read_photo(job.target.mean).pixels, side, " · ".join(texts))


def _panel(title: str, pixels: Floats, side: int, numbers: str = "") -> dict[str, str]:
    shown = fitted(np.nan_to_num(pixels), side)
    quality = None if math.prod(shown.shape[:2]) <= 256 * 256 else 92
    return {"title": title, "numbers": numbers, "picture": data_uri(shown, quality=quality)}
