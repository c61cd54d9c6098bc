"""Made scans: a clean photograph in grey, sepia or colour, with dust, scratches, folds and stamps drawn over it.

Every number is drawn from the generator, over wide ranges: no two scans are damaged in the same way.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from PIL import Image

Alpha = NDArray[np.float32]
Pixels = NDArray[np.float32]
KINDS = ("dust", "scratch", "fold", "text")
TONES = ("colour", "grey", "sepia")
_VISIBLE = 5 / 255  # a change that counts as damage
_FONTS = (cv2.FONT_HERSHEY_SIMPLEX, cv2.FONT_HERSHEY_DUPLEX, cv2.FONT_HERSHEY_PLAIN, cv2.FONT_HERSHEY_COMPLEX)
_SEGMENTS = ("abcdef", "bc", "abdeg", "abcdg", "bcfg", "acdfg", "acdefg", "abc", "abcdefg", "abcdfg")


@dataclass
class Scan:
    """pixels: (H, W, 3) of [0, 1] as an 8-bit file holds them. clean: without the damage.

    damage: (H, W) bool by kind, where it changed a pixel visibly.
    """

    clean: Pixels
    pixels: Pixels
    damage: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def any_damage(self) -> NDArray[np.bool_]:
        """(H, W), all kinds together."""
        found = np.zeros(self.pixels.shape[:2], bool)
        for one in self.damage.values():
            found |= one
        return found


def make_scan(
    picture: Pixels, kinds: tuple[str, ...], *, tone: str, quality: int | None, rng: Generator
) -> Scan:
    """Damage a picture (H, W, 3) of [0, 1]; quality: of the JPEG file, None for PNG."""
    clean = toned(picture, tone)
    scan = Scan(clean, clean.copy())
    for kind in kinds:
        before = scan.pixels.copy()
        _DRAW[kind](scan, tone, rng)
        scan.damage[kind] = (np.abs(scan.pixels - before).max(axis=-1)) > _VISIBLE
    grain = rng.choice([0.0, rng.uniform(0, 0.02)])
    noise = grain * rng.standard_normal(clean.shape[:2] if tone != "colour" else clean.shape)
    noise = noise[..., None] if noise.ndim == 2 else noise
    scan.pixels = stored((scan.pixels + noise).astype(np.float32), quality)
    scan.clean = stored((clean + noise).astype(np.float32), quality)
    return scan


def toned(picture: Pixels, tone: str) -> Pixels:
    """The picture in colour, in grey, or in brown."""
    if tone == "colour":
        return picture
    grey = (picture @ np.asarray([0.299, 0.587, 0.114], np.float32))[..., None]
    if tone == "grey":
        return np.repeat(grey, 3, axis=-1)
    dark, light = np.asarray([0.13, 0.08, 0.04]), np.asarray([0.98, 0.92, 0.78])
    return (dark + (light - dark) * grey).astype(np.float32)


def stored(pixels: Pixels, quality: int | None) -> Pixels:
    """What an 8-bit file gives back."""
    levels = np.rint(pixels.clip(0, 1) * 255).astype(np.uint8)
    if quality is not None:
        file = io.BytesIO()
        Image.fromarray(levels).save(file, "JPEG", quality=quality)
        levels = np.asarray(Image.open(file).convert("RGB"))
    return levels.astype(np.float32) / 255


def blend(scan: Scan, alpha: Alpha, colour: Pixels | tuple[float, ...]) -> None:
    """Lay a colour over the scan, as thick as alpha (H, W) says."""
    left, top, width, height = cv2.boundingRect((alpha > 1e-3).astype(np.uint8))
    here = np.s_[top : top + height, left : left + width]
    cover = alpha[here][..., None].clip(0, 1)
    scan.pixels[here] += cover * (np.asarray(colour, np.float32) - scan.pixels[here])


def _tint(tone: str, level: float, rng: Generator) -> tuple[float, ...]:
    """Near white or black; a little off grey where the scan has colours."""
    spread = {"colour": 0.04, "grey": 0.0, "sepia": 0.02}[tone]
    return tuple(float(np.clip(level + spread * rng.standard_normal(), 0, 1)) for _ in range(3))


def _level(rng: Generator, white: float) -> float:
    return rng.uniform(0.85, 1.0) if rng.random() < white else rng.uniform(0.0, 0.15)


def draw_dust(scan: Scan, tone: str, rng: Generator) -> None:
    """Specks of any outline, and a few hairs."""
    height, width = scan.pixels.shape[:2]
    scale = math.sqrt(height * width) / 256
    white = float(rng.choice([0.05, 0.5, 0.95, 1.0]))
    soft = rng.uniform(0.3, 0.9)
    for _ in range(int(rng.integers(6, 50) * max(1, scale))):
        radius = float(rng.choice([0.6, 1, 1.5, 2, 3, 4], p=[0.1, 0.25, 0.3, 0.2, 0.1, 0.05]))
        radius *= max(1.0, scale**0.5)
        x, y = rng.uniform(0, width), rng.uniform(0, height)
        dab = cv2.GaussianBlur(_blob(x % 1, y % 1, radius, rng), (0, 0), soft) * rng.uniform(0.6, 1.0)
        _dab(scan, dab, int(x), int(y), _tint(tone, _level(rng, white), rng))
    for _ in range(int(rng.integers(0, 4))):
        alpha = _curve(height, width, rng.uniform(10, 40) * scale**0.5, rng, bend=0.25)
        alpha = cv2.GaussianBlur(alpha, (0, 0), 0.5)
        blend(scan, alpha * rng.uniform(0.6, 1.0), _tint(tone, _level(rng, white), rng))


def _dab(scan: Scan, alpha: Alpha, x: int, y: int, colour: tuple[float, ...]) -> None:
    """Blend a small square with its middle at (x, y)."""
    reach = alpha.shape[0] // 2
    height, width = scan.pixels.shape[:2]
    top, left = max(0, y - reach), max(0, x - reach)
    here = np.s_[top : min(height, y + reach + 1), left : min(width, x + reach + 1)]
    cover = alpha[top - y + reach :, left - x + reach :][: height - top, : width - left, None]
    scan.pixels[here] += cover * (np.asarray(colour, np.float32) - scan.pixels[here])


def _blob(x: float, y: float, radius: float, rng: Generator) -> Alpha:
    """An irregular outline around (x, y) of the middle pixel, drawn with 3 bits below the pixel."""
    angles = np.linspace(0, 2 * math.pi, 10, endpoint=False)
    radii, reach = radius * rng.uniform(0.6, 1.3, 10), math.ceil(1.4 * radius) + 4
    points = reach + np.stack([x + radii * np.cos(angles), y + radii * np.sin(angles)], -1)
    canvas = np.zeros((2 * reach + 1, 2 * reach + 1), np.uint8)
    cv2.fillPoly(canvas, [np.rint(points * 8).astype(np.int32)], 255, cv2.LINE_AA, 3)
    return canvas.astype(np.float32) / 255


def _curve(height: int, width: int, length: float, rng: Generator, *, bend: float) -> Alpha:
    steps = max(3, int(length / 4))
    angles = rng.uniform(0, 2 * math.pi) + np.cumsum(rng.normal(0, bend, steps))
    points = np.stack(
        [
            rng.uniform(0, width) + np.cumsum(np.cos(angles)) * length / steps,
            rng.uniform(0, height) + np.cumsum(np.sin(angles)) * length / steps,
        ],
        -1,
    )
    canvas = np.zeros((height, width), np.uint8)
    cv2.polylines(canvas, [np.rint(points * 8).astype(np.int32)], False, 255, 1, cv2.LINE_AA, 3)
    return canvas.astype(np.float32) / 255


def draw_scratches(scan: Scan, tone: str, rng: Generator) -> None:
    """Long thin lines, most of them upright, some broken, some faint."""
    height, width = scan.pixels.shape[:2]
    longest = max(height, width)
    upright = rng.random() < 0.7
    white = float(rng.choice([0.1, 0.9, 1.0]))
    for _ in range(int(rng.integers(1, 7))):
        length = rng.uniform(0.25, 1.1) * longest
        steps = max(4, round(length / 15))
        start = rng.normal(math.pi / 2, 0.12) if upright else rng.uniform(0, 2 * math.pi)
        angles = start + np.cumsum(rng.normal(0, rng.choice([0.0, 0.01, 0.04]), steps))
        x = rng.uniform(0, width) + np.cumsum(np.cos(angles)) * length / steps
        y = rng.uniform(-0.2, 0.7) * height + np.cumsum(np.sin(angles)) * length / steps
        points = np.stack([x, y], -1)
        wide = int(rng.choice([1, 2, 3], p=[0.5, 0.35, 0.15]) * max(1.0, (longest / 512) ** 0.5))
        canvas = np.zeros((height, width), np.uint8)
        cv2.polylines(canvas, [np.rint(points * 8).astype(np.int32)], False, 255, wide, cv2.LINE_AA, 3)
        alpha = cv2.GaussianBlur(canvas.astype(np.float32) / 255, (0, 0), rng.uniform(0.3, 0.7))
        if rng.random() < 0.3:  # it comes and goes
            alpha *= _breaks(height, width, rng)
        level = _level(rng, white)
        colour = _tint(tone, level, rng)
        if tone == "colour" and rng.random() < 0.2:
            colour = tuple(rng.uniform(0.3, 1.0, 3))
        blend(scan, alpha * rng.choice([rng.uniform(0.15, 0.5), rng.uniform(0.5, 1.0)]), colour)


def _breaks(height: int, width: int, rng: Generator) -> Alpha:
    rows = cv2.resize(rng.random((max(3, height // 25), 1)), (1, height), interpolation=cv2.INTER_LINEAR)
    return np.broadcast_to((rows.reshape(-1, 1) * 2).clip(0, 1), (height, width)).astype(np.float32)


def draw_folds(scan: Scan, tone: str, rng: Generator) -> None:
    """One or two creases from edge to edge: a worn bright core, often a shadow beside it."""
    height, width = scan.pixels.shape[:2]
    scale = max(1.0, max(height, width) / 512)
    y, x = np.mgrid[:height, :width].astype(np.float32)
    for _ in range(int(rng.integers(1, 3))):
        angle = rng.choice([0.0, math.pi / 2]) + rng.normal(0, 0.08)
        if rng.random() < 0.2:
            angle = rng.uniform(0, math.pi)
        through = (rng.uniform(0.2, 0.8) * width, rng.uniform(0.2, 0.8) * height)
        along = (x - through[0]) * math.cos(angle) + (y - through[1]) * math.sin(angle)
        across = -(x - through[0]) * math.sin(angle) + (y - through[1]) * math.cos(angle)
        wave = cv2.GaussianBlur(rng.standard_normal((1, 4096)).astype(np.float32), (0, 0), 12)[0] * 4
        index = (along + 2048).clip(0, 4095).astype(np.int32)
        across += wave[index] * rng.uniform(0, 1)
        wide = rng.uniform(1.0, 3.5) * scale * (0.7 + 0.6 * np.abs(wave[index] / 4).clip(0, 1))
        core = np.exp(-0.5 * (across / wide) ** 4)
        worn = rng.uniform(0.5, 1.0) * (1 - rng.uniform(0, 0.5) * rng.random((height, width)))
        if rng.random() < 0.5:
            shadow = np.exp(-0.5 * ((across - rng.choice([-1, 1]) * 2.5 * wide) / (1.5 * wide)) ** 2)
            blend(scan, (rng.uniform(0.1, 0.35) * shadow).astype(np.float32), (0.05, 0.05, 0.05))
        level = rng.uniform(0.85, 1.0) if rng.random() < 0.85 else rng.uniform(0.0, 0.2)
        blend(scan, (core * worn).astype(np.float32), _tint(tone, level, rng))


def draw_text(scan: Scan, tone: str, rng: Generator) -> None:
    """A date in a corner, of segments or of letters; or words across the picture."""
    height, width = scan.pixels.shape[:2]
    date = f"{rng.integers(1, 13):2d} {rng.integers(1, 32):2d} '{rng.integers(70, 100)}"
    if rng.random() < 0.3:
        date = f"{rng.integers(1990, 2010)}/{rng.integers(1, 13):02d}/{rng.integers(1, 32):02d}"
    tall = max(9.0, rng.uniform(0.035, 0.08) * height)
    if rng.random() < 0.45:
        alpha = _segments(height, width, date, tall, rng)
    else:
        words = str(rng.choice([date, date, "SAMPLE", "Copyright 1998", "Summer 1987"]))
        alpha = _letters(height, width, words, tall, rng)
    orange = (rng.uniform(0.9, 1.0), rng.uniform(0.3, 0.75), rng.uniform(0.05, 0.3))
    plain = rng.choice([1.0, 0.97, 0.03])
    colour = orange if tone == "colour" and rng.random() < 0.7 else (plain, plain, plain)
    if rng.random() < 0.4 and colour is orange:
        glow = cv2.GaussianBlur(alpha, (0, 0), 1 + tall / 15)
        blend(scan, 0.5 * glow, (0.9, 0.25, 0.05))
    alpha = cv2.GaussianBlur(alpha, (0, 0), rng.uniform(0.3, 0.8))
    blend(scan, alpha * rng.uniform(0.8, 1.0), colour)


def _corner(height: int, width: int, wide: float, tall: float, rng: Generator) -> tuple[float, float]:
    """Lower left corner of what is written."""
    margin = rng.uniform(0.03, 0.08)
    left = width * (1 - margin) - wide if rng.random() < 0.75 else width * margin
    bottom = height * (1 - margin) if rng.random() < 0.85 else height * margin + tall
    return max(2.0, left), bottom


def _segments(height: int, width: int, text: str, tall: float, rng: Generator) -> Alpha:
    """Digits of seven segments."""
    wide, thick = 0.55 * tall, max(1, round(tall / rng.uniform(7, 10)))
    left, bottom = _corner(height, width, 0.78 * tall * len(text), tall, rng)
    corners = {
        "a": ((0, 1), (1, 1)),
        "b": ((1, 1), (1, 0.5)),
        "c": ((1, 0.5), (1, 0)),
        "d": ((0, 0), (1, 0)),
        "e": ((0, 0), (0, 0.5)),
        "f": ((0, 0.5), (0, 1)),
        "g": ((0, 0.5), (1, 0.5)),
    }
    canvas = np.zeros((height, width), np.uint8)
    for place, sign in enumerate(text):
        x = left + 0.78 * tall * place
        lines = _SEGMENTS[int(sign)] if sign.isdigit() else {"'": "f", "/": "g"}.get(sign, "")
        for one in lines:
            ends = [(x + a * wide, bottom - b * tall) for a, b in corners[one]]
            first, last = (tuple(np.rint(np.asarray(end) * 8).astype(int).tolist()) for end in ends)
            cv2.line(canvas, first, last, 255, thick, cv2.LINE_AA, 3)
    return canvas.astype(np.float32) / 255


def _letters(height: int, width: int, text: str, tall: float, rng: Generator) -> Alpha:
    font = int(rng.choice(_FONTS))
    unit = cv2.getTextSize(text, font, 1.0, 1)[0]
    size = tall / unit[1]
    size = min(size, 0.9 * width / unit[0])
    thick = max(1, round(tall / rng.uniform(8, 14)))
    left, bottom = _corner(height, width, unit[0] * size, tall, rng)
    if rng.random() < 0.2:
        left, bottom = rng.uniform(0.05, 0.3) * width, rng.uniform(0.3, 0.7) * height
    left = max(1.0, min(left, width - unit[0] * size - 1))
    canvas = np.zeros((height, width), np.uint8)
    cv2.putText(canvas, text, (round(left), round(bottom)), font, size, 255, thick, cv2.LINE_AA)
    return canvas.astype(np.float32) / 255


_DRAW = {"dust": draw_dust, "scratch": draw_scratches, "fold": draw_folds, "text": draw_text}
