"""Damage is found, by kind, on any tone; what is clean is left alone."""

from __future__ import annotations

import sys

import cv2
import numpy as np
import pytest

from diffbcp_cli.errors import UsageError
from diffbcp_cli.photos.detect import KINDS, Settings, detect
from diffbcp_cli.photos.detect.ground import Ground
from diffbcp_cli.photos.detect.lines import SCRATCH, find_lines

SIZE = (256, 320)


def scene(seed: int = 0, noise: float = 0.01) -> np.ndarray:
    """Soft shapes with edges between them, and some noise, (H, W, 3)."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[: SIZE[0], : SIZE[1]] / 256.0
    light = 0.45 + 0.2 * np.sin(3 * x + seed) * np.cos(4 * y)
    for _ in range(4):
        middle, radius = rng.uniform(0, 1, 2), rng.uniform(0.15, 0.3)
        inside = np.hypot(x - middle[0], y - middle[1]) < radius
        light = np.where(inside, light + rng.uniform(-0.2, 0.2), light)
    light = cv2.GaussianBlur(light.astype(np.float32), (0, 0), 1.0)
    tint = np.asarray([1.0, 0.95, 0.85])
    return (light[..., None] * tint + noise * rng.standard_normal((*SIZE, 3))).clip(0, 1).astype(np.float32)


def drawn(picture, draw, colour):
    """The picture with something drawn on it, and where."""
    alpha = np.zeros(SIZE, np.uint8)
    draw(alpha)
    soft = cv2.GaussianBlur(alpha.astype(np.float32) / 255, (0, 0), 0.5)[..., None]
    return (picture * (1 - soft) + soft * np.asarray(colour, np.float32)).astype(np.float32), alpha > 127


def specks(alpha):
    rng = np.random.default_rng(3)
    for x, y, radius in zip(*rng.integers(10, 246, (2, 25)), rng.integers(1, 5, 25), strict=True):
        cv2.circle(alpha, (int(x), int(y)), int(radius), 255, -1, cv2.LINE_AA)


def scratches(alpha):
    for x in (60, 150, 230):
        cv2.line(alpha, (x, -5), (x + 14, 260), 255, 1, cv2.LINE_AA)


def fold(alpha):
    cv2.line(alpha, (-5, 120), (330, 131), 255, 5, cv2.LINE_AA)


def stamp(alpha):
    cv2.putText(alpha, "12 24 '86", (190, 235), cv2.FONT_HERSHEY_SIMPLEX, 0.6, 255, 2, cv2.LINE_AA)


def filled(picture, **settings) -> np.ndarray:
    return ~detect(picture, Settings(**settings)).observed[..., 0]


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.04])
@pytest.mark.parametrize("seed", range(4))
def test_a_clean_picture_gives_an_empty_mask(seed, noise):
    picture = scene(seed, noise)
    assert not filled(picture).any()
    assert not filled(picture[..., :1]).any()


@pytest.mark.parametrize(
    ("draw", "colour", "sensitivity"),
    [
        (specks, (0.97, 0.97, 0.95), 1.0),
        (specks, (0.03, 0.03, 0.02), 1.0),
        (scratches, (0.95, 0.95, 0.95), 1.0),
        (fold, (0.96, 0.95, 0.93), 3.0),  # one line alone might be a wire: it takes more than the default
        (stamp, (1.0, 1.0, 1.0), 1.0),
    ],
)
@pytest.mark.parametrize("tone", ["colour", "grey"])
def test_each_kind_is_found_and_little_else(draw, colour, sensitivity, tone):
    picture, where = drawn(scene(), draw, colour)
    if tone == "grey":
        picture = picture.mean(axis=-1, keepdims=True)
    found = filled(picture, sensitivity=sensitivity)
    near = cv2.dilate(where.astype(np.uint8), np.ones((9, 9), np.uint8)) > 0
    assert found[where].mean() > 0.4
    assert (found & ~near).mean() < 0.006


def test_a_scratch_that_drowns_in_the_noise_is_a_candidate_along_its_length():
    """1.3 standard deviations a pixel, 220 pixels long: 19 in all."""
    noise = 0.03
    line = np.zeros(SIZE, np.uint8)
    cv2.line(line, (100, 20), (118, 240), 255, 1)
    rng = np.random.default_rng(0)
    grain = noise * rng.standard_normal((*SIZE, 1)).astype(np.float32)
    faint = scene(1, noise=0.0) + grain + 1.3 * noise * (line[..., None] / 255).astype(np.float32)
    paths = find_lines(Ground(faint.astype(np.float32)), SCRATCH).paths
    seen = np.zeros(SIZE, np.uint8)
    for path in paths:
        cv2.polylines(seen, [np.rint(path).astype(np.int32)], False, 1, 3)
    assert seen[line > 0].mean() > 0.45
    assert seen.mean() < 0.15


def test_more_sensitivity_finds_no_less_and_a_least_size_leaves_out_what_is_small():
    picture, _ = drawn(scene(2), specks, (0.9, 0.9, 0.9))
    shares = [filled(picture, sensitivity=value).mean() for value in (0.3, 1.0, 3.0)]
    assert shares == sorted(shares)
    kinds = {"kinds": ("dust",), "grow": 0.0}
    small, large = (filled(picture, min_size=size, **kinds) for size in (0, 20))
    assert not (large & ~small).any()
    sizes = cv2.connectedComponentsWithStats(large.astype(np.uint8))[2][1:, cv2.CC_STAT_AREA]
    assert (sizes >= 20).all()


def test_only_the_kinds_that_are_asked_for_are_found():
    picture, where = drawn(scene(), specks, (0.97, 0.97, 0.95))
    assert set(detect(picture, Settings(kinds=("fold",))).counts) == {"fold"}
    assert filled(picture, kinds=("fold", "text"))[where].mean() < 0.2
    assert set(detect(picture, Settings()).counts) == set(KINDS)


@pytest.mark.parametrize("shape", [(16, 16, 1), (16, 300, 3), (300, 17, 3), (33, 40, 1)])
def test_any_size_and_any_values(shape):
    rng = np.random.default_rng(0)
    for picture in (rng.random(shape), np.zeros(shape), np.full(shape, np.nan), np.full(shape, np.inf)):
        found = detect(picture.astype(np.float32), Settings(sensitivity=10))
        assert found.observed.shape == (*shape[:2], 1)


def test_the_noise_level_is_that_of_the_picture():
    for noise in (0.01, 0.03, 0.1):
        rng = np.random.default_rng(0)
        picture = scene(0, 0) + noise * rng.standard_normal((*SIZE, 1)).astype(np.float32)
        assert Ground(picture).noise == pytest.approx(noise, rel=0.1)


PLUGIN = """
import numpy as np
def corner(pixels, settings):
    where = np.zeros(pixels.shape[:2], bool)
    where[:4, :4] = True
    return {"dust": where}
"""


def test_a_detector_of_another_package_is_asked(tmp_path, monkeypatch):
    (tmp_path / "corner_finder.py").write_text(PLUGIN)
    about = tmp_path / "corner_finder-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: corner-finder\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[diffbcp.detectors]\ncorner = corner_finder:corner\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    found = detect(scene(), Settings(grow=0), detector="corner")
    assert int((~found.observed).sum()) == 16
    assert found.counts == {"dust": 1}
    with pytest.raises(UsageError, match="no detector 'other'"):
        detect(scene(), Settings(), detector="other")
