"""Training: exact resume, the schedule, bad photographs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from diffbcp_cli import training
from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import InputError, UsageError
from diffbcp_cli.priors.networks.natural import NaturalConfig
from diffbcp_cli.training import Plan, TrainSettings
from diffbcp_cli.training.folder import write_model_folder

SMALL = TrainSettings(
    network=NaturalConfig(channels=(8, 12), blocks=(1, 1), embedding_channels=8),
    batch_size=3,
    crop=16,
    warm_up=4,
)


@pytest.fixture
def folder(tmp_path):
    """Twelve smooth pictures of different sizes."""
    rng = np.random.default_rng(0)
    for index in range(12):
        coarse = Image.fromarray(rng.integers(0, 256, (4, 5, 3), dtype=np.uint8))
        coarse.resize((40 + index, 36), Image.Resampling.BICUBIC).save(tmp_path / f"{index}.png")
    return tmp_path


def go(state, photos, plan, out, settings=SMALL):
    return list(training.train(state, photos, settings, plan, out, save_every=1e9, validate_every=4))


MASKED = replace(SMALL, network=replace(SMALL.network, takes_mask=True))


@pytest.mark.parametrize(
    "settings", [SMALL, replace(SMALL, precision="bf16"), MASKED], ids=["fp32", "bf16", "masked"]
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


def test_the_loss_goes_down(folder, tmp_path):
    fast = replace(SMALL, learning_rate=1e-2, batch_size=8)
    photos = training.load_photos(folder, fast)
    infos = go(training.fresh_state(fast), photos, Plan(steps=160), tmp_path / "out", fast)
    losses = [info.loss for info in infos]
    assert np.mean(losses[-20:]) < 0.8 * np.mean(losses[:20])


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
    wider = replace(SMALL, network=replace(SMALL.network, channels=(8, 16)))
    with pytest.raises(UsageError, match="another shape"):
        training.fresh_state(wider, before.state_dict())
    shallower = replace(SMALL, network=replace(SMALL.network, channels=(8,), blocks=(1,)))
    with pytest.raises(UsageError, match="another shape"):
        training.fresh_state(shallower, before.state_dict())


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


def test_bad_photographs_are_skipped_and_named(folder):
    (folder / "broken.jpg").write_bytes(b"not a photograph")
    Image.new("RGB", (8, 40)).save(folder / "narrow.png")
    (folder / "notes.txt").write_text("not looked at")
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


def test_the_share_of_masked_crops_is_a_share(folder, tmp_path, capsys):
    assert run(["train", str(folder), "-o", str(tmp_path / "out"), "--mask-share", "1.5"]) == 2
    assert "--mask-share" in capsys.readouterr().err


def test_a_stretch_may_have_other_settings_and_they_are_named(folder, tmp_path):
    photos, out = training.load_photos(folder, SMALL), tmp_path / "out"
    go(training.fresh_state(SMALL), photos, Plan(steps=2), out)
    other = replace(SMALL, batch_size=2)
    assert training.changed_settings(out / training.CHECKPOINT, other) == {"batch_size": (3, 2)}
    state = training.resume_point(out, other, photos, Plan(steps=6))
    assert len(go(state, photos, Plan(steps=6), out, other)) == 5  # from before the decay, at step 1


@pytest.mark.parametrize("bad", [{}, {"steps": 3, "minutes": 1.0}, {"steps": 0}, {"minutes": -1.0}])
def test_a_plan_is_steps_or_minutes(bad):
    with pytest.raises(UsageError):
        Plan(**bad)


def test_grey_crops_get_grey_noise(folder):
    settings = TrainSettings(network=SMALL.network, batch_size=40, crop=16, grey_share=0.5)
    photos = training.load_photos(folder, settings)
    batch = training.draw_batch(photos.train, settings, rng=torch.Generator().manual_seed(0))
    clean, noise = batch.clean, batch.noisy - batch.clean
    grey = (clean == clean[:, :1]).flatten(1).all(1)
    assert 10 <= int(grey.sum()) <= 30
    assert torch.allclose(noise[grey], noise[grey][:, :1].expand(-1, 3, -1, -1), atol=1e-6)
    assert not torch.allclose(noise[~grey][:, 0], noise[~grey][:, 1], atol=1e-2)


def test_the_folder_of_a_new_prior(folder, tmp_path):
    photos, plan, out = training.load_photos(folder, SMALL), Plan(steps=4), tmp_path / "out"
    state = training.fresh_state(SMALL)
    go(state, photos, plan, out)
    written = write_model_folder(out, state, SMALL, photos, plan, source="photos")
    assert [path.name for path in written] == [
        "config.json",
        "model.safetensors",
        "README.md",
        "training.png",
    ]
    assert "11 photographs" in (out / "README.md").read_text()
    with Image.open(out / "training.png") as plot:
        assert plot.width > 400
    weights = load_file(out / "model.safetensors")
    assert weights.keys() == state.average.state_dict().keys()
    assert not list(out.rglob("*.part"))


@pytest.mark.slow
def test_the_command_trains_and_refuses_to_start_over(folder, tmp_path, capsys):
    arguments = ["train", str(folder), "-o", str(tmp_path / "out"), "--crop", "16", "--batch-size", "1"]
    assert run([*arguments, "--steps", "2"]) == 0
    assert str(Path(tmp_path / "out" / "model.safetensors")) in capsys.readouterr().out
    assert run([*arguments, "--steps", "2"]) == 2
    assert run([*arguments, "--steps", "3", "--resume"]) == 0
    assert run([*arguments, "--steps", "3", "--resume"]) == 2
    assert "end of this plan" in capsys.readouterr().err
    arguments[3] = str(tmp_path / "on")
    assert run([*arguments, "--steps", "1", "--from", str(tmp_path / "out"), "--precision", "fp32"]) == 0
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("on", "out"))
    assert all((ours[key] - theirs[key]).abs().max() < 0.01 for key in theirs)
    assert run([*arguments, "--steps", "2", "--resume", "--from", "natural"]) == 2


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


def test_a_run_from_before_masks_goes_on_without_them(folder, tmp_path):
    photos, out = training.load_photos(folder, SMALL), tmp_path / "out"
    go(training.fresh_state(SMALL), photos, Plan(steps=2), out)
    settings = training.with_network_of(out / training.CHECKPOINT, MASKED)
    assert settings == SMALL
    assert training.resume_point(out, settings, photos, Plan(steps=4)).step == 1
    assert training.with_network_of(tmp_path / "nothing", MASKED) == MASKED


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
