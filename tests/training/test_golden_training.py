"""Training steps at a fixed seed give the numbers they gave, and old checkpoints go on: see golden_training.py."""

from __future__ import annotations

import json

import golden_training
import pytest
import torch
from golden_runs import kind_of_machine

from diffbcp_cli import training

RECORDED = json.loads((golden_training.HOME / "numbers.json").read_text())
SAME_MACHINE = RECORDED["machine"] == kind_of_machine()


@pytest.fixture
def photos(tmp_path):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield golden_training.make_photos(tmp_path)
    torch.set_num_threads(threads)


def agree(now, then):
    for key, values in then.items():
        assert now[key] == (values if SAME_MACHINE else pytest.approx(values, rel=0.02)), key


def test_the_first_steps_give_the_numbers_they_gave(photos, tmp_path):
    state = training.fresh_state(golden_training.SETTINGS)
    agree(
        golden_training.take_steps(state, photos, tmp_path / "out", golden_training.SAVED_AT),
        RECORDED["first"],
    )


def test_a_recorded_checkpoint_is_read_and_goes_on_to_the_same_numbers(photos, tmp_path):
    settings, plan = golden_training.SETTINGS, golden_training.PLAN
    state = training.resume_point(golden_training.HOME, settings, photos, plan)
    assert (state.step, len(state.losses)) == (golden_training.SAVED_AT, golden_training.SAVED_AT)
    left = golden_training.STEPS - golden_training.SAVED_AT
    agree(golden_training.take_steps(state, photos, tmp_path / "out", left), RECORDED["rest"])
