"""The library's front door: images in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from itertools import repeat
from typing import Any, Unpack

import numpy as np

from ..errors import InputError, UsageError
from ..options import Arguments, Options, check
from ..priors import load_prior
from ..priors.base import Denoises, Prior, as_prior
from ..units import Bools
from ..watch import Progress, Watch
from . import session
from .images import Given, ImageLike, known_entries, read_image
from .restoration import Restoration

__all__ = ["Progress", "Restoration", "denoise", "denoise_many", "inpaint", "inpaint_many", "load_prior"]

PriorLike = Prior | Denoises | str
"""A name, a folder, a Hub id, an object with `denoise`, or "none"."""


class _Call(Watch):
    """The watch of a call: progress goes to a function, and another one is asked whether to stop."""

    def __init__(self, tell: Callable[[Progress], None] | None, stop: Callable[[], bool] | None) -> None:
        self.tell, self.stop = tell, stop

    def progress(self, progress: Progress) -> None:
        """Pass it on."""
        if self.tell is not None:
            self.tell(progress)

    def cancelled(self) -> bool:
        """Whether the caller wants to stop."""
        return self.stop is not None and self.stop()


def inpaint(
    image: ImageLike,
    known: ImageLike | None = None,
    *,
    mask: ImageLike | None = None,
    prior: PriorLike = "natural",
    fast: bool = False,
    progress: Callable[[Progress], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    **options: Unpack[Arguments],
) -> Restoration:
    """Fill the pixels of `image` that are not known, and remove noise from the rest.

    image: an array (H, W), (H, W, 1) or (H, W, 3) of uint8, uint16, or floats in [0, 1]; a tensor (H, W) or
    (C, H, W); a PIL image; a path; or the bytes of a file. known: True where a pixel was observed, (H, W) or the
    image's own shape. mask: the opposite, as on the command line: True or white where it is to be filled. Give one
    of the two. prior: a name, a folder, a Hub id, an object with `denoise`, or "none". fast: a little quality
    for speed. progress: called after each step. cancel: asked after each step whether to stop; the result is then
    what was drawn so far, with `finished` False. options: those of the command line, with underscores (iterations=50,
    seed=1).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> image = np.linspace(0, 1, 32)[:, None] * np.ones((32, 32))
    >>> result = inpaint(image, rng.random((32, 32)) < 0.5, prior="none", iterations=20, burn_in=10, rank=8)
    >>> result.mean.shape, bool(np.abs(result.mean - image).mean() < 0.05)
    ((32, 32), True)
    """
    given = read_image(image)
    observed = known_entries(given, known, mask)
    return _restore(given, observed, _ready(prior, options, fast=fast), _Call(progress, cancel))


def denoise(
    image: ImageLike,
    *,
    prior: PriorLike = "natural",
    fast: bool = False,
    progress: Callable[[Progress], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    **options: Unpack[Arguments],
) -> Restoration:
    """Remove noise of unknown strength from `image`; see `inpaint` for what the rest is.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean = np.linspace(0.2, 0.8, 32)[:, None] * np.ones((32, 32))
    >>> noisy = clean + 0.05 * rng.normal(size=clean.shape)
    >>> result = denoise(noisy, prior="none", iterations=20, burn_in=10, rank=8)
    >>> bool(np.abs(result.mean - clean).mean() < np.abs(noisy - clean).mean())
    True
    """
    given = read_image(image)
    observed = np.ones(given.pixels.shape, bool)
    return _restore(given, observed, _ready(prior, options, fast=fast), _Call(progress, cancel))


def inpaint_many(
    images: Iterable[ImageLike],
    known: Iterable[ImageLike] | None = None,
    *,
    mask: Iterable[ImageLike] | None = None,
    prior: PriorLike = "natural",
    fast: bool = False,
    progress: Callable[[Progress], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    **options: Unpack[Arguments],
) -> Iterator[Restoration]:
    """Fill several images one after the other with one prior; each result is that of `inpaint` for it alone.

    images, known, mask: sequences, or arrays with one more axis in front. After `cancel` no further image is begun.

    >>> import numpy as np
    >>> images = np.linspace(0, 1, 32)[:, None] * np.ones((2, 32, 32))
    >>> known = np.random.default_rng(0).random((2, 32, 32)) < 0.5
    >>> [result.mean.shape for result in inpaint_many(images, known, method="telea")]
    [(32, 32), (32, 32)]
    """
    ready, watch = _ready(prior, options, fast=fast), _Call(progress, cancel)
    for image, one, other in zip(images, _each(known), _each(mask), strict=False):
        if watch.cancelled():
            return
        given = read_image(image)
        yield _restore(given, known_entries(given, one, other), ready, watch)


def denoise_many(
    images: Iterable[ImageLike],
    *,
    prior: PriorLike = "natural",
    fast: bool = False,
    progress: Callable[[Progress], None] | None = None,
    cancel: Callable[[], bool] | None = None,
    **options: Unpack[Arguments],
) -> Iterator[Restoration]:
    """Remove noise from several images one after the other with one prior; see `inpaint_many`."""
    ready, watch = _ready(prior, options, fast=fast), _Call(progress, cancel)
    for image in images:
        if watch.cancelled():
            return
        given = read_image(image)
        yield _restore(given, np.ones(given.pixels.shape, bool), ready, watch)


def _each(masks: Iterable[ImageLike] | None) -> Iterable[ImageLike | None]:
    return repeat(None) if masks is None else masks


def _ready(prior: PriorLike, options: Arguments, *, fast: bool) -> tuple[Mapping[str, Any], Prior | None]:
    """The options that were set, checked, and the prior, loaded."""
    typed = dict(options)
    if fast and typed.setdefault("preset", "fast") != "fast":
        raise UsageError(f"fast=True and preset={typed['preset']!r} are two presets", hint="give one of them")
    named = prior if isinstance(prior, str) else "loaded"
    given = check(typed if named == Options.prior else {**typed, "prior": named})
    return given, session.open_prior(given) if isinstance(prior, str) else as_prior(prior)


def _restore(
    image: Given, observed: Bools, ready: tuple[Mapping[str, Any], Prior | None], watch: Watch
) -> Restoration:
    if not np.isfinite(image.pixels[observed]).all():
        raise InputError("the image has NaN or infinite values among its observed pixels")
    given, prior = ready
    found = session.restore(image.pixels, observed, given, prior=prior, watch=watch)
    shape = image.values.shape
    parts = {field.name: getattr(found, field.name) for field in fields(found)} | {
        "mean": image.like(found.mean),
        "std": None if found.std is None else found.std.reshape(shape),
        "samples": None if found.samples is None else found.samples.reshape(-1, *shape),
    }
    return Restoration(**parts, before=image.pixels, known=observed)
