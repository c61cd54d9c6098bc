"""Scratches and folds: long thin lines, found by sums along them and followed from the strongest place.

A scratch of 1.3 standard deviations a pixel drowns in the noise, and stands out by 16 along 150 pixels of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from ..paint import joined
from .ground import Bools, Floats, Ground, odd

Path = NDArray[np.float32]
ANGLES = 36
WORKING_SIDE = 640  # working pixels: the longer side of what is summed
CUT = 2.5  # the most that one pixel adds, in units of the texture around it
END, SEED = 0.55, 0.9  # mean of the cut residual along a line: where it ends, and what its best part reaches
STEP, GAPS = 3.0, 4  # working pixels from point to point; points that may be missing in between
MOST = 40  # lines of one kind
FEATURES = (
    *(
        "log_length",
        "length_of_side",
        "score",
        "best",
        "contrast",
        "contrast_over_noise",
        "log_texture",
        "covered",
    ),
    *("steady", "polarity", "upright", "on_axis", "background_std", "step", "colour", "own_colour", "bend"),
    *("width", "borders", "parallel", "company", "headroom", "background", "beside_residual"),
)


@dataclass(frozen=True)
class Kind:
    """What is looked for. reach: units of the median's window; length: working pixels of the sums.

    beside: working pixels from a line to what it is compared with.
    """

    name: str
    reach: float
    length: int
    shortest: float
    beside: int


SCRATCH = Kind("scratch", 9, 31, 24, 4)
FOLD = Kind("fold", 31, 81, 100, 9)


@dataclass(frozen=True)
class Lines:
    """Candidates of one kind. paths: points (n, 2) of x, y at full size. features: (count, F)."""

    kind: Kind
    paths: list[Path]
    features: Floats
    signs: list[int]


@dataclass(frozen=True)
class Sheet:
    """The picture at the working size: residual, texture, colours; and the sums (ANGLES, h, w) along lines."""

    residual: Floats
    colours: Floats
    texture: Floats
    calm: Floats
    sums: Floats
    noise: float


def find_lines(ground: Ground, kind: Kind) -> Lines:
    """Lines, the strongest first; each is erased before the next is looked for."""
    colours = ground.residual(odd(kind.reach * ground.unit))
    residual = np.asarray(colours.mean(axis=-1), np.float32)
    texture = ground.texture(residual, odd(40 * ground.unit))
    scale = min(1.0, WORKING_SIDE / max(residual.shape))
    cut = _smaller(np.clip(residual / texture, -CUT, CUT), scale)
    sheet = Sheet(
        _smaller(residual, scale),
        _smaller(colours, scale),
        _smaller(texture, scale),
        _smaller(ground.pixels - colours, scale),
        _sums(cut, kind),
        ground.noise,
    )
    found = _trace_all(sheet.sums, kind)
    rows = [_features(sheet, path, sign) for path, sign in found]
    features = np.asarray(rows, np.float32).reshape(-1, len(FEATURES))
    _company(features, [path for path, _ in found])
    return Lines(kind, [(path + 0.5) / scale - 0.5 for path, _ in found], features, [s for _, s in found])


def _smaller(values: Floats, scale: float) -> Floats:
    if scale == 1.0:
        return values
    return np.asarray(cv2.resize(values, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA), np.float32)


def _sums(cut: Floats, kind: Kind) -> Floats:
    """Mean of `cut` (h, w) along lines in each direction, less the same beside it if that has the same sign."""
    found = np.empty((ANGLES, *cut.shape), np.float32)
    for index in range(ANGLES):
        angle = math.pi * index / ANGLES
        along = cv2.filter2D(cut, -1, _line(kind.length, angle), borderType=cv2.BORDER_CONSTANT)
        across = (-kind.beside * math.sin(angle), kind.beside * math.cos(angle))
        one, other = _shifted(along, *across), _shifted(along, -across[0], -across[1])
        rise = along - np.maximum(np.maximum(one, other), 0)
        fall = along - np.minimum(np.minimum(one, other), 0)
        found[index] = np.where(along > 0, rise.clip(0), fall.clip(None, 0))
    return found


def _line(length: int, angle: float) -> Floats:
    kernel = np.zeros((length + 2, length + 2), np.uint8)
    reach = length // 2
    middle = reach + 1
    ends = [(middle + s * reach * math.cos(angle), middle + s * reach * math.sin(angle)) for s in (-1, 1)]
    first, last = ((round(8 * x), round(8 * y)) for x, y in ends)
    cv2.line(kernel, first, last, 255, 1, cv2.LINE_AA, 3)
    return np.asarray(kernel / kernel.sum(dtype=np.float64), np.float32)


def _shifted(values: NDArray[Any], dx: float, dy: float) -> Floats:
    matrix = np.asarray([[1, 0, dx], [0, 1, dy]], np.float32)
    size = (values.shape[1], values.shape[0])
    return np.asarray(cv2.warpAffine(values, matrix, size, borderMode=cv2.BORDER_REPLICATE), np.float32)


def _trace_all(sums: Floats, kind: Kind) -> list[tuple[Path, int]]:
    found: list[tuple[Path, int]] = []
    left = sums.copy()
    best = np.abs(left).max(axis=0)
    for _ in range(4 * MOST):
        y, x = (int(place) for place in np.unravel_index(int(best.argmax()), best.shape))
        if best[y, x] < SEED or len(found) >= MOST:
            break
        index = int(np.abs(left[:, y, x]).argmax())
        sign = 1 if left[index, y, x] > 0 else -1
        one = _follow(left, x, y, index, sign, 1)
        other = _follow(left, x, y, index, sign, -1)
        path = np.asarray([*other[::-1], (x, y), *one], np.float32)
        _erase(left, best, path)
        if float(np.hypot(*(path[-1] - path[0]))) >= kind.shortest:
            found.append((path, sign))
    return found


def _follow(sums: Floats, x: float, y: float, index: int, sign: int, way: int) -> list[tuple[float, float]]:
    """Points from (x, y) on, in the direction `index`, which may turn by one step in each."""
    height, width = sums.shape[1:]
    points: list[tuple[float, float]] = []
    missed = 0
    while missed <= GAPS:
        choices = []
        for turn in (-1, 0, 1):
            angle = math.pi * (index + turn) / ANGLES
            nx, ny = x + way * STEP * math.cos(angle), y + way * STEP * math.sin(angle)
            if not (0 <= nx <= width - 1 and 0 <= ny <= height - 1):
                continue
            # the sum runs along a line of either direction; past half a turn the way is reversed
            value = sign * float(sums[(index + turn) % ANGLES, round(ny), round(nx)])
            choices.append((value - 0.02 * abs(turn), nx, ny, index + turn))
        if not choices:
            break
        value, x, y, index = max(choices)
        missed = 0 if value > END else missed + 1
        points.append((x, y))
    return points[: len(points) - missed] if missed else points


def _erase(sums: Floats, best: Floats, path: Path) -> None:
    """Forget what is within 5 pixels of the path and runs about along it; what crosses it stays."""
    near = np.zeros(best.shape, np.uint8)
    cv2.polylines(near, [np.rint(path).astype(np.int32)], False, 1, 11)
    step = path[-1] - path[0]
    index = round(math.atan2(step[1], step[0]) / math.pi * ANGLES)
    if len(path) < 3:
        sums[:, near > 0] = 0
    else:
        for turn in range(-6, 7):
            sums[(index + turn) % ANGLES][near > 0] = 0
    best[near > 0] = np.abs(sums[:, near > 0]).max(axis=0)


def _profile(values: Floats, path: Path, normal: Path, offset: float) -> Floats:
    x, y = np.moveaxis(path + offset * normal, -1, 0)[..., None]
    found = cv2.remap(values, x, y, cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(found[:, 0], np.float32)


def _features(sheet: Sheet, path: Path, sign: int) -> list[float]:
    """The numbers of FEATURES, of one line."""
    tangent = np.gradient(path, axis=0)
    tangent /= np.maximum(np.hypot(*tangent.T), 1e-6)[:, None]
    normal = np.ascontiguousarray(np.stack([-tangent[:, 1], tangent[:, 0]], -1), np.float32)
    found = {"polarity": float(sign), "parallel": 0.0, "company": 0.0, **_shape(sheet, path)}
    found |= _contrast(sheet, path, normal, sign)
    height, width = sheet.residual.shape
    indices = np.rint(np.arctan2(tangent[:, 1], tangent[:, 0]) / math.pi * ANGLES).astype(int) % ANGLES
    columns, rows = np.rint(path).astype(int).T
    sums = sign * sheet.sums[indices, rows.clip(0, height - 1), columns.clip(0, width - 1)]
    found |= {"score": float(sums.mean()), "best": float(sums.max())}
    return [found[name] for name in FEATURES]


def _shape(sheet: Sheet, path: Path) -> dict[str, float]:
    """How long, how straight, which way, and whether it ends at the picture's border."""
    chord = path[-1] - path[0]
    length = float(np.hypot(*chord)) + 1e-3
    off = np.abs((path - path[0]) @ np.asarray([-chord[1], chord[0]])) / length
    size = np.asarray(sheet.residual.shape[::-1])
    angle = math.atan2(chord[1], chord[0])
    return {
        "log_length": math.log(length),
        "length_of_side": length / float(size.max()),
        "upright": abs(math.sin(angle)),
        "on_axis": abs(math.sin(2 * angle)),
        "bend": float(off.max() / length),
        "borders": float(sum(bool((end < 8).any() or (end > size - 8).any()) for end in (path[0], path[-1]))),
    }


