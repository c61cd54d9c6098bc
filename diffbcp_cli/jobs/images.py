"""What a caller may give as an image: arrays, PIL images, tensors, paths, or the bytes of a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image
from torch import Tensor

from ..errors import InputError, MaskError
from ..photos.codecs.decode import decode
from ..photos.photo import MAX_PIXELS, read_bytes
from ..units import Bools, Floats

ImageLike: TypeAlias = ArrayLike | Image.Image | Tensor | Path | bytes
"""An array (H, W) or (H, W, 1 or 3), a tensor (H, W) or (C, H, W), a PIL image, a path, or the bytes of a file."""
_CHANNELS = (1, 3)


@dataclass(frozen=True)
class Given:
    """An image as it was given: an array, and its pixels (H, W, C) on [0, 1]. unit: the sample that stands for 1."""

    values: NDArray[Any]
    pixels: Floats
    unit: float

    def like(self, restored: Floats) -> NDArray[Any]:
        """Pixels on [0, 1] in the shape and type of the image."""
        found = restored.reshape(self.values.shape)
        if self.unit != 1:
            return np.rint(found.clip(0, 1) * self.unit).astype(self.values.dtype)
        return found.astype(self.values.dtype) if self.values.dtype.kind == "f" else found


def as_array(image: ImageLike) -> NDArray[Any]:
    """An image as an array (H, W) or (H, W, C) of uint8, uint16 or floats; transparency is left out."""
    if isinstance(image, Path | bytes):
        data = image if isinstance(image, bytes) else read_bytes(image)
        name = "the image" if isinstance(image, bytes) else image.name
        samples = decode(data, name, max_pixels=MAX_PIXELS).samples
        return samples[..., 0] if samples.shape[2] < 3 else np.ascontiguousarray(samples[..., :3])
    if hasattr(image, "getbands"):  # a PIL image, whether or not Pillow is imported here
        return _of_pil(image)
    if hasattr(image, "detach"):
        found = np.asarray(image.detach().cpu().numpy())
        channels_first = found.ndim == 3 and found.shape[0] in _CHANNELS
        return np.ascontiguousarray(found.transpose(1, 2, 0)) if channels_first else found
    return np.asarray(image)


def _of_pil(image: Any) -> NDArray[Any]:
    if image.mode in ("1", "LA"):
        image = image.convert("L")
    if image.mode in ("P", "PA", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"):
        image = image.convert("RGB")
    found = np.asarray(image)
    return found.astype(np.uint16) if image.mode.startswith("I") else found


def read_image(image: ImageLike) -> Given:
    """An image, checked and on [0, 1]."""
    values = as_array(image)
    if values.ndim not in (2, 3) or (values.ndim == 3 and values.shape[2] not in _CHANNELS):
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
    return Given(values, pixels, unit)


def known_entries(image: Given, known: ImageLike | None, mask: ImageLike | None) -> Bools:
    """Which entries (H, W, C) of the image are observed: `known` says so, `mask` says which are not."""
    if (known is None) == (mask is None):
        raise MaskError(
            "give either known= or mask=",
            hint="known: True where a pixel is known; mask: True or white where it is to be filled",
        )
    observed = _truths(known, "known") if known is not None else ~_truths(mask, "mask")
    observed = observed[..., None] if observed.ndim == 2 else observed
    fits = observed.ndim == 3 and observed.shape[:2] == image.pixels.shape[:2]
    if not fits or observed.shape[2] not in (1, image.pixels.shape[2]):
        raise MaskError(f"the mask's shape {observed.shape} does not fit the image's {image.values.shape}")
    observed = np.broadcast_to(observed, image.pixels.shape)
    if not observed.any():
        raise MaskError("the mask marks every pixel as missing: nothing is left to go by")
    return observed


def _truths(given: ImageLike | None, name: str) -> Bools:
    """Truths, or numbers 0 and 1; `mask` may also be a picture of 8 or 16 bits, where above half is true."""
    values = as_array(given)  # type: ignore[arg-type]
    if values.dtype == np.bool_ or np.isin(values, (0, 1)).all():
        return values.astype(bool)
    if name == "mask" and values.dtype in (np.uint8, np.uint16):
        return np.asarray(values > np.iinfo(values.dtype).max // 2)
    hint = "True or 1 marks an observed pixel" if name == "known" else "True or white marks a pixel to fill"
    raise MaskError("the mask holds values other than 0 and 1", hint=hint)
