"""Masks grown, shrunk and combined."""

from __future__ import annotations

import numpy as np
import pytest

from diffbcp_cli.errors import MaskError
from diffbcp_cli.photos.mask_edit import combine, grow, shrink


def dot(at=(10, 10), size=(21, 21), channels=1):
    observed = np.ones((*size, channels), bool)
    observed[at] = False
    return observed


@pytest.mark.parametrize("pixels", [0, 1, 2, 3.5, 7])
def test_a_dot_grows_to_a_disc(pixels):
    y, x = np.mgrid[:21, :21] - 10
    assert np.array_equal(~grow(dot(), pixels)[..., 0], np.hypot(y, x) <= pixels)


def test_each_channel_grows_on_its_own():
    observed = np.ones((9, 9, 3), bool)
    observed[4, 4, 1] = False
    grown = grow(observed, 1)
    assert [int((~grown[..., c]).sum()) for c in range(3)] == [0, 5, 0]


def test_what_grew_shrinks_back_and_the_border_does_not_eat_it():
    observed = np.ones((30, 30, 1), bool)
    observed[:, :12] = False
    assert np.array_equal(shrink(grow(observed, 3), 3), observed)
    assert shrink(dot(), 1).all()


def test_masks_are_combined():
    one, other = dot((3, 3)) & dot((4, 4)), dot((4, 4)) & dot((5, 5), channels=3)
    ways = ("union", "intersection", "difference")
    filled = {how: int((~combine([one, other], how)[..., 0]).sum()) for how in ways}
    assert filled == {"union": 3, "intersection": 1, "difference": 1}
    assert combine([one, other], "union").shape == (21, 21, 3)


def test_masks_of_two_sizes_are_refused():
    with pytest.raises(MaskError, match="21x21 and 10x21"):
        combine([dot(), np.ones((21, 10, 1), bool)], "union")
