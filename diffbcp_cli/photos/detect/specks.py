"""Dust: small specks that are lighter or darker than all around them, with an edge of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from .ground import Bools, Floats, Ground, odd

Labels = NDArray[np.int32]
LOW, HIGH = 2.2, 4.5  # of the texture around: where a speck ends, and what its middle reaches
LEAST = 0.045  # of full range: the absolute floor
LARGEST = 14.0  # units: the side of the largest speck
LONGEST = 60.0  # units: of a hair
FEATURES = (
    *(
        "log_area",
        "peak",
        "mean",
        "peak_over_texture",
        "mean_over_noise",
        "log_texture",
        "ring_std",
        "ring_residual",
    ),
    *("inside", "inside_colour", "ring_colour", "agreement", "edge", "extent", "fill", "polarity", "company"),
    *("strong_company", "headroom", "contrast_over_ring", "core_std", "clutter"),
)


@dataclass(frozen=True)
class Specks:
    """Candidates: labels (H, W), 0 for none, and features (count, F), row k - 1 of label k."""

    labels: Labels
    features: Floats


def find_specks(ground: Ground) -> Specks:
    """Connected places where the residual is large beside what is common around them."""
    side = odd(LARGEST * ground.unit * 1.2)
    colours = ground.residual(side)
    residual = np.asarray(colours.mean(axis=-1), np.float32)
    texture = ground.texture(residual, odd(24 * ground.unit))
    parts = [_candidates(sign * residual, texture, ground.unit) for sign in (1, -1)]
    first, second = parts
    labels = np.where(first > 0, first, np.where(second > 0, second + first.max(), 0)).astype(np.int32)
    return Specks(labels, _features(ground, labels, colours, residual, texture, int(first.max())))


def _candidates(rise: Floats, texture: Floats, unit: float) -> Labels:
    """Components above LOW that somewhere are above HIGH, no larger than a speck or a hair."""
    low = (rise > np.maximum(LOW * texture, 0.5 * LEAST)).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(low, connectivity=8)
    peak = np.zeros(count, np.float32)
    np.maximum.at(peak, labels.ravel(), (rise / np.maximum(HIGH * texture, LEAST)).ravel())
    extent = np.maximum(stats[:, cv2.CC_STAT_WIDTH], stats[:, cv2.CC_STAT_HEIGHT])
    thin = stats[:, cv2.CC_STAT_AREA] < 6 * unit * extent
    good = (peak > 1) & ((extent <= LARGEST * unit) | (thin & (extent <= LONGEST * unit)))
    good[0] = False
    number = np.zeros(count, np.int32)
    number[good] = np.arange(1, np.count_nonzero(good) + 1)
    return number[labels]


def _features(
    ground: Ground, labels: Labels, colours: Floats, residual: Floats, texture: Floats, rising: int
) -> Floats:
    """The numbers of FEATURES, of each label, (count, F)."""
    count = int(labels.max())
    if not count:
        return np.zeros((0, len(FEATURES)), np.float32)
    found = _own(ground, labels, colours, residual, texture)
    found |= _around(ground, labels, residual, texture)
    sign = np.where(np.arange(1, count + 1) <= rising, 1.0, -1.0).astype(np.float32)
    level, beside, mean = found["inside"], found["beside"], found["mean"]
    room = np.where(sign > 0, 1 - beside, beside)
    found |= {
        "polarity": sign,
        "headroom": np.asarray(mean / np.maximum(room, 0.05), np.float32),
        "contrast_over_ring": np.abs(level - beside) / (found["ring_std"] + np.float32(ground.noise)),
    }
    share, strong = _company(labels, labels > 0, labels[labels > 0], count, ground.unit)
    found |= {"company": share, "strong_company": strong}
    return np.stack([found[name] for name in FEATURES], axis=-1).astype(np.float32)


def _own(
    ground: Ground, labels: Labels, colours: Floats, residual: Floats, texture: Floats
) -> dict[str, Floats]:
    """Size, contrast, colour and sharpness of each label."""
    count, inside = int(labels.max()), labels > 0
    flat, size, light = labels[inside], np.abs(residual), ground.light

    def mean(values: NDArray[Any]) -> Floats:
        return _mean(flat, values[inside], count)

    area = np.bincount(flat, minlength=count + 1)[1:].astype(np.float32)
    peak = _most(size, inside, flat, count)
    extent = np.maximum(*_extents(labels, count))
    middle, rough, level = mean(size), mean(texture), mean(light)
    slope = np.hypot(cv2.Sobel(light, -1, 1, 0, scale=0.25), cv2.Sobel(light, -1, 0, 1, scale=0.25))
    return {
        "log_area": np.log(area / ground.unit**2),
        "peak": peak,
        "mean": middle,
        "peak_over_texture": peak / rough,
        "mean_over_noise": middle / ground.noise / 10,
        "log_texture": np.log(rough),
        "inside": level,
        "inside_colour": mean(_spread(ground.pixels)),
        "agreement": mean(np.abs(colours - residual[..., None]).max(axis=-1)) / middle,
        "edge": _most(slope, inside, flat, count) / peak,
        "extent": np.log(extent / ground.unit),
        "fill": area / extent**2,
        "core_std": np.sqrt(np.maximum(mean(light**2) - level**2, 0)),
    }


def _around(ground: Ground, labels: Labels, residual: Floats, texture: Floats) -> dict[str, Floats]:
    """What lies 1 to 3 pixels beyond each label."""
    count = int(labels.max())
    near = _ring(labels, labels > 0, 1 + round(ground.unit))
    ring = near > 0
    size, light = np.abs(residual), ground.light

    def around(values: NDArray[Any]) -> Floats:
        return _mean(near[ring], values[ring], count)

    beside = around(light)
    return {
        "beside": beside,
        "ring_std": np.sqrt(np.maximum(around(light**2) - beside**2, 0)),
        "ring_residual": around(size),
        "ring_colour": around(_spread(ground.pixels)),
        "clutter": around((size > LOW * texture).astype(np.float32)),
    }


def _spread(pixels: Floats) -> Floats:
    """How far the channels of a pixel are apart, (H, W)."""
    return np.asarray(pixels.max(axis=-1) - pixels.min(axis=-1), np.float32)


def _most(values: NDArray[Any], inside: Bools, flat: NDArray[np.int32], count: int) -> Floats:
    """The largest value of each label, (count,)."""
    most = np.zeros(count + 1, np.float32)
    np.maximum.at(most, flat, values[inside])
    return most[1:]


def _ring(labels: Labels, inside: Bools, reach: int) -> Labels:
    """What lies 1 to 3 pixels beyond each label."""
    grown = labels.astype(np.float32)
    inner = cv2.dilate(grown, np.ones((3, 3), np.uint8))
    outer = cv2.dilate(inner, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1)))
    return np.where((inner == 0) & ~inside, outer, 0).astype(np.int32)


def _mean(flat: NDArray[np.int32], values: NDArray[Any], count: int) -> Floats:
    total = np.bincount(flat, values, minlength=count + 1)[1 : count + 1]
    number = np.bincount(flat, minlength=count + 1)[1 : count + 1]
    return np.asarray(total / np.maximum(number, 1), np.float32)


def _extents(labels: Labels, count: int) -> tuple[Floats, Floats]:
    """Height and width of the box around each label."""
    rows, columns = np.nonzero(labels)
    flat = labels[rows, columns]
    sizes = []
    for place in (rows, columns):
        low, high = np.full(count + 1, 10**9), np.zeros(count + 1, np.int64)
        np.minimum.at(low, flat, place)
        np.maximum.at(high, flat, place)
        sizes.append((high - low + 1)[1:].astype(np.float32))
    return sizes[0], sizes[1]


def _company(
    labels: Labels, inside: Bools, flat: NDArray[np.int32], count: int, unit: float
) -> tuple[Floats, Floats]:
    """The share of the surroundings that candidates cover; and how many there are, in logs."""
    box = odd(48 * unit)
    cover = cv2.blur(inside.astype(np.float32), (box, box), borderType=cv2.BORDER_REFLECT)
    share = _mean(flat, cover[inside], count)
    marks = np.zeros(labels.shape, np.float32)
    middle = np.zeros((count + 1, 2))
    rows, columns = np.nonzero(labels)
    for axis, place in enumerate((rows, columns)):
        middle[1:, axis] = np.bincount(flat, place, minlength=count + 1)[1:] / np.maximum(
            np.bincount(flat, minlength=count + 1)[1:], 1
        )
    points = np.rint(middle[1:]).astype(np.int64)
    marks[points[:, 0], points[:, 1]] += 1
    number = cv2.blur(marks, (box, box), borderType=cv2.BORDER_REFLECT) * box * box
    return share, np.log1p(number[points[:, 0], points[:, 1]]).astype(np.float32)
