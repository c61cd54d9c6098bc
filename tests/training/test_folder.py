"""The folder of a new prior, and the command that writes it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import load_file, save_file
from training_data import LEVELS, MASKED, SMALL, go

from diffbcp_cli import training
from diffbcp_cli.cli.app import run
from diffbcp_cli.priors.networks.natural import Natural
from diffbcp_cli.training import Plan
from diffbcp_cli.training.folder import model_card, write_model_folder


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


def test_the_card_holds_what_is_known_about_the_run(folder):
    photos, state = training.load_photos(folder, MASKED), training.fresh_state(MASKED)
    state.step, state.seconds = 1234, 5400.0
    card = model_card("my-prior", state, MASKED, photos, Plan(steps=2468), source="R&D <2026>")
    assert "from a folder named `R&D <2026>`" in card  # Markdown: nothing is escaped
    assert "1,234 steps in 1.50 hours (50% of the plan)" in card
    assert "50% of the crops have missing entries" in card
    assert "too few photographs to hold any out" in card
    state.validations.append((1234, {"15": 30.0, "25": 27.456}))
    card = model_card("my-prior", state, SMALL, photos, Plan(steps=2468), source="photos")
    assert "| noise | 15 | 25 |\n| --- | --- | --- |\n| PSNR | 30.00 | 27.46 |\n" in card
    others = {"FFDNet": {"15": 31.0, "25": 28.0}}
    card = model_card("my-prior", state, SMALL, photos, Plan(steps=2468), source="photos", others=others)
    assert "| PSNR | 30.00 | 27.46 |\n| FFDNet | 31.00 | 28.00 |\n" in card
    assert "no missing entries" in card
    assert "weight decay" not in card
    assert "{" not in card


def test_the_card_names_a_recipe_that_is_not_the_usual_one(folder):
    settings = replace(LEVELS, weight_decay=0.2, relative=True)
    photos, state = training.load_photos(folder, settings), training.fresh_state(settings)
    card = model_card("my-prior", state, settings, photos, Plan(steps=9), source="photos")
    assert "learning rate of 0.001, weight decay 0.2 of Muon's weights, warm-up" in card
    assert "The error of each crop counts relative to its size." in card
    assert "50% of the crops have entries with more noise, or missing ones (60% of them)" in card


@pytest.mark.parametrize("name", ["README.md", "config.json", "model.safetensors", "training.png"])
def test_the_command_replaces_no_file_of_others(folder, tmp_path, capsys, name):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("theirs")
    assert run(["train", str(folder), "-o", str(tmp_path / "out"), "--crop", "16", "--steps", "1"]) == 2
    assert "the new prior would replace it" in capsys.readouterr().err
    assert (tmp_path / "out" / name).read_text() == "theirs"
    assert len(list((tmp_path / "out").iterdir())) == 1


@pytest.mark.slow
def test_the_command_trains_and_refuses_to_start_over(folder, tmp_path, capsys):
    arguments = ["train", str(folder), "-o", str(tmp_path / "out"), "--crop", "16", "--batch-size", "1"]
    assert run([*arguments, "--steps", "2"]) == 0
    assert str(Path(tmp_path / "out" / "model.safetensors")) in capsys.readouterr().out
    assert run([*arguments, "--steps", "2"]) == 2
    assert run([*arguments, "--steps", "3", "--resume"]) == 0
    assert run([*arguments, "--steps", "3", "--resume"]) == 2
    assert "has finished this plan" in capsys.readouterr().err
    arguments[3] = str(tmp_path / "on")
    assert run([*arguments, "--steps", "1", "--from", str(tmp_path / "out"), "--precision", "fp32"]) == 0
    ours, theirs = (load_file(tmp_path / name / "model.safetensors") for name in ("on", "out"))
    assert all((ours[key] - theirs[key]).abs().max() < 0.01 for key in theirs)
    assert run([*arguments, "--steps", "2", "--resume", "--from", "natural"]) == 2


def test_the_command_keeps_the_shape_of_the_prior_that_it_begins_with(folder, tmp_path):
    network = Natural(replace(SMALL.network, takes_mask=True, filler_channels=(4, 6)))
    first = tmp_path / "first"
    first.mkdir()
    weights = {name: value.contiguous() for name, value in network.state_dict().items()}
    save_file(weights, first / "model.safetensors")
    config = {"architecture": "natural", **network.config.options()}
    (first / "config.json").write_text(json.dumps(config))
    arguments = [
        "train",
        str(folder),
        "--crop",
        "16",
        "--batch-size",
        "1",
        "--steps",
        "1",
        "--from",
        str(first),
    ]
    assert run([*arguments, "-o", str(tmp_path / "white")]) == 0
    assert json.loads((tmp_path / "white" / "config.json").read_text()) == config
    assert run([*arguments, "-o", str(tmp_path / "camera"), "--noise", "camera"]) == 0
    made = json.loads((tmp_path / "camera" / "config.json").read_text())
    assert (made["blind"], made["channels"], made["takes_mask"]) == (True, config["channels"], False)
