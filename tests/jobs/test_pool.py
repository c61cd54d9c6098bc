"""Workers on this machine: which GPU each of them gets."""

from __future__ import annotations

import pytest

from diffbcp_cli.jobs.pool import gpu_of


@pytest.mark.parametrize(
    ("visible", "gpus", "dealt"),
    [
        (None, 2, ["0", "1", "0"]),
        ("2,3", 2, ["2", "3", "2"]),
        ("5, 1 ,7", 3, ["5", "1", "7", "5"]),
        ("GPU-8f2c,MIG-11aa", 2, ["GPU-8f2c", "MIG-11aa", "GPU-8f2c"]),
        ("1,3,-1,0", 2, ["1", "3", "1"]),  # CUDA sees the entries before the -1, so torch counts two
    ],
)
def test_workers_share_the_gpus_that_the_user_made_visible(visible, gpus, dealt):
    assert [gpu_of(seat, gpus, visible) for seat in range(len(dealt))] == dealt
