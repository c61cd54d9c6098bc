"""Parts of a picture: all over it, in the middle, but not in a hole."""

from __future__ import annotations

import pytest
import torch

from diffbcp_cli.estimators.crops import crops_share, representative_crops


def everywhere(*shape):
    return torch.ones(shape, dtype=torch.bool)


def test_parts_stand_for_the_whole_picture():
    small, large = torch.rand(3, 100, 150), torch.arange(1200 * 2000.0).reshape(1, 1200, 2000)
    assert torch.equal(representative_crops(everywhere(3, 100, 150)).of(small), small[None])
    assert representative_crops(everywhere(3, 300, 400)).of(torch.rand(3, 300, 400)).shape == (1, 3, 192, 192)
    found = representative_crops(everywhere(1, 1200, 2000)).of(large)
    assert found.shape == (8, 1, 128, 128)
    assert float(found.mean()) == pytest.approx(float(large.mean()), rel=1e-3)
    assert crops_share(2048) == pytest.approx(1 / 16)
    assert crops_share(100) == 1


def test_the_part_of_a_picture_with_a_hole_in_its_middle_lies_beside_it():
    known = everywhere(3, 400, 400)
    known[:, 90:310, 90:310] = False
    inside = representative_crops(known).of(known).float().mean()
    assert inside > 0.4
    assert not known[:, 104:296, 104:296].any()  # where the middle would have been


def test_a_few_entries_more_elsewhere_do_not_move_a_part():
    torch.manual_seed(0)
    known = torch.rand(3, 400, 400) < 0.1
    assert representative_crops(known).corners == ((104, 104),)
    known[:, 104:296, 104:168] = False  # the middle has lost a third
    assert representative_crops(known).corners == ((104, 104),)
    known[:, 104:296, 104:280] = False
    assert representative_crops(known).corners != ((104, 104),)


def test_each_part_of_a_large_picture_stays_in_its_cell():
    known = everywhere(1, 1024, 1536)
    known[:, 150:400, 150:400] = False
    corners = representative_crops(known).corners
    assert len(corners) == 6
    for index, (top, left) in enumerate(corners):
        row, column = divmod(index, 3)
        assert 512 * row <= top <= 512 * (row + 1) - 128
        assert 512 * column <= left <= 512 * (column + 1) - 128
        assert known[0, top : top + 128, left : left + 128].float().mean() > 0.5
