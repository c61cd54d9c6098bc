"""Training on a GPU, which is pretended: the steps of the processor, one wait each, checkpoints for any device."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from pretend import KINDS, Gpu
from training_data import LEVELS, MASKED

from diffbcp_cli import training
from diffbcp_cli.cli import app
from diffbcp_cli.training import Plan

every_kind = pytest.mark.parametrize("kind", KINDS)


def steps(state, photos, settings, out, count):
    plan = Plan(steps=20)
    infos = training.train(state, photos, settings, plan, out, save_every=1e9, validate_every=3)
    return [next(infos) for _ in range(count)]


@every_kind
@pytest.mark.parametrize("settings", [MASKED, LEVELS, replace(MASKED, weight_decay=0.1)], ids=str)
def test_a_step_on_a_gpu_is_that_of_the_processor(kind, settings, folder, tmp_path):
    photos = training.load_photos(folder, settings)
    expected = steps(training.fresh_state(settings), photos, settings, tmp_path / "cpu", 4)
    with Gpu(kind) as gpu:
        state = training.fresh_state(settings, device=torch.device(kind))
        assert state.device == gpu.here
        found = steps(state, photos, settings, tmp_path / kind, 4)
        assert all(p.device == gpu.here for p in state.average.parameters())
    for one, other in zip(found, expected, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
        assert one.gradient_norm == pytest.approx(other.gradient_norm, rel=1e-4)
        assert (one.psnr or {}) == pytest.approx(other.psnr or {}, rel=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_a_step_waits_only_for_what_the_log_says(precision, folder):
    settings = replace(MASKED, precision=precision)
    photos = training.load_photos(folder, settings)
    with Gpu("cuda") as gpu:
        state = training.fresh_state(settings, device=torch.device("cuda"))
        training.take_step(state, photos.train, settings, 0.0)
        for _ in range(3):
            gpu.reset()
            training.take_step(state, photos.train, settings, 0.0)
            assert gpu.waits.total() == 1, gpu.waits
            assert gpu.asynchronous >= 4
    assert not gpu.rough or precision == "bf16"
    assert (gpu.types["convolution torch.bfloat16"] > 0) == (precision == "bf16")


def test_a_checkpoint_of_one_device_goes_on_on_another(folder, tmp_path):
    photos = training.load_photos(folder, MASKED)
    path = tmp_path / "checkpoint.safetensors"
    with Gpu("cuda"):
        state = training.fresh_state(MASKED, device=torch.device("cuda"))
        steps(state, photos, MASKED, tmp_path / "out", 2)
        training.save_state(path, state, MASKED, photos)
        there = steps(state, photos, MASKED, tmp_path / "out", 2)
        again = training.load_state(path, MASKED, photos, torch.device("cuda"))
        assert [i.loss for i in steps(again, photos, MASKED, tmp_path / "out", 2)] == [i.loss for i in there]
    here = steps(training.load_state(path, MASKED, photos), photos, MASKED, tmp_path / "out", 2)
    assert [i.loss for i in here] == pytest.approx([i.loss for i in there], rel=1e-5)


@every_kind
def test_the_command_trains_on_the_device_that_it_is_told(kind, folder, tmp_path):
    words = [
        "train",
        str(folder),
        "-o",
        str(tmp_path / "out"),
        "--steps",
        "2",
        "--batch-size",
        "2",
        "--crop",
        "16",
    ]
    with Gpu(kind) as gpu:
        assert app.run([*words, "--device", kind]) == 0
    assert gpu.types.total() > 0
    assert (tmp_path / "out" / "model.safetensors").exists()
    assert app.run([*words, "--device", "cuda:9"]) == 2
