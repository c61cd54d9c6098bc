"""What a format or a name cannot hold is said before the first iteration, and mistakes are said in a sentence."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tifffile
import torch
from photo_files import save
from PIL import Image
from safetensors.torch import load_file, save_file

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import InputError, ModelError, UsageError
from diffbcp_cli.photos import checkpoints, results
from diffbcp_cli.photos.files import harmless
from diffbcp_cli.photos.photo import check_side, read_photo, write_photo
from diffbcp_cli.priors.load import fit_weights
from diffbcp_cli.priors.networks.natural import NaturalConfig
from diffbcp_cli.training.settings import Plan, TrainSettings

TINY = ["--prior", "none", "--iterations", "2", "--burn-in", "1", "--rank", "4", "--quiet"]


def test_a_picture_too_wide_for_its_format_is_refused_before_the_work(tmp_path, capsys):
    Image.fromarray(np.zeros((16, 16400), np.uint8)).save(tmp_path / "wide.png")
    assert run(["denoise", str(tmp_path / "wide.png"), "-o", str(tmp_path / "x.webp"), *TINY]) == 2
    assert "holds at most 16383 pixels a side" in capsys.readouterr().err
    apply = ["mask", "apply", str(tmp_path / "wide.png"), "--noise", "0.1", "-o", str(tmp_path / "y.webp")]
    assert run(apply) == 2
    assert "holds at most 16383 pixels a side" in capsys.readouterr().err
    photo = read_photo(tmp_path / "wide.png")
    with pytest.raises(UsageError, match="65500"):
        check_side(Path("x.jpg"), replace(photo, pixels=np.zeros((1, 65536, 1), np.float32)))


def test_an_icc_tag_of_an_odd_type_is_left_out(tmp_path):
    pixels = np.zeros((16, 16), np.uint16)
    tifffile.imwrite(tmp_path / "a.tiff", pixels, extratags=[(34675, "s", 0, "profile", True)])
    photo = read_photo(tmp_path / "a.tiff")
    assert photo.icc is None or isinstance(photo.icc, bytes)
    write_photo(tmp_path / "b.png", photo.pixels, photo)


def test_a_profile_that_no_png_can_hold_is_left_out(tmp_path):
    photo = replace(read_photo(save(tmp_path / "a.png")), icc=os.urandom(2**20 + 5))
    write_photo(tmp_path / "b.png", photo.pixels, photo)
    assert read_photo(tmp_path / "b.png").icc is None


def test_a_result_whose_name_is_a_folder_is_refused_before_the_work(tmp_path, capsys):
    (tmp_path / "out" / "a.std.png").mkdir(parents=True)
    assert run(["denoise", str(save(tmp_path / "a.png")), "-o", str(tmp_path / "out"), *TINY]) == 2
    assert "is a folder" in capsys.readouterr().err


def test_a_record_has_no_nan():
    plain = results.finite({"a": float("nan"), "b": [1.0, float("inf")], "c": "x"})
    assert plain == {"a": None, "b": [1.0, None], "c": "x"}


@pytest.mark.parametrize("prior", ["./typo", "~nobody-here", "x" * 300, "y/" + "x" * 300])
def test_a_mistyped_prior_is_a_sentence(tmp_path, prior, capsys):
    photo = save(tmp_path / "a.png")
    assert run(["denoise", str(photo), "-o", str(tmp_path / "out"), "--prior", prior, "--quiet"]) == 4
    assert capsys.readouterr().err.startswith("error: ")


MISTAKES = {
    "rank": ["--rank", "2147483648"],
    "sigma": ["--sigma", "1e-308"],
    "shard": ["--shard", "1/" + "9" * 5000],
    "threads": ["--threads", "99999999999"],
    "patch": ["--patch-size", "99999999"],
    "seed": ["--seed", "9" * 40],
}


@pytest.mark.parametrize("words", MISTAKES.values(), ids=MISTAKES)
def test_a_number_beyond_all_bounds_is_refused(tmp_path, words, capsys):
    assert (
        run(
            ["denoise", str(save(tmp_path / "a.png")), "-o", str(tmp_path / "out"), "--prior", "none", *words]
        )
        == 2
    )
    assert "Traceback" not in capsys.readouterr().err


def test_a_name_of_three_hundred_letters_is_a_sentence(tmp_path, capsys):
    for words in (
        ["denoise", "x" * 300 + ".png"],
        ["eval", "x" * 300, str(tmp_path)],
        ["denoise", "x" * 5000],
    ):
        assert run([*words]) in (2, 3)
        assert "error" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_a_configuration_without_an_end_is_refused(tmp_path, kind, capsys):
    path = tmp_path / "config.toml"
    os.mkfifo(path) if kind == "pipe" else path.symlink_to("/dev/zero")
    assert run(["denoise", str(save(tmp_path / "a.png")), "--config", str(path)]) == 2
    assert "is not a file of options" in capsys.readouterr().err


def test_tiles_of_one_pixel_are_refused_at_once(tmp_path):
    tifffile.imwrite(tmp_path / "a.tiff", np.zeros((32, 32), np.uint16), tile=(16, 16))
    data = bytearray((tmp_path / "a.tiff").read_bytes())
    for tag in (322, 323):
        at = data.index(tag.to_bytes(2, "little"), 8)
        data[at + 8 : at + 12] = (1).to_bytes(4, "little")
    (tmp_path / "a.tiff").write_bytes(data)
    with pytest.raises(InputError):
        read_photo(tmp_path / "a.tiff")


def test_damaged_lzma_is_a_sentence(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 65535, (32, 32)).astype(np.uint16)
    tifffile.imwrite(tmp_path / "a.tiff", pixels, compression="lzma")
    data = bytearray((tmp_path / "a.tiff").read_bytes())
    at = data.index(b"\xfd7zXZ")
    data[at + 20 : at + 60] = bytes(40)
    (tmp_path / "a.tiff").write_bytes(data)
    with pytest.raises(InputError):
        read_photo(tmp_path / "a.tiff")


def test_networks_too_large_to_build_are_counted_and_refused(tmp_path, capsys):
    for bad in (
        {"channels": (6000, 6000, 6000), "blocks": (1, 2, 2)},
        {"channels": (8,), "blocks": (10**9,)},
        {"channels": (-8,), "blocks": (1,)},
        {"channels": ("8",), "blocks": (1,)},
        {"channels": (1, 1), "blocks": (8192, 8192)},
    ):
        with pytest.raises(ValueError):
            NaturalConfig(**bad)
    for number, config in enumerate(
        (
            {"architecture": "adm", "num_res_blocks": 10**9},
            {"architecture": "adm", "model_channels": 32 * 10**7},
            {"architecture": "ddpm", "layers_per_block": 10**9},
            {"architecture": "ddpm", "block_out_channels": [10**9, 32, 32, 32]},
            {"architecture": "drunet", "blocks": 10**9},
            {"architecture": "ffdnet", "layers": 10**9},
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        save_file({}, folder / "model.safetensors")
        assert run(["models", "verify", str(folder)]) == 4
        assert "sizes are whole numbers" in capsys.readouterr().err


def test_weights_that_are_not_numbers_are_refused():
    network = torch.nn.Linear(2, 2)
    state = {name: value.clone() for name, value in network.state_dict().items()}
    state["bias"][0] = float("nan")
    with pytest.raises(ModelError, match="damaged"):
        fit_weights(network, state)
    with pytest.raises(ModelError, match="damaged"):
        fit_weights(network, {**network.state_dict(), "weight": torch.eye(2).to_sparse()})
    for kind in (torch.complex64, torch.int8, torch.bool, torch.float8_e4m3fn):
        with pytest.raises(ModelError, match="damaged"):
            fit_weights(network, {**network.state_dict(), "weight": torch.eye(2).to(kind)})
    with pytest.raises(ModelError, match="do not fit"):  # whose numbers nobody looks at
        fit_weights(network, {**network.state_dict(), "more": torch.zeros(1).expand(10**13)})
    counting = torch.nn.BatchNorm1d(2)
    fit_weights(counting, counting.state_dict())
    assert counting.num_batches_tracked.dtype == torch.int64


def test_a_checkpoint_that_was_changed_is_refused(tmp_path):
    path = checkpoints.write(tmp_path / "a.safetensors", {"x": torch.ones(3)}, {"steps": 1})
    assert checkpoints.read(path)[1]["steps"] == 1
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        texts = file.metadata()
    tensors = load_file(path)
    tensors["x"][1] = 5
    save_file(tensors, path, metadata=texts)
    with pytest.raises(InputError, match="checksum"):
        checkpoints.read(path)


def test_no_cell_of_a_table_is_a_formula():
    assert harmless("=cmd|' /C calc'!A0.png").startswith("'=")
    assert harmless("photo.png") == "photo.png"
    assert harmless(-1.5) == -1.5


def test_training_with_nan_is_refused():
    for make in (lambda: TrainSettings(learning_rate=float("nan")), lambda: Plan(minutes=float("nan"))):
        with pytest.raises(UsageError):
            make()


def test_one_damaged_file_fails_alone_in_eval_and_any_name_is_written(tmp_path, capsys):
    names = ["a", "b", os.fsdecode(b"\xff\x1b[31m")]
    for number, name in enumerate(names):
        save(tmp_path / "truth" / f"{name}.png", number)
        save(tmp_path / "out" / f"{name}.mean.png", number + 9)
    (tmp_path / "out" / "a.samples.npz").write_bytes(b"PK\3\4 broken")
    (tmp_path / "out" / "a.json").write_text("[" * 10**5)
    more = [f"--{kind}={tmp_path / f'report.{kind}'}" for kind in ("csv", "markdown", "html")]
    code = run(["eval", str(tmp_path / "out"), str(tmp_path / "truth"), "--lpips", "none", *more])
    said = capsys.readouterr()
    assert code == 1, said.err
    assert "\x1b" not in said.out + said.err
    assert json.dumps("a")[1:-1] in said.err
    assert b"\xff" in (tmp_path / "report.csv").read_bytes()


@pytest.mark.parametrize("name", ["a b; touch owned #.png", "$(touch owned).png", "-rf.png", "it's.png"])
def test_a_command_that_is_suggested_can_be_typed_whatever_the_names_are(tmp_path, monkeypatch, name, capsys):
    monkeypatch.chdir(tmp_path)
    save(Path(name))
    Image.new("L", (20, 20)).save("small.png")
    with Image.open(name) as picture:
        Image.new("L", picture.size).save("black.png")
    Path(name).with_suffix("").mkdir()
    empty = Path(name).stem
    for words in (
        ["inpaint", "-m", "small.png", "--", name],
        ["inpaint", "-m", "black.png", "--", name],
        ["denoise", "--", empty],
        ["mask", "show", "-m", empty, "-o", "x.png", "--", name],
        ["denoise", "small.png", "--prior", f"./{name}"],
    ):
        assert run(words) in (2, 3, 4)
        said = capsys.readouterr().err.replace("\n", " ")
        assert "try:" in said, said
        typed = shlex.split(said.partition("try:")[2].replace("--prior ", "").strip())
        wanted = {f"./{one}" if one[0] == "-" else one for one in (name, empty, ".")}
        assert wanted & {*typed}, (words, typed)


@pytest.mark.parametrize("failure", [RuntimeError("an encoder"), OSError(28, "No space left on device")])
def test_a_save_that_fails_keeps_the_work_and_resume_goes_on_to_the_same_bytes(
    tmp_path, monkeypatch, capsys, failure
):
    photo, out = save(tmp_path / "a.png"), tmp_path / "out"
    whole = ["denoise", str(photo), *TINY, "--iterations", "6", "--burn-in", "2"]
    assert run([*whole, "-o", str(tmp_path / "whole")]) == 0
    command = [*whole, "-o", str(out), "--checkpoint-every", "0.000001s"]

    def fail(*ignored, **also):
        raise failure

    with monkeypatch.context() as context:
        context.setattr("diffbcp_cli.photos.results.images.encode_std", fail)
        assert run(command) == 3
    assert "Traceback" not in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["a.checkpoint.safetensors"]
    assert run([*command, "--resume"]) == 0
    for name in ("a.mean.png", "a.std.tiff"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (out / "a.checkpoint.safetensors").exists()
