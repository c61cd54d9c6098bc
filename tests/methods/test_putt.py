"""PuTT: exact fits, coarse pictures of known pixels alone, the rates of a run, sizes that are padded."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from conftest import picture
from sampling import Listener, damaged

from diffbcp_cli import random
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.lowrank import quantised
from diffbcp_cli.methods.putt import Putt, levels_of
from diffbcp_cli.options import check

GIVEN = {"method": "putt", "device": "cpu", "iterations": 40, "putt_rank": 6, "putt_rate": 0.01}


def fitted(values, known, *, rank, length, rate=0.02):
    method, rng = (
        Putt(levels_of(values, known, length), values.shape[1:], rank, rate, length),
        random.generator(0),
    )
    state = method.init(rng=rng)
    for _ in range(length):
        state, _ = method.step(state, rng=rng)
    return quantised.picture(state.fit.parameters)


def test_a_constant_picture_is_fitted_at_rank_1():
    values = torch.tensor([0.2, 0.5, 0.9])[:, None, None].expand(3, 16, 16).clone()
    found = fitted(values, torch.ones(3, 16, 16, dtype=torch.bool), rank=1, length=800)
    assert float((found - values).abs().max()) < 1e-3


def test_a_whole_picture_is_fitted_at_full_rank():
    values = torch.from_numpy(picture(16, 16, 3)).permute(2, 0, 1).float()
    found = fitted(values, torch.ones_like(values, dtype=torch.bool), rank=100, length=1500)
    assert float((found - values).square().mean()) < 1e-6


def test_coarse_pictures_are_made_of_known_pixels_alone():
    values = torch.zeros(1, 128, 128)
    known = torch.zeros_like(values, dtype=torch.bool)
    known[:, ::2, ::2] = True
    values[known] = 0.75
    known[:, :8, :8] = False
    levels = levels_of(values, known, 100)
    assert [level.target.shape[1] for level in levels] == [64, 128]
    coarse = levels[0]
    assert set(coarse.target.unique().tolist()) == {0.0, 0.75}
    assert float(coarse.weight[:, :4, :4].max()) == 0
    assert float(coarse.weight[:, 4:].min()) == 0.25


def test_the_sides_double_at_the_published_steps():
    known = torch.ones(1, 2048, 2048, dtype=torch.bool)
    levels = levels_of(torch.zeros(1, 2048, 2048), known, 2560)
    assert [level.begins for level in levels] == [0, 64, 128, 256, 512, 1024]
    method = Putt(levels, (2048, 2048), 5, 1.0, 2560)
    rates = [method.rate_at(1, step) for step in range(64, 128)]
    assert max(rates) == pytest.approx(0.9)
    assert rates.index(max(rates)) == 31
    assert rates[-1] == pytest.approx(0.09)


def test_a_size_that_is_no_power_of_two_is_padded_and_said():
    pixels, observed = damaged(20, 37)
    watch = Listener()
    found = restore(pixels, observed, check(GIVEN), prior=None, watch=watch)
    assert found.mean.shape == (20, 37, 3)
    assert found.std is None
    assert any("37 x 20 is padded to 64 x 64" in note for note in watch.notes)
    watch = Listener()
    restore(*damaged(32, 32), check(GIVEN), prior=None, watch=watch)
    assert not any("padded" in note for note in watch.notes)


def test_every_step_of_a_short_run_shows_a_picture_of_the_size():
    for iterations in (1, 2, 3):
        given = check({**GIVEN, "iterations": iterations})
        assert restore(*damaged(32, 32), given, prior=None).mean.shape == (32, 32, 3)


def test_a_run_resumes_to_the_same_bits_across_a_prolongation():
    pixels, observed = damaged(32, 32)
    saved = []
    whole = restore(pixels, observed, check(GIVEN), prior=None)
    stop, keep = Listener(stop_after=10), Resume(save=saved.append)
    restore(pixels, observed, check(GIVEN), prior=None, watch=stop, resume=keep)
    again = restore(pixels, observed, check(GIVEN), prior=None, resume=Resume(saved[-1]))
    np.testing.assert_array_equal(again.mean, whole.mean)
