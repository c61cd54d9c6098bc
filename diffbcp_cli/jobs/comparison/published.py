"""The figures of the paper, beside ours where the protocol is the same."""

from __future__ import annotations

import tomllib
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Any

NOISE, SIZE = 0.025, (256, 256, 3)
COMPARABLE = (
    "The same damage and size, but other photographs (128 of FFHQ and of ImageNet), so compare the order and the "
    "gaps of methods, not single figures. Their LPIPS was fed [0, 1]: ours compares only with --lpips paper."
)


@cache
def tables() -> dict[str, Any]:
    """published.toml: `columns` and `source`, what our methods are called there, and the figures.

    These are by set of photographs, method and recipe.
    """
    text = files(__package__).joinpath("published.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def published(
    recipe: str | None, noise: float | None, sizes: Collection[tuple[int, int, int]]
) -> dict[str, Any] | None:
    """The rows of the paper for a recipe at its noise and size; None for another protocol."""
    if recipe is None or noise != NOISE or set(sizes) != {SIZE}:
        return None
    found = tables()
    rows = [
        {"data": data, "method": method, **dict(zip(found["columns"], figures[recipe], strict=True))}
        for data, methods in found["figures"].items()
        for method, figures in methods.items()
        if recipe in figures
    ]
    return {"source": found["source"], "comparable": COMPARABLE, "names": found["names"], "rows": rows}
