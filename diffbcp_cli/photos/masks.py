"""Which entries of a photograph are known. Inside the program a mask is boolean, True = observed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Literal

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import InputError, MaskError, UsageError, typed
from . import files
from .codecs.decode import decode, load_array
from .photo import MAX_PIXELS, Floats, Photo, read_bytes

Bools = NDArray[np.bool_]
Polarity = Literal["white-fills", "white-keeps"]

ALPHA, AUTO = "alpha", "auto"
_NEAR = 3  # levels of 255 that still count as the same value
_BLANK = 0.95  # share of near-equal values that makes a region blank
_VARIED = 0.5  # share below which a region has a content of its own
_MOSTLY = 0.6  # share to fill above which a mask with large holes is doubted
_LARGE = 1 / 8  # of the shorter side: how far inside a hole is far


def read_mask(
    source: Path | str, photo: Photo, *, polarity: Polarity = "white-fills", max_pixels: int = MAX_PIXELS
) -> Bools:
    """Return the observed entries (H, W, C) of `photo`, True = observed.

    source: an image file, where white (above half range) is to be filled, each channel on its own in an RGB
    file, and alpha is ignored; or a `.npy` array (H, W) or (H, W, C) of 0 and 1, 1 = observed, whatever the
    polarity; or "alpha", the photo's own transparency, where a mostly transparent pixel is to be filled.
    A grey photo takes an RGB mask only if its channels agree.
    """
    if str(source) == ALPHA:
        observed = observed_by_alpha(photo)
    else:
        observed = read_alone(Path(source), polarity=polarity, max_pixels=max_pixels)
    return check_mask(_fit(observed, photo), photo)


def read_alone(path: Path, *, polarity: Polarity = "white-fills", max_pixels: int = MAX_PIXELS) -> Bools:
    """Return what the file of a mask says, (H, W, C), whatever photograph it is for; C is 1 or 3."""
    if path.suffix.lower() == ".npy":
        return _read_array(path)
    return _read_image(path, polarity, max_pixels)


def write_mask(path: Path, observed: Bools) -> Path:
    """Write observed entries (H, W) or (H, W, C), C = 1 or 3, and return `path`.

    `.png`: white = to be filled, grey where the channels agree, RGB otherwise. `.npy`: True = observed.
    """
    path = Path(path)
    entries = observed.reshape(*observed.shape[:2], -1)
    if (entries == entries[..., :1]).all():
        entries = entries[..., 0]
    file = io.BytesIO()
    if path.suffix.lower() == ".png":
        Image.fromarray(np.where(entries, 0, 255).astype(np.uint8)).save(file, "PNG")
    elif path.suffix.lower() == ".npy":
        np.save(file, entries, allow_pickle=False)
    else:
        raise UsageError(f"a mask cannot be written to {path}", hint="name it .png or .npy")
    return files.write_bytes(path, file.getvalue())


def missing_share(observed: Bools) -> float:
    """Return the share of entries that will be filled."""
    return 1.0 - np.count_nonzero(observed) / observed.size


def describe(observed: Bools) -> str:
    """Say what share of (H, W, C) will be filled, in words for the user."""
    what = "pixels" if (observed == observed[..., :1]).all() else "entries"
    return f"{100 * missing_share(observed):.1f} % of the {what} will be filled"


def observed_by_alpha(photo: Photo) -> Bools:
    """Return the pixels (H, W, 1) that are not mostly transparent."""
    if photo.alpha is None:
        raise MaskError(
            f"{photo.name} has no transparency to take the mask from",
            hint="give a mask file: --mask mask.png",
        )
    return np.asarray(photo.alpha >= 0.5)[..., None]


def observed_by_finite(photo: Photo) -> Bools:
    """Return the entries (H, W, C) that are neither NaN nor infinite."""
    return np.isfinite(photo.pixels)


def check_mask(observed: Bools, photo: Photo) -> Bools:
    """Refuse a mask (H, W, C) that keeps no pixel or fills none; return it otherwise."""
    if not observed.any():
        raise MaskError(
            f"the mask marks every pixel of {photo.name}: nothing is left to restore it from",
            hint="white is filled and black is kept; --mask-polarity white-keeps swaps them",
        )
    if observed.all():
        raise MaskError(
            f"the mask marks no pixel of {photo.name}: there is nothing to fill",
            hint=f"paint what is missing white, or remove noise only: diffbcp denoise {typed(photo.path)}",
        )
    return observed


def check_finite(photo: Photo, observed: Bools) -> None:
    """Refuse NaN and infinity among the observed entries (H, W, C)."""
    bad = int(np.count_nonzero(~np.isfinite(photo.pixels) & observed))
    if bad:
        entries = "value" if bad == 1 else "values"
        raise InputError(
            f"{photo.name} has {bad} {entries} outside the mask that are NaN or infinite",
            hint=f"mark them as missing: diffbcp mask from {typed(photo.path)} --nan -o mask.png",
        )


def looks_inverted(observed: Bools, photo: Photo) -> str | None:
    """Say why the mask (H, W, C) may be the wrong way round for `photo`, or return None.

    Damage tends to be blank: one value, NaN or transparent. So a mask is doubtful if it keeps the blank part and
    fills the varied one, or if it fills large areas of an undamaged picture.
    """
    kept, filled = observed, ~observed
    if not kept.any() or not filled.any():
        return None
    reason = (
        _keeps_non_finite(photo, kept)
        or _keeps_transparent(photo, kept)
        or _keeps_blank(photo.pixels, kept, filled)
        or _fills_most(photo.pixels, filled)
    )
    if reason is None:
        return None
    return f"the mask looks inverted: {reason} (--mask-polarity says what white means)"


def _read_image(path: Path, polarity: Polarity, max_pixels: int) -> Bools:
    raster = decode(read_bytes(path), path.name, max_pixels=max_pixels)
    colours = 3 if raster.samples.shape[2] >= 3 else 1
    samples = raster.samples[..., :colours]
    if samples.dtype.kind == "f":
        if not np.isfinite(samples).all() or samples.min() < 0 or samples.max() > 1:
            raise MaskError(f"{path.name} has values outside 0..1", hint="save the mask as an 8-bit PNG")
        white = samples > 0.5
    else:
        white = samples > np.iinfo(samples.dtype).max // 2
    return white if polarity == "white-keeps" else ~white


def load_mask(path: Path) -> Bools:
    """The array of a mask file, of any shape: True = observed."""
    try:
        stored = load_array(read_bytes(path))
    except ValueError as error:
        raise MaskError(f"{path.name} is not a .npy array", hint="save it with numpy.save") from error
    numbers = stored.dtype.kind in "biuf"
    observed: Bools = stored.astype(bool) if numbers else np.zeros(stored.shape, bool)
    if not numbers or not np.array_equal(observed, stored):
        raise MaskError(
            f"{path.name} has values other than 0 and 1", hint="save booleans: 1 = observed, 0 = missing"
        )
    return observed


def _read_array(path: Path) -> Bools:
    observed = load_mask(path)
    if observed.ndim not in (2, 3) or not observed.size:
        raise MaskError(
            f"{path.name} has shape {observed.shape}", hint="save (height, width), 1 = observed, 0 = missing"
        )
    return observed.reshape(*observed.shape[:2], -1)


def _fit(observed: Bools, photo: Photo) -> Bools:
    """Bring a mask (H, W, 1 or C) to the shape of the photo's pixels."""
    height, width, count = observed.shape
    if (height, width) != (photo.height, photo.width):
        raise MaskError(
            f"the mask is {width}x{height} but {photo.name} is {photo.width}x{photo.height}",
            hint=f"scale it to {photo.width}x{photo.height}, or paint it on the photograph: "
            f"diffbcp open {typed(photo.path)}",
        )
    if count not in (1, 3):
        raise MaskError(f"the mask has {count} channels", hint="save one channel, or three for RGB")
    if count > photo.channels:
        if not (observed == observed[..., :1]).all():
            raise MaskError(
                f"the mask has colours but {photo.name} is grey", hint="save the mask as a grey picture"
            )
        observed = observed[..., :1]
    return np.ascontiguousarray(np.broadcast_to(observed, photo.pixels.shape))


