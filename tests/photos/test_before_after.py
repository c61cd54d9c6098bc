"""The page of before and after: what it holds, and what it says was changed."""

from __future__ import annotations

import base64
import re

import cv2
import numpy as np
import pytest

from diffbcp_cli.photos.before_after import Item, page


def pictures_of(text):
    """Every embedded picture, RGBA or RGB, in the order of the page."""
    found = []
    for data in re.findall(r"data:image/png;base64,([A-Za-z0-9+/=]+)", text):
        image = cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_UNCHANGED)
        found.append(image[..., [2, 1, 0, *range(3, image.shape[2])]])
    return found


def item(channels=3, **more):
    rng = np.random.default_rng(0)
    before = rng.integers(0, 256, (40, 60, channels)).astype(np.float32) / 255
    after, observed = before.copy(), np.ones(before.shape, bool)
    observed[:10] = False
    after[:10], after[20:25] = 0.5, 0.25
    return Item("<b>.png", before, after, observed=observed, **more)


@pytest.mark.parametrize("channels", [1, 3])
def test_it_shows_before_and_after_as_they_are_and_what_was_changed(channels):
    one = item(channels)
    text = page([one])
    before, after, changed = pictures_of(text)
    for shown, meant in ((before, one.before), (after, one.after)):
        assert np.array_equal(shown, np.rint(np.broadcast_to(meant, (40, 60, 3)) * 255))
    assert (changed[:10, :, 0] > 200).all()
    assert (changed[20:25, :, 2] > 200).mean() > 0.95
    assert not changed[10:20, :, 3].any()
    assert "25.00% filled" in text
    assert "uncertainty (" not in text


def test_the_uncertainty_is_brightest_where_it_is_largest():
    std = np.zeros((40, 60, 3), np.float32)
    std[:5], std[5:10] = 0.2, 0.05
    heat = pictures_of(page([item(std=std)]))[2]
    assert heat[:5, :, :3].mean() > heat[5:10, :, :3].mean() > 0
    assert not heat[10:, :, 3].any()


def test_it_loads_nothing_and_escapes_names():
    text = page([item(), item()])
    assert "default-src 'none'" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert "<b>.png" not in text
    assert text.count('type="range"') == 2


def test_a_large_picture_is_made_smaller_and_missing_numbers_are_shown():
    before = np.full((1600, 2000, 1), np.nan, np.float32)
    after = np.zeros_like(before)
    shown = pictures_of(page([Item("a", before, after, None, np.isfinite(before))]))
    assert shown[0].shape[0] * shown[0].shape[1] <= 2_001_000
    assert abs(shown[0].astype(int) - 127.5).max() < 1
