"""The training data: which photographs, and what a batch holds."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from training_data import LEVELS, MASKED, SMALL

from diffbcp_cli import training
from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import InputError
from diffbcp_cli.training import TrainSettings
from diffbcp_cli.training.data import draw_mask


def test_bad_photographs_are_skipped_and_named(folder):
    (folder / "broken.jpg").write_bytes(b"not a photograph")
    Image.new("RGB", (8, 40)).save(folder / "narrow.png")
    (folder / "notes.txt").write_text("not looked at")
    np.save(folder / "mask.npy", np.ones((40, 40), bool))
    (folder / ".hidden").mkdir()
    for name in ("0.mean.png", "0.std.png", ".hidden/a.png", ".hidden.png"):
        Image.new("RGB", (40, 40)).save(folder / name)
    (folder / "out").mkdir()
    Image.new("RGB", (40, 40)).save(folder / "out" / "training.png")
    photos = training.load_photos(folder, SMALL, without=folder / "out")
    assert set(photos.skipped) == {"broken.jpg", "narrow.png"}
    assert len(photos.train) == 11
    assert len(photos.held_out) == 1


def test_the_held_out_choice_does_not_depend_on_other_files(folder):
    before = training.load_photos(folder, SMALL).held_out[0]
    names = sorted(folder.glob("*.png"))
    shapes = {name: np.asarray(Image.open(name)) for name in names}
    drop = next(name for name in names if not np.array_equal(shapes[name], before))
    drop.unlink()
    assert np.array_equal(training.load_photos(folder, SMALL).held_out[0], before)


def test_an_empty_folder_is_an_input_error(tmp_path, capsys):
    with pytest.raises(InputError):
        training.load_photos(tmp_path, SMALL)
    assert run(["train", str(tmp_path), "-o", str(tmp_path / "out")]) == 3
    assert "no photograph" in capsys.readouterr().err


def test_a_prior_inside_its_own_photographs_is_left_out_however_it_is_named(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    (tmp_path / "prior").mkdir()
    for name in ("a.png", "b.png", "prior/training.png"):
        Image.fromarray(rng.integers(0, 255, (80, 80, 3), np.uint8)).save(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    settings = training.TrainSettings()
    found = [
        training.load_photos(tmp_path, settings, without=out) for out in (tmp_path / "prior", Path("prior"))
    ]
    assert found[0].fingerprint == found[1].fingerprint
    assert len(found[1].train) + len(found[1].held_out) == 2


def test_grey_crops_get_grey_noise(folder):
    settings = TrainSettings(network=SMALL.network, batch_size=40, crop=16, grey_share=0.5)
    photos = training.load_photos(folder, settings)
    batch = training.draw_batch(photos.train, settings, rng=torch.Generator().manual_seed(0))
    clean, noise = batch.clean, batch.noisy - batch.clean
    grey = (clean == clean[:, :1]).flatten(1).all(1)
    assert 10 <= int(grey.sum()) <= 30
    assert torch.allclose(noise[grey], noise[grey][:, :1].expand(-1, 3, -1, -1), atol=1e-6)
    assert not torch.allclose(noise[~grey][:, 0], noise[~grey][:, 1], atol=1e-2)


def test_masked_crops_hold_a_guess_where_they_are_not_known(folder):
    settings = replace(MASKED, batch_size=40, grey_share=0.5, mask_share=0.5)
    photos = training.load_photos(folder, settings)
    batch = training.draw_batch(photos.train, settings, rng=torch.Generator().manual_seed(0))
    masked = ~batch.known.flatten(1).all(1)
    assert 8 <= int(masked.sum()) <= 32
    assert batch.noisy.isfinite().all()
    grey = (batch.clean == batch.clean[:, :1]).flatten(1).all(1)
    assert torch.equal(batch.known[grey], batch.known[grey][:, :1].expand(-1, 3, -1, -1))
    assert batch.sigma[masked].median() < batch.sigma[~masked].median()


def test_masks_to_train_with_differ_and_are_the_generators():
    rng, again = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    masks = [draw_mask(torch.Size((3, 64, 64)), rng=rng) for _ in range(60)]
    assert all(torch.equal(mask, draw_mask(torch.Size((3, 64, 64)), rng=again)) for mask in masks)
    known = torch.stack([mask.float().mean() for mask in masks])
    assert 0 < known.min() < 0.1
    assert 0.6 < known.max() < 1
    by_entry = [not torch.equal(mask[0], mask[1]) for mask in masks]
    assert 3 < sum(by_entry) < 30


def test_missing_entries_have_more_noise_or_none_is_known(folder):
    settings = replace(LEVELS, batch_size=40, mask_share=1.0)
    photos = training.load_photos(folder, settings)
    batch = training.draw_batch(photos.train, settings, rng=torch.Generator().manual_seed(0))
    lowest = batch.sigma[:, None, None, None].expand_as(batch.levels)
    assert torch.equal(batch.levels[batch.known], lowest[batch.known])
    assert (batch.levels[~batch.known] >= lowest[~batch.known]).all()
    unknown = batch.levels.isinf().flatten(1).any(1)
    assert 12 <= int(unknown.sum()) <= 36
    assert batch.noisy.isfinite().all()


def test_more_photographs_are_held_out_if_asked(tmp_path):
    for index in range(40):
        Image.new("RGB", (16, 16), (index, 0, 0)).save(tmp_path / f"{index}.png")
    assert [len(training.load_photos(tmp_path, SMALL, hold_out=most).held_out) for most in (2, 16)] == [2, 4]


def test_a_tiff_that_cannot_be_unpacked_ends_no_training_and_any_name_is_read(folder):
    tifffile.imwrite(folder / "lzma.tiff", np.zeros((40, 40), np.uint16), compression="lzma")
    data = bytearray((folder / "lzma.tiff").read_bytes())
    at = data.index(b"\xfd7zXZ")
    data[at + 20 : at + 60] = bytes(40)
    (folder / "lzma.tiff").write_bytes(data)
    next(iter(folder.glob("*.png"))).rename(folder / os.fsdecode(b"\xff\x1b[31m.png"))
    photos = training.load_photos(folder, SMALL)
    assert set(photos.skipped) == {"lzma.tiff"}
    assert len(photos.train) + len(photos.held_out) == 12
