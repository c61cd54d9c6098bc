"""Date stamps and words laid over a picture: rows of sharp signs of one height and one colour."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from .ground import Bools, Floats, Ground, odd

LEAST = 0.12  # of full range: how far a sign stands out
TEXTURES = 2.5  # the same in units of the texture around it
SHORTEST, TALLEST = 5.0, 0.13  # working pixels; of the picture's height
WORKING_SIDE = 1024
FEWEST = 3  # signs in a row
ALIKE = 0.16  # of full range: how far apart the colours of neighbours in a row are at most
FEATURES = (
    *(
        "log_count",
        "height",
        "heights_std",
        "bottoms_std",
        "tops_std",
        "colours_std",
        "contrast",
        "contrast_over_texture",
    ),
    *("inside_std", "edge", "orange", "saturation", "border", "low", "company", "span", "ink", "extreme"),
)


@dataclass(frozen=True)
class Sign:
    """One connected component. box: x, y, width, height."""

    label: int
    box: tuple[int, int, int, int]
    colour: Floats
    sign: int
    numbers: tuple[float, ...]  # contrast, over texture, std inside, steepest slope, ink


@dataclass(frozen=True)
class Stamps:
    """Rows of signs. masks: (h, w) bool at the working size, one for each. features: (count, F)."""

    masks: list[Bools]
    features: Floats


def find_stamps(ground: Ground) -> Stamps:
    """Rows of at least three signs."""
    scale = min(1.0, WORKING_SIDE / max(ground.pixels.shape[:2]))
    if scale < 1:
        ground = Ground(
            np.asarray(cv2.resize(ground.pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA))
        )
    height = ground.pixels.shape[0]
    colours = ground.residual(odd(max(17.0, 0.07 * height)))
    residual = np.asarray(colours.mean(axis=-1), np.float32)
    strongest = np.take_along_axis(colours, np.abs(colours).argmax(axis=-1)[..., None], -1)[..., 0]
    texture = ground.texture(residual, odd(0.2 * height))
    signs, labels = [], np.zeros(residual.shape, np.int32)
    for sign in (1, -1):
        found, numbered = _signs(ground, sign * strongest, texture, sign, first=labels.max())
        signs += found
        labels = np.where(numbered > 0, numbered, labels)
    rows = _rows(signs)
    features = [_features(ground, row, len(rows)) for row in rows]
    masks = [_mask(labels, row, strongest) for row in rows]
    return Stamps(masks, np.asarray(features, np.float32).reshape(-1, len(FEATURES)))


def _signs(
    ground: Ground, rise: Floats, texture: Floats, sign: int, *, first: int
) -> tuple[list[Sign], np.ndarray]:
    high = (rise > np.maximum(LEAST, TEXTURES * texture)).astype(np.uint8)
    count, labels, stats, _ = cv2.connectedComponentsWithStats(high, connectivity=8)
    height = ground.pixels.shape[0]
    slope = np.hypot(
        cv2.Sobel(ground.light, -1, 1, 0, scale=0.25), cv2.Sobel(ground.light, -1, 0, 1, scale=0.25)
    )
    found = []
    for label in range(1, count):
        x, y, wide, tall, area = (int(value) for value in stats[label])
        if (
            tall < SHORTEST
            or tall > TALLEST * height
            or wide > 6 * tall
            or area < 6
            or area > 0.85 * wide * tall + 12
        ):
            continue
        here = labels[y : y + tall, x : x + wide] == label
        size = rise[y : y + tall, x : x + wide][here]
        core = size >= np.median(size)
        own = ground.pixels[y : y + tall, x : x + wide][here][core]
        around = texture[y + tall // 2, x + wide // 2]
        numbers = (
            float(size.mean()),
            float(size.mean() / around),
            float(own.std(axis=0).mean()),
            float(np.quantile(slope[y : y + tall, x : x + wide][here], 0.9) / size.mean()),
            area / (wide * tall),
        )
        found.append(Sign(first + label, (x, y, wide, tall), np.median(own, axis=0), sign, numbers))
    return found, np.where(labels > 0, labels + first, 0).astype(np.int32)


def _rows(signs: list[Sign]) -> list[list[Sign]]:
    """Join signs of one colour that stand beside each other; rows of FEWEST or more, none twice."""
    signs = sorted(signs, key=lambda one: one.box[0])
    group = list(range(len(signs)))

    def root(index: int) -> int:
        while group[index] != index:
            index = group[index]
        return index

    for i, one in enumerate(signs):
        for j in range(i + 1, len(signs)):
            if signs[j].box[0] > one.box[0] + one.box[2] + 2.5 * one.box[3]:
                break
            if _beside(one, signs[j]):
                group[root(j)] = root(i)
    rows: dict[int, list[Sign]] = {}
    for index, one in enumerate(signs):
        rows.setdefault(root(index), []).append(one)
    return [row for row in rows.values() if len(row) >= FEWEST]


def _beside(one: Sign, other: Sign) -> bool:
    (x, y, wide, tall), (x2, y2, _, tall2) = one.box, other.box
    gap = x2 - (x + wide)
    overlap = min(y + tall, y2 + tall2) - max(y, y2)
    return (
        one.sign == other.sign
        and -0.3 * tall <= gap <= 1.9 * max(tall, tall2)
        and overlap >= 0.6 * min(tall, tall2)
        and max(tall, tall2) <= 1.9 * min(tall, tall2)
        and float(np.abs(one.colour - other.colour).max()) <= ALIKE
    )


def _features(ground: Ground, row: list[Sign], rows: int) -> list[float]:
    height, width = ground.pixels.shape[:2]
    x, y, wide, tall = (np.asarray([one.box[k] for one in row], np.float64) for k in range(4))
    middle = float(np.median(tall))
    colours = np.stack([one.colour for one in row])
    contrast, over, inside, edge, ink = np.asarray([one.numbers for one in row]).mean(axis=0)
    red, green, blue = np.median(colours, axis=0)
    left, right, top, bottom = x.min(), (x + wide).max(), y.min(), (y + tall).max()
    border = min(left / width, 1 - right / width) + min(top / height, 1 - bottom / height)
    light = float(np.mean([red, green, blue]))
    return [
        np.log(len(row)),
        middle / height,
        float(tall.std() / middle),
        float((y + tall).std() / middle),
        float(y.std() / middle),
        float(colours.std(axis=0).mean()),
        contrast,
        over,
        inside,
        edge,
        float(red - blue) * (red > green > blue),
        float(max(red, green, blue) - min(red, green, blue)),
        float(border),
        bottom / height,
        np.log1p(rows),
        (right - left) / middle,
        ink,
        abs(light - 0.5),
    ]


def _mask(labels: np.ndarray, row: list[Sign], strongest: Floats) -> Bools:
    """The signs, and what is as strong between them: dots, strokes that are apart."""
    found = np.isin(labels, [one.label for one in row])
    left, top = min(one.box[0] for one in row), min(one.box[1] for one in row)
    right = max(one.box[0] + one.box[2] for one in row)
    bottom = max(one.box[1] + one.box[3] for one in row)
    inside = np.s_[top:bottom, left:right]
    found[inside] |= row[0].sign * strongest[inside] > 0.5 * LEAST
    return found
