"""Checkpoints: a resumed run is the uninterrupted one, and what cannot be resumed is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import golden_training
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from training_data import LEVELS, MASKED, SMALL, go

from diffbcp_cli import training
from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import UsageError
from diffbcp_cli.priors.networks.natural import Natural, NaturalConfig
from diffbcp_cli.training import Plan


@pytest.mark.parametrize(
    "settings",
    [SMALL, replace(SMALL, precision="bf16"), MASKED, replace(LEVELS, relative=True, weight_decay=0.2)],
    ids=["fp32", "bf16", "masked", "levels"],
)
def test_a_resumed_run_is_bit_identical_to_an_uninterrupted_one(folder, tmp_path, settings):
    photos, plan = training.load_photos(folder, settings), Plan(steps=12)
    whole = training.fresh_state(settings)
    go(whole, photos, plan, tmp_path / "whole", settings)

    broken, out = training.fresh_state(settings), tmp_path / "broken"
    steps = training.train(broken, photos, settings, plan, out, save_every=1e9, validate_every=4)
    for _ in range(5):
        next(steps)
    training.save_state(out / "checkpoint.safetensors", broken, settings, photos)
    resumed = training.resume_point(out, settings, photos, plan)
    assert resumed.step == 5
    go(resumed, photos, plan, out, settings)

    for name in ("network", "average"):
        left, right = getattr(whole, name).state_dict(), getattr(resumed, name).state_dict()
        assert all(torch.equal(left[key], right[key]) for key in left)
    assert whole.losses == resumed.losses
    assert whole.validations == resumed.validations
    ours = load_file(tmp_path / "whole" / "checkpoint.safetensors")
    theirs = load_file(out / "checkpoint.safetensors")
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)


def test_a_longer_plan_goes_on_from_before_the_decay(folder, tmp_path):
    photos = training.load_photos(folder, SMALL)
    short = training.fresh_state(SMALL)
    go(short, photos, Plan(steps=8), tmp_path / "two")
    longer = training.resume_point(tmp_path / "two", SMALL, photos, Plan(steps=16))
    assert longer.step == 4  # the second half of 8 steps was the decay
    go(longer, photos, Plan(steps=16), tmp_path / "two")

    whole = training.fresh_state(SMALL)
    go(whole, photos, Plan(steps=16), tmp_path / "one")
    assert whole.losses == longer.losses


def test_a_plan_that_ends_within_the_decay_goes_on_decaying(folder, tmp_path):
    photos = training.load_photos(folder, SMALL)
    state = training.fresh_state(SMALL)
    steps = training.train(state, photos, SMALL, Plan(steps=12), tmp_path / "out")
    for _ in range(11):
        next(steps)
    training.save_state(tmp_path / "out" / "checkpoint.safetensors", state, SMALL, photos)
    assert training.resume_point(tmp_path / "out", SMALL, photos, Plan(steps=12)).step == 11


def test_training_begins_with_the_weights_of_another_network(folder):
    before = training.fresh_state(replace(SMALL, seed=1)).network
    with torch.no_grad():
        for parameter in before.parameters():
            parameter.add_(0.1)
    deeper = replace(SMALL, network=replace(SMALL.network, blocks=(1, 3)))
    state = training.fresh_state(deeper, before.state_dict())
    x, noise = torch.rand(2, 3, 16, 16), torch.tensor([-0.5, 0.1])
    for network in (state.network, state.average):
        assert torch.allclose(network(x, noise), before(x, noise), atol=1e-5)
    narrower = replace(SMALL, network=replace(SMALL.network, channels=(8, 8)))
    with pytest.raises(UsageError, match="another shape"):
        training.fresh_state(narrower, before.state_dict())
    shallower = replace(SMALL, network=replace(SMALL.network, channels=(8,), blocks=(1,)))
    with pytest.raises(UsageError, match="another shape"):
        training.fresh_state(shallower, before.state_dict())


@pytest.mark.parametrize("told", [{}, {"takes_mask": True}, {"takes_levels": True}], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_a_network_that_grows_wider_and_deeper_begins_as_it_was(told, masked):
    old = Natural(replace(SMALL.network, takes_mask=masked)).requires_grad_(False)
    rng = torch.Generator().manual_seed(3)
    for parameter in old.parameters():
        parameter.copy_(0.1 * torch.randn(parameter.shape, generator=rng))
    wide = NaturalConfig(channels=(12, 16), blocks=(2, 3), embedding_channels=12, **told)
    grown = training.fresh_state(replace(SMALL, network=wide), old.state_dict()).network
    x, noise = torch.randn(2, 3, 16, 16, generator=rng), torch.tensor([-0.5, 0.1])
    torch.testing.assert_close(grown(x, noise), old(x, noise))
    if masked and wide.takes_mask:
        missing = (torch.rand(x.shape, generator=rng) < 0.5).float()
        torch.testing.assert_close(grown(x, noise, missing), old(x, noise, missing))


def test_a_smaller_filler_begins_at_random_or_as_the_old_one():
    old = Natural(SMALL.network).requires_grad_(False)
    small = replace(SMALL.network, takes_mask=True, filler_channels=(4, 6))
    grown = training.fresh_state(replace(SMALL, network=small), old.state_dict()).network
    x, noise = torch.randn(2, 3, 16, 16), torch.tensor([-0.5, 0.1])
    torch.testing.assert_close(grown(x, noise), old(x, noise))
    again = training.fresh_state(replace(SMALL, network=small, seed=9), grown.state_dict()).network
    missing = torch.ones_like(x)
    torch.testing.assert_close(again(x, noise, missing), grown(x, noise, missing))


def test_a_network_that_grew_learns_with_its_new_channels(folder):
    old = training.fresh_state(SMALL).network
    settings = replace(SMALL, network=replace(SMALL.network, channels=(12, 16)))
    state = training.fresh_state(settings, old.state_dict())
    photos = training.load_photos(folder, settings)
    for _ in range(3):
        training.take_step(state, photos.train, settings, 0.0)
    assert state.network.leave.weight[:, 8:].abs().max() > 0


def test_a_checkpoint_from_before_a_setting_counts_as_its_default():
    path = golden_training.HOME / training.CHECKPOINT
    assert training.changed_settings(path, golden_training.SETTINGS) == {}
    decayed = replace(golden_training.SETTINGS, weight_decay=0.2)
    assert training.changed_settings(path, decayed) == {"weight_decay": (0.0, 0.2)}


def test_resume_refuses_another_network_and_other_photographs(folder, tmp_path):
    photos, out = training.load_photos(folder, SMALL), tmp_path / "out"
    go(training.fresh_state(SMALL), photos, Plan(steps=2), out)
    other = replace(SMALL, network=replace(SMALL.network, blocks=(1, 2)))
    with pytest.raises(UsageError, match="another shape"):
        training.resume_point(out, other, photos, Plan(steps=2))
    (folder / "0.png").unlink()
    fewer = training.load_photos(folder, SMALL, without=out)
    with pytest.raises(UsageError, match="other photographs"):
        training.resume_point(out, SMALL, fewer, Plan(steps=2))


@pytest.mark.parametrize("kept", [0, 300, 20_000])
def test_a_checkpoint_cut_short_is_said_in_a_sentence(folder, tmp_path, capsys, kept):
    photos, out = training.load_photos(folder, SMALL), tmp_path / "out"
    go(training.fresh_state(SMALL), photos, Plan(steps=2), out)
    path = out / training.CHECKPOINT
    path.write_bytes(path.read_bytes()[:kept])
    assert run(["train", str(folder), "-o", str(out), "--steps", "4", "--resume"]) == 3
    assert "cannot be read" in capsys.readouterr().err


def test_a_stretch_may_have_other_settings_and_they_are_named(folder, tmp_path):
    photos, out = training.load_photos(folder, SMALL), tmp_path / "out"
    go(training.fresh_state(SMALL), photos, Plan(steps=2), out)
    other = replace(SMALL, batch_size=2)
    assert training.changed_settings(out / training.CHECKPOINT, other) == {"batch_size": (3, 2)}
    state = training.resume_point(out, other, photos, Plan(steps=6))
    assert len(go(state, photos, Plan(steps=6), out, other)) == 5  # from before the decay, at step 1


def test_a_run_from_before_masks_goes_on_without_them(folder, tmp_path):
    photos, out = training.load_photos(folder, SMALL), tmp_path / "out"
    go(training.fresh_state(SMALL), photos, Plan(steps=2), out)
    settings = training.with_network_of(out / training.CHECKPOINT, MASKED)
    assert settings == SMALL
    assert training.resume_point(out, settings, photos, Plan(steps=4)).step == 1
    assert training.with_network_of(tmp_path / "nothing", MASKED) == MASKED


def test_a_checkpoint_of_a_network_that_is_not_known_is_said_in_a_sentence(folder, tmp_path, capsys):
    photos, out = training.load_photos(folder, SMALL), tmp_path / "out"
    go(training.fresh_state(SMALL), photos, Plan(steps=2), out)
    path = out / training.CHECKPOINT
    with safe_open(path, framework="pt") as file:
        record = json.loads(file.metadata()["training"])
    record["settings"]["network"]["takes_sound"] = True
    save_file(load_file(path), path, metadata={"training": json.dumps(record)})
    assert run(["train", str(folder), "-o", str(out), "--steps", "4", "--resume"]) == 3
    assert "another version of diffbcp" in capsys.readouterr().err