def _contrast(sheet: Sheet, path: Path, normal: Path, sign: int) -> dict[str, float]:
    """How it stands out from what lies beside it, and what that is."""
    across = sign * np.stack([_profile(sheet.residual, path, normal, k) for k in range(-6, 7)])  # (13, n)
    centre, profile = across[4:9].max(axis=0), across.mean(axis=1)
    mean = float(np.clip(centre, 0, None).mean()) + 1e-4
    texture = _profile(sheet.texture, path, normal, 0)
    calm = np.stack([_profile(sheet.calm, path, normal, k) for k in (-5, 5)])  # (2, n, 3)
    light = calm.mean(axis=(0, 2))
    own = sign * _profile(sheet.colours, path, normal, 0).mean(axis=0)
    room = float(np.mean(1 - light if sign > 0 else light))
    return {
        "contrast": mean,
        "contrast_over_noise": mean / sheet.noise / 10,
        "log_texture": math.log(float(texture.mean())),
        "covered": float((centre > texture).mean()),
        "steady": float(centre.std() / mean),
        "background_std": float(light.std()),
        "step": float(np.abs(calm[0] - calm[1]).mean() / mean),
        "colour": float((calm.max(axis=-1) - calm.min(axis=-1)).mean()),
        "own_colour": float((own.max() - own.min()) / mean),
        "width": float((profile > 0.5 * profile.max()).sum()),
        "headroom": mean / max(room, 0.05),
        "background": float(light.mean()),
        "beside_residual": float(np.abs(across[[0, 1, 11, 12]]).mean() / mean),
    }


