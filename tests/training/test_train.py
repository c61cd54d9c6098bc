"""Training steps: they learn, follow the schedule and keep float32 weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from training_data import LEVELS, MASKED, SMALL, go

from diffbcp_cli import training
from diffbcp_cli.errors import UsageError
from diffbcp_cli.training import Plan, TrainSettings
from diffbcp_cli.training.train import edm_loss, relative_weight


def test_the_loss_goes_down(folder, tmp_path):
    fast = replace(SMALL, learning_rate=1e-2, batch_size=8)
    photos = training.load_photos(folder, fast)
    infos = go(training.fresh_state(fast), photos, Plan(steps=160), tmp_path / "out", fast)
    losses = [info.loss for info in infos]
    assert np.mean(losses[-20:]) < 0.8 * np.mean(losses[:20])


def test_bf16_is_for_the_network_only_and_hardly_changes_a_step(folder):
    photos = training.load_photos(folder, SMALL)
    losses = {}
    for precision in training.PRECISIONS:
        settings = replace(SMALL, precision=precision)
        state = training.fresh_state(settings)
        losses[precision] = training.take_step(state, photos.train, settings, 0.0).loss
        assert all(p.dtype == torch.float32 for p in state.network.parameters())
    assert losses["bf16"] == pytest.approx(losses["fp32"], rel=1e-2)
    with pytest.raises(UsageError, match="unknown precision"):
        replace(SMALL, precision="fp8")


def test_the_learning_rate_warms_up_stays_and_decays_to_zero():
    settings = TrainSettings(learning_rate=1.0, warm_up=10, decay_share=0.25)
    rates = [training.learning_rate(settings, step, step / 100) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[10:75] == [1.0] * 65
    assert rates[75:] == sorted(rates[75:], reverse=True)
    assert rates[100] == pytest.approx(0.0)


def test_a_network_learns_to_fill_from_one_that_cannot(folder, tmp_path):
    photos = training.load_photos(folder, MASKED)
    before = training.fresh_state(replace(SMALL, seed=1)).network
    state = training.fresh_state(MASKED, before.state_dict())
    x, noise, missing = torch.rand(2, 3, 16, 16), torch.zeros(2), torch.ones(2, 3, 16, 16)
    assert torch.equal(state.network(x, noise), before(x, noise))
    assert torch.equal(state.network(x, noise, missing), before(x, noise))  # it begins by ignoring the mask
    go(state, photos, Plan(steps=30), tmp_path / "out", MASKED)
    assert state.network.filler.enter_mask.weight.abs().max() > 0
    assert not torch.equal(state.network.filler.enter.weight, state.network.enter.weight)
    assert {training.FILLED, "25"} <= state.validations[-1][1].keys()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_step_in_which_all_crops_are_of_one_kind_leaves_the_other_network_alone(folder, share):
    settings = replace(MASKED, mask_share=share)
    photos, state = training.load_photos(folder, settings), training.fresh_state(settings)
    before = {name: value.clone() for name, value in state.network.state_dict().items()}
    training.take_step(state, photos.train, settings, 0.0)
    changed = {
        name.startswith("filler.")
        for name, value in state.network.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert changed == {share == 1.0}


def test_the_relative_loss_is_a_derivative_of_the_logarithm():
    """Its gradient is that of the mean over crops of ln(mean squared error), apart from the floor."""
    rng = torch.Generator().manual_seed(0)
    clean = torch.randn(4, 3, 8, 8, generator=rng)
    found = (clean + torch.randn(4, 3, 8, 8, generator=rng)).requires_grad_()
    error = (found - clean).square()
    weight = relative_weight(error.detach(), torch.full((4, 1, 1, 1), 1e9))
    (relative,) = torch.autograd.grad((weight * error).mean(), found, retain_graph=True)
    (logarithm,) = torch.autograd.grad(error.mean((1, 2, 3)).log().mean(), found)
    torch.testing.assert_close(relative, logarithm)


@pytest.mark.parametrize("settings", [SMALL, MASKED, LEVELS], ids=["plain", "masked", "levels"])
def test_a_fresh_network_has_relative_errors_of_at_most_one(folder, settings):
    photos, state = training.load_photos(folder, settings), training.fresh_state(settings)
    batch = training.draw_batch(photos.train, settings, rng=state.rng)
    loss = edm_loss(state.network, batch, replace(settings, relative=True))
    assert 0.5 < loss.item() <= 1
    assert loss.item() != edm_loss(state.network, batch, settings).item()


def test_one_network_learns_from_a_level_for_every_entry(folder, tmp_path):
    fast = replace(LEVELS, learning_rate=1e-2, batch_size=8)
    photos, state = training.load_photos(folder, fast), training.fresh_state(fast)
    losses = [info.loss for info in go(state, photos, Plan(steps=160), tmp_path / "out", fast)]
    assert np.mean(losses[-20:]) < 0.9 * np.mean(losses[:20])
    assert state.network.filler is None
    assert state.network.enter_mask.weight.abs().max() > 0
    assert state.network.enter_share.weight.abs().max() > 0
    assert {training.FILLED, "25"} <= state.validations[-1][1].keys()


def test_a_plan_in_minutes_follows_the_clock_that_it_is_given(folder, tmp_path):
    photos, state = training.load_photos(folder, SMALL), training.fresh_state(SMALL)
    ticks = iter(range(100))
    infos = list(
        training.train(
            state, photos, SMALL, Plan(minutes=0.1), tmp_path / "out", clock=lambda: float(next(ticks))
        )
    )
    assert [info.seconds for info in infos] == [1, 2, 3, 4, 5, 6]
    assert infos[-1].progress == 1


def test_a_validation_of_ones_own_is_asked(folder, tmp_path):
    photos, state = training.load_photos(folder, SMALL), training.fresh_state(SMALL)
    steps = training.train(
        state, photos, SMALL, Plan(steps=2), tmp_path / "out", validation=lambda network, held: {"own": 7.0}
    )
    assert [info.psnr for info in steps] == [None, {"own": 7.0}]


def test_validation_in_bf16_is_nearly_that_in_fp32(folder):
    photos, network = training.load_photos(folder, SMALL), training.fresh_state(SMALL).average
    exact, rough = (
        training.validate(network, photos.held_out, dtype=dtype) for dtype in (torch.float32, torch.bfloat16)
    )
    assert rough == pytest.approx(exact, abs=0.05)