def _keeps_non_finite(photo: Photo, kept: Bools) -> str | None:
    bad = ~np.isfinite(photo.pixels)
    if np.count_nonzero(bad & kept) > 0.5 * np.count_nonzero(kept) and not (bad & ~kept).any():
        return "what it keeps is NaN, and what it fills is not"
    return None


def _keeps_transparent(photo: Photo, kept: Bools) -> str | None:
    if photo.alpha is None:
        return None
    pixels = kept.any(axis=-1)
    if pixels.all() or photo.alpha[pixels].mean() > 1 - _BLANK or photo.alpha[~pixels].mean() < _BLANK:
        return None
    return "what it keeps is transparent, and what it fills is not"


def _keeps_blank(pixels: Floats, kept: Bools, filled: Bools) -> str | None:
    if _evenness(pixels, kept) > _BLANK and _evenness(pixels, filled) < _VARIED:
        return "what it keeps is blank, and what it fills is not"
    return None


def _fills_most(pixels: Floats, filled: Bools) -> str | None:
    holes: Bools = np.asarray(filled.all(axis=-1))
    if holes.mean() < _MOSTLY or _evenness(pixels, filled) >= _VARIED:
        return None
    # Scattered missing pixels have a known one close by; the outside of a scratch has not.
    depth = float(cv2.distanceTransform(holes.astype(np.uint8), cv2.DIST_L2, 3).max())
    if depth < _LARGE * min(holes.shape):
        return None
    return f"it fills {holes.mean():.0%} of a picture that does not look damaged there"


def _evenness(pixels: Floats, where: Bools) -> float:
    """Return the share of entries near the commonest value, in the channel where it is least."""
    shares = []
    for channel in range(pixels.shape[2]):
        values = pixels[..., channel][where[..., channel]]
        values = values[np.isfinite(values)]
        if not values.size:
            continue
        counts = np.bincount(np.rint(values.clip(0, 1) * 255).astype(np.int64), minlength=256)
        common = int(counts.argmax())
        shares.append(counts[max(common - _NEAR, 0) : common + _NEAR + 1].sum() / values.size)
    return float(min(shares, default=1.0))