def _company(features: Floats, paths: list[Path]) -> None:
    """How many candidates run the same way, and how many there are."""
    if not paths:
        return
    chords = np.stack([path[-1] - path[0] for path in paths])
    angles = np.arctan2(chords[:, 1], chords[:, 0])
    same = np.abs(np.sin(angles[:, None] - angles)) < 0.12
    features[:, FEATURES.index("parallel")] = np.log1p(same.sum(axis=1) - 1)
    features[:, FEATURES.index("company")] = math.log1p(len(paths))


def draw_lines(ground: Ground, lines: Lines, chosen: Sequence[bool] | NDArray[np.bool_]) -> Bools:
    """Where the chosen lines are, (H, W): their paths, and what beside them stands out as they do."""
    residual = np.asarray(ground.residual(odd(lines.kind.reach * ground.unit)).mean(axis=-1), np.float32)
    texture = ground.texture(residual, odd(40 * ground.unit))
    found = np.zeros(residual.shape, bool)
    reach = lines.kind.reach / 2 * ground.unit
    for path, sign, features, good in zip(lines.paths, lines.signs, lines.features, chosen, strict=True):
        if not good:
            continue
        points = [np.rint(path * 8).astype(np.int32)]
        near, core = np.zeros(found.shape, np.uint8), np.zeros(found.shape, np.uint8)
        cv2.polylines(near, points, False, 1, round(2 * reach + 1), shift=3)
        cv2.polylines(core, points, False, 1, max(1, round(ground.unit)), shift=3)
        least = np.maximum(0.3 * features[FEATURES.index("contrast")], 1.2 * texture)
        stands_out = (near > 0) & (sign * residual > least)
        found |= joined(core > 0, stands_out)
    return found
