"""The library's front door: arrays in, arrays out."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError, MaskError
from ..options import Arguments, Options, check
from ..priors import load_prior
from ..priors.base import Denoises, Prior, as_prior
from ..problem import Restoration
from . import session

__all__ = ["Restoration", "denoise", "inpaint", "load_prior"]


def inpaint(
    image: ArrayLike,
    mask: ArrayLike,
    *,
    prior: Prior | Denoises | str = "natural",
    **options: Unpack[Arguments],
) -> Restoration:
    """Fill the pixels of `image` that `mask` does not mark as observed, and remove noise from the rest.

    image: (H, W), (H, W, 1) or (H, W, 3); uint8, uint16, or float in [0, 1]. mask: True = observed, (H, W) or
    the image's own shape. prior: a name, a folder, a Hub id, an object with `denoise`, or "none". options: those of
    the command line, with underscores (iterations=50, seed=1).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> image = np.linspace(0, 1, 32)[:, None] * np.ones((32, 32))
    >>> result = inpaint(image, rng.random((32, 32)) < 0.5, prior="none", iterations=20, burn_in=10, rank=8)
    >>> result.mean.shape, bool(np.abs(result.mean - image).mean() < 0.05)
    ((32, 32), True)
    """
    pixels, unit = unit_pixels(image)
    observed = np.asarray(mask)
    if observed.dtype != np.bool_ and not np.isin(observed, (0, 1)).all():
        raise MaskError("the mask holds values other than 0 and 1", hint="True or 1 marks an observed pixel")
    observed = observed.astype(bool)
    observed = observed[..., None] if observed.ndim == 2 else observed
    if (
        observed.ndim != 3
        or observed.shape[:2] != pixels.shape[:2]
        or observed.shape[2] not in (1, pixels.shape[2])
    ):
        raise MaskError(f"the mask's shape {np.shape(mask)} does not fit the image's {np.shape(image)}")
    observed = np.broadcast_to(observed, pixels.shape)
    if not observed.any():
        raise MaskError("the mask marks every pixel as missing: nothing is left to go by")
    return _restore(image, pixels, unit, observed, prior, options)


def denoise(
    image: ArrayLike, *, prior: Prior | Denoises | str = "natural", **options: Unpack[Arguments]
) -> Restoration:
    """Remove noise of unknown strength from `image`; see `inpaint` for shapes and options.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> clean = np.linspace(0.2, 0.8, 32)[:, None] * np.ones((32, 32))
    >>> noisy = clean + 0.05 * rng.normal(size=clean.shape)
    >>> result = denoise(noisy, prior="none", iterations=20, burn_in=10, rank=8)
    >>> bool(np.abs(result.mean - clean).mean() < np.abs(noisy - clean).mean())
    True
    """
    pixels, unit = unit_pixels(image)
    return _restore(image, pixels, unit, np.ones(pixels.shape, bool), prior, options)


def _restore(
    image: ArrayLike,
    pixels: NDArray[np.float32],
    unit: float,
    observed: NDArray[np.bool_],
    prior: Prior | Denoises | str,
    options: Arguments,
) -> Restoration:
    if not np.isfinite(pixels[observed]).all():
        raise InputError("the image has NaN or infinite values among its observed pixels")
    named = prior if isinstance(prior, str) else "loaded"
    given = check(options if named == Options.prior else {**options, "prior": named})
    used = session.open_prior(given) if isinstance(prior, str) else as_prior(prior)
    restored = session.restore(pixels, observed, given, prior=used)
    shape = np.shape(image)
    mean = restored.mean.reshape(shape)
    dtype = np.asarray(image).dtype
    if unit != 1:
        mean = np.rint(mean.clip(0, 1) * unit).astype(dtype)
    elif dtype.kind == "f":
        mean = mean.astype(dtype)
    samples = None if restored.samples is None else restored.samples.reshape(-1, *shape)
    std = None if restored.std is None else restored.std.reshape(shape)
    return replace(restored, mean=mean, std=std, samples=samples)


def unit_pixels(image: ArrayLike) -> tuple[NDArray[np.float32], float]:
    """Bring an image to (H, W, C) float32 on [0, 1]; return it and what 1 stands for."""
    values = np.asarray(image)
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in (1, 3)):
        raise InputError(f"an image is (H, W), (H, W, 1) or (H, W, 3), not {values.shape}")
    if values.dtype in (np.uint8, np.uint16):
        unit = float(np.iinfo(values.dtype).max)
    elif values.dtype.kind == "f":
        unit = 1.0
        finite = values[np.isfinite(values)]
        if finite.size and (finite.min() < -1 or finite.max() > 2):
            raise InputError(
                f"a float image lies in [0, 1], this one runs from {finite.min():g} to {finite.max():g}",
                hint="divide 8-bit values by 255",
            )
    else:
        raise InputError(f"an image is uint8, uint16 or float, not {values.dtype}")
    shape = (*values.shape[:2], values.shape[2] if values.ndim == 3 else 1)
    pixels = (values.astype(np.float32) / np.float32(unit)).reshape(shape)
    return pixels, unit
