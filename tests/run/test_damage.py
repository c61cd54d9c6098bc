"""Windows around the damage: they cover it, stay small, and leave the rest alone."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from sampling import Listener

from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.options import Options
from diffbcp_cli.run.damage import damage_windows, keeps_known

NEAR = Options(method="telea", iterations=1, burn_in=0, prior="none")


def disks(height, width, count, radius, seed=0):
    """What is known (H, W, 1) of a picture with round holes."""
    rng, holes = np.random.default_rng(seed), np.zeros((height, width), np.uint8)
    for _ in range(count):
        place = (int(rng.integers(width)), int(rng.integers(height)))
        cv2.circle(holes, place, radius, 1, -1)
    return (holes == 0)[..., None]


def scratch(height, width, thickness=4):
    holes = np.zeros((height, width), np.uint8)
    cv2.line(holes, (10, 20), (width - 30, height - 5), 1, thickness)
    return (holes == 0)[..., None]


def waves(height, width):
    y, x = np.mgrid[:height, :width] / 15
    return (0.5 + 0.3 * np.stack([np.sin(x + c) * np.cos(y - c) for c in range(3)], -1)).astype(np.float32)


@pytest.mark.parametrize("side", [None, 200])
@pytest.mark.parametrize(
    "observed",
    [disks(900, 1200, 15, 12), disks(1500, 2000, 1, 180), disks(701, 803, 30, 2), scratch(900, 1200)],
)
def test_windows_cover_the_damage_and_their_shares_sum_to_one(observed, side):
    found = damage_windows(observed, NEAR, side)
    total = np.zeros(observed.shape, np.float32)
    for index, window in enumerate(found.windows):
        assert window.index == index
        assert window.share.shape[:2] == found.sizes[index]
        assert min(window.share.shape[:2]) >= 64
        assert side is None or max(window.share.shape[:2]) <= side
        total[window.rows, window.columns] += window.share
    np.testing.assert_allclose(total[~observed], 1, atol=1e-5)


def test_every_damaged_pixel_counts_where_its_context_is():
    """A window's share is nothing at its border, unless that is the border of the picture."""
    observed = disks(900, 1200, 8, 20)
    for window in damage_windows(observed, NEAR, 300).windows:
        holes = ~observed[window.rows, window.columns]
        inner = np.zeros(holes.shape, bool)
        inner[
            8 * (window.rows.start > 0) : holes.shape[0] - 8 * (window.rows.stop < 900),
            8 * (window.columns.start > 0) : holes.shape[1] - 8 * (window.columns.stop < 1200),
        ] = True
        assert not window.share[holes & ~inner].any()


def test_work_follows_the_damage_and_not_the_picture():
    small, large = disks(600, 600, 1, 6), np.ones((3000, 4000, 1), bool)
    large[1000:1600, 2000:2600] = small
    one = damage_windows(small, NEAR, None).pixels
    assert one == damage_windows(large, NEAR, None).pixels
    few, many = (damage_windows(disks(3000, 4000, count, 6), NEAR, None).pixels for count in (15, 120))
    assert few < many <= 1.1 * 8 * few
    line = damage_windows(scratch(1500, 2000), NEAR, None)
    assert len(line.pieces) > 10
    assert line.pixels < 0.15 * 1500 * 2000


def test_damage_all_over_or_denoising_takes_the_whole_picture():
    scattered = np.random.default_rng(0).random((300, 300, 1)) < 0.9
    few, middle = disks(600, 600, 1, 6), np.ones((96, 96, 1), bool)
    middle[26:70, 26:70] = False
    assert damage_windows(scattered, NEAR, None) is None
    assert damage_windows(np.ones((300, 300, 1), bool), NEAR, None) is None
    assert damage_windows(middle, NEAR, None) is None
    assert damage_windows(few, NEAR, None) is not None
    assert damage_windows(few, Options(observed="posterior"), None) is None
    assert damage_windows(few, Options(save=("mean", "samples")), None) is None
    assert min(damage_windows(few, Options(prior="none"), None).sizes[0]) >= 256
    assert keeps_known(disks(96, 96, 1, 20), NEAR)
    assert not keeps_known(scattered, NEAR)
    assert not keeps_known(few, Options(observed="posterior"))


def test_known_pixels_pass_through_and_holes_are_filled_as_in_the_whole_picture():
    pixels, observed = waves(400, 500), np.repeat(disks(400, 500, 6, 9), 3, axis=2)
    damaged = np.where(observed, pixels, np.float32(0))
    watch = Listener()
    found = restore(damaged, observed, NEAR, prior=None, watch=watch)
    whole = restore(damaged, observed, {"method": "telea", "observed": "posterior"}, prior=None)
    assert found.options.observed == "keep"
    assert "of the picture is worked on" in watch.notes[0]
    assert np.array_equal(found.mean[observed], pixels[observed])
    np.testing.assert_allclose(found.mean, whole.mean, atol=0.02)


def test_a_run_around_the_damage_goes_on_where_it_stood():
    pixels, observed = waves(300, 1600), np.repeat(disks(300, 1600, 2, 6), 3, axis=2)
    cfg = Options(prior="none", iterations=4, burn_in=2, rank=4, checkpoint_every=1e-6)
    saved = []

    def keep(snapshot):
        saved.append(({name: tensor.clone() for name, tensor in snapshot[0].items()}, snapshot[1]))

    whole = restore(pixels, observed, cfg, prior=None, resume=Resume(save=keep))
    again = restore(pixels, observed, cfg, prior=None, resume=Resume(saved[-2]))
    assert whole.finished
    assert np.array_equal(again.mean, whole.mean)
    assert np.array_equal(again.std, whole.std)
    assert not whole.std[observed].any()
    assert (whole.std[~observed] > 0).all()
