"""`diffbcp inpaint` and `diffbcp denoise` on single files: what they write, and how they refuse."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import SHORT, outputs, picture
from PIL import Image, ImageCms

from diffbcp_cli.cli.app import run
from diffbcp_cli.photos.photo import read_photo


def test_inpaint_writes_the_files_of_the_contract_and_prints_their_paths(photo, mask, tmp_path, capsys):
    out = tmp_path / "out"
    assert run(["inpaint", str(photo), "--mask", str(mask), "-o", str(out), *SHORT]) == 0
    assert outputs(out) == {"photo.mean.png", "photo.std.tiff", "photo.std.png", "photo.json"}
    printed = capsys.readouterr().out.split()
    assert {Path(line).name for line in printed} == outputs(out)
    with Image.open(out / "photo.mean.png") as mean:
        assert (mean.size, mean.mode) == ((32, 32), "RGB")
    std = tifffile.imread(out / "photo.std.tiff")
    assert std.dtype == np.float32
    assert std.shape == (32, 32, 3)
    assert (std >= 0).all()
    assert std.max() < 1


def test_the_record_says_how_the_result_was_made(photo, mask, tmp_path, capsys):
    out = tmp_path / "out"
    code = run(["inpaint", str(photo), "--mask", str(mask), "-o", str(out), "--seed", "7", *SHORT, "--json"])
    assert code == 0
    printed = json.loads(capsys.readouterr().out)
    stored = json.loads((out / "photo.json").read_text())
    assert printed == stored
    assert stored["seed"] == 7
    assert stored["options"]["rank"] == 6
    assert stored["missing_share"] == pytest.approx(90 / 1024)
    assert len(stored["trace"]["noise_std"]) == 6
    assert stored["noise"]["lower"] <= stored["noise"]["std"] <= stored["noise"]["upper"]
    assert stored["prior"] is None
    assert stored["finished"] is True
    assert stored["versions"]["torch"]


def test_every_extra_result_can_be_asked_for(photo, mask, tmp_path):
    out = tmp_path / "out"
    save = "samples,interval,panel,trace"
    assert run(["inpaint", str(photo), "--mask", str(mask), "-o", str(out), "--save", save, *SHORT]) == 0
    names = {f"photo.{end}" for end in ("samples.npz", "lower.png", "upper.png", "panel.png", "trace.png")}
    assert names <= outputs(out)
    samples = np.load(out / "photo.samples.npz")["samples"]
    assert samples.shape == (1, 32, 32, 3)  # 3 draws after burn-in, every third
    lower, mean, upper = (read_photo(out / f"photo.{n}.png").pixels for n in ("lower", "mean", "upper"))
    assert (lower <= mean).all()
    assert (mean <= upper).all()


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(photo, mask, tmp_path):
    def mean(folder: str, *more: str) -> bytes:
        out = tmp_path / folder
        assert run(["inpaint", str(photo), "--mask", str(mask), "-o", str(out), *SHORT, *more]) == 0
        return (out / "photo.mean.png").read_bytes() + (out / "photo.std.tiff").read_bytes()

    assert mean("a") == mean("b")
    assert mean("a") != mean("c", "--seed", "1")


def test_observed_keep_leaves_known_pixels_as_they_were(photo, mask, tmp_path):
    out = tmp_path / "out"
    assert (
        run(["inpaint", str(photo), "--mask", str(mask), "-o", str(out), "--observed", "keep", *SHORT]) == 0
    )
    before, after = np.asarray(Image.open(photo)), np.asarray(Image.open(out / "photo.mean.png"))
    known = np.asarray(Image.open(mask)) == 0
    assert (before[known] == after[known]).all()
    assert (before[~known] != after[~known]).any()
    assert (tifffile.imread(out / "photo.std.tiff")[known] == 0).all()


def test_output_may_name_a_file(photo, mask, tmp_path):
    out = tmp_path / "new" / "restored.png"
    assert run(["inpaint", str(photo), "--mask", str(mask), "-o", str(out), *SHORT]) == 0
    assert outputs(out.parent) == {"restored.png", "restored.std.tiff", "restored.std.png", "restored.json"}


def test_a_finished_result_is_kept_unless_overwrite(photo, mask, tmp_path, capsys):
    command = ["inpaint", str(photo), "--mask", str(mask), "-o", str(tmp_path / "out"), *SHORT]
    assert run(command) == 0
    before = (tmp_path / "out" / "photo.json").stat().st_mtime_ns
    assert run(command) == 0
    assert (tmp_path / "out" / "photo.json").stat().st_mtime_ns == before
    assert "--overwrite" in capsys.readouterr().err
    assert run([*command, "--overwrite"]) == 0
    assert (tmp_path / "out" / "photo.json").stat().st_mtime_ns > before


def test_denoise_infers_the_noise_or_takes_it(photo, tmp_path):
    assert run(["denoise", str(photo), "-o", str(tmp_path / "a"), *SHORT]) == 0
    assert run(["denoise", str(photo), "-o", str(tmp_path / "b"), "--sigma", "0.05", *SHORT]) == 0
    free = json.loads((tmp_path / "a" / "photo.json").read_text())["noise"]
    given = json.loads((tmp_path / "b" / "photo.json").read_text())["noise"]
    assert given["std"] == pytest.approx(0.05)
    assert free["std"] != pytest.approx(0.05)


def test_sixteen_bit_rgba_with_a_profile_keeps_depth_alpha_and_profile(tmp_path):
    import cv2

    path = tmp_path / "deep.png"
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    pixels = (picture(33, 50) * 65535).astype(np.uint16)
    alpha = np.full((33, 50, 1), 40000, np.uint16)
    cv2.imwrite(str(path), np.concatenate([pixels[..., ::-1], alpha], -1))
    from diffbcp_cli.photos.photo import write_photo

    plain = read_photo(path)
    import dataclasses

    write_photo(path, plain.pixels, dataclasses.replace(plain, icc=profile))
    assert run(["denoise", str(path), "-o", str(tmp_path / "out"), *SHORT]) == 0
    result = read_photo(tmp_path / "out" / "deep.mean.png")
    assert (result.depth, result.icc) == ("uint16", profile)
    assert result.alpha is not None
    assert np.allclose(result.alpha, 40000 / 65535)


def test_a_turned_grey_jpeg_comes_out_upright(tmp_path):
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6
    grey = (picture(17, 31, 1)[..., 0] * 255).astype(np.uint8)
    Image.fromarray(grey).save(path, exif=exif)
    assert run(["denoise", str(path), "-o", str(tmp_path / "out"), *SHORT]) == 0
    with Image.open(tmp_path / "out" / "turned.mean.png") as mean:
        assert (mean.mode, mean.size) == ("L", (17, 31))
        assert mean.getexif().get(0x0112, 1) == 1
    assert tifffile.imread(tmp_path / "out" / "turned.std.tiff").shape == (31, 17)


def test_a_float_tiff_comes_out_as_png_and_as_float_tiff(tmp_path):
    path = tmp_path / "science.tiff"
    tifffile.imwrite(path, picture(20, 24, 1)[..., 0].astype(np.float32))
    assert run(["denoise", str(path), "-o", str(tmp_path / "out"), *SHORT]) == 0
    mean = tifffile.imread(tmp_path / "out" / "science.mean.tiff")
    assert (mean.dtype, mean.shape) == (np.float32, (20, 24))
    assert read_photo(tmp_path / "out" / "science.mean.png").depth == "uint16"


def test_nan_inside_the_mask_is_filled_and_outside_refused(tmp_path, capsys):
    values = picture(20, 24, 1)[..., 0].astype(np.float32)
    values[3:6, 4:9] = np.nan
    photo, mask = tmp_path / "holes.npy", tmp_path / "mask.npy"
    np.save(photo, values)
    np.save(mask, np.isfinite(values))
    assert run(["inpaint", str(photo), "--mask", str(mask), "-o", str(tmp_path / "out"), *SHORT]) == 0
    assert np.isfinite(tifffile.imread(tmp_path / "out" / "holes.mean.tiff")).all()
    assert run(["denoise", str(photo), "-o", str(tmp_path / "no"), *SHORT]) == 3
    assert "NaN" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()


def test_transparent_pixels_are_filled_and_come_out_opaque(tmp_path):
    pixels = (picture() * 255).astype(np.uint8)
    alpha = np.full((32, 32, 1), 255, np.uint8)
    alpha[4:9, 4:9] = 0
    path = tmp_path / "holes.png"
    Image.fromarray(np.concatenate([pixels, alpha], -1)).save(path)
    assert run(["inpaint", str(path), "--mask", "alpha", "-o", str(tmp_path / "out"), *SHORT]) == 0
    mean = np.asarray(Image.open(tmp_path / "out" / "holes.mean.png"))
    assert (mean[..., 3] == 255).all()


def refused(arguments: list[str], code: int, words: list[str], out: Path, capsys) -> None:
    assert run([*arguments, "-o", str(out), *SHORT]) == code
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.out == ""
    assert all(word in said.err for word in words), said.err
    assert not outputs(out)


def test_bad_masks_are_refused(photo, tmp_path, capsys):
    other, full, empty = (tmp_path / f"{n}.png" for n in ("other", "full", "empty"))
    Image.fromarray(np.zeros((20, 40), np.uint8)).save(other)
    Image.fromarray(np.full((32, 32), 255, np.uint8)).save(full)
    Image.fromarray(np.zeros((32, 32), np.uint8)).save(empty)
    out = tmp_path / "out"
    refused(["inpaint", str(photo), "--mask", str(other)], 3, ["40x20", "32x32"], out, capsys)
    refused(["inpaint", str(photo), "--mask", str(full)], 3, ["every pixel"], out, capsys)
    refused(["inpaint", str(photo), "--mask", str(empty)], 3, ["no pixel"], out, capsys)
    refused(["inpaint", str(photo), "--mask", str(tmp_path / "absent.png")], 3, ["absent.png"], out, capsys)
    refused(["inpaint", str(photo), "--mask", "alpha"], 3, ["no transparency"], out, capsys)


@pytest.mark.parametrize("size", [(1, 1), (900, 3), (15, 40)])
def test_pictures_that_are_too_small_are_refused(size, tmp_path, capsys):
    path = tmp_path / "small.png"
    Image.new("RGB", size, "red").save(path)
    refused(["denoise", str(path)], 3, [f"{size[0]}x{size[1]}"], tmp_path / "out", capsys)


def test_files_that_are_no_single_picture_are_refused(photo, tmp_path, capsys):
    out = tmp_path / "out"
    truncated, text, gif = (tmp_path / n for n in ("cut.png", "note.png", "moving.gif"))
    truncated.write_bytes(photo.read_bytes()[:200])
    text.write_text("not a picture")
    frames = [Image.new("RGB", (32, 32), colour) for colour in ("red", "green", "blue")]
    frames[0].save(gif, save_all=True, append_images=frames[1:])
    refused(["denoise", str(truncated)], 3, ["cut.png"], out, capsys)
    refused(["denoise", str(text)], 3, ["note.png"], out, capsys)
    refused(["denoise", str(gif)], 3, ["moving.gif"], out, capsys)
    refused(["denoise", str(tmp_path / "absent.png")], 3, ["absent.png"], out, capsys)


def test_cmyk_and_palette_are_converted_and_said(tmp_path, capsys):
    rgb = Image.fromarray((picture() * 255).astype(np.uint8))
    for name, converted in (("ink.jpg", rgb.convert("CMYK")), ("few.png", rgb.quantize(16))):
        converted.save(tmp_path / name)
        talkative = [option for option in SHORT if option != "--quiet"]
        assert run(["denoise", str(tmp_path / name), "-o", str(tmp_path / "out"), *talkative]) == 0
        assert "RGB" in capsys.readouterr().err
        with Image.open(tmp_path / "out" / f"{Path(name).stem}.mean.png") as mean:
            assert mean.mode == "RGB"


def test_an_output_folder_that_cannot_be_made_is_refused(photo, tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert run(["denoise", str(photo), "-o", str(blocked / "out"), *SHORT]) == 2
    assert run(["denoise", str(photo), "-o", "/proc/nowhere", *SHORT]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--burn-in", "10", "--iterations", "10"], "burn-in"),
        (["--device", "gpu9"], "device"),
        (["--device", "cuda:99"], "GPU"),
        (["--tensorize", "cube"], "tensorize"),
        (["--save", "everything"], "everything"),
        (["--rank", "0"], "rank"),
        (["--iterations", "many"], "iterations"),
        (["--stride", "40"], "stride"),
        (["--coupling", "-1"], "coupling"),
        (["--nonsense"], "nonsense"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options, word, photo, tmp_path, capsys):
    quiet = ["--prior", "none", "--quiet"]
    assert run(["denoise", str(photo), "-o", str(tmp_path / "out"), *quiet, *options]) == 2
    said = capsys.readouterr()
    assert word in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "out").exists()


def test_options_may_come_from_a_file_and_what_is_typed_wins(photo, tmp_path, capsys):
    config = tmp_path / "run.toml"
    config.write_text('prior = "none"\niterations = 5\nburn-in = 2\nrank = 4\n')
    out = ["-o", str(tmp_path / "out"), "--quiet", "--json", "--config", str(config)]
    assert run(["denoise", str(photo), *out, "--rank", "5"]) == 0
    options = json.loads(capsys.readouterr().out)["options"]
    assert (options["iterations"], options["rank"]) == (5, 5)
    config.write_text("iteration = 5\n")
    assert run(["denoise", str(photo), *out, "--overwrite"]) == 2
    assert "iterations" in capsys.readouterr().err


def test_an_unknown_prior_is_a_model_error(photo, tmp_path, capsys):
    code = run(["denoise", str(photo), "-o", str(tmp_path / "out"), "--prior", "no-such-prior", "--quiet"])
    assert code == 4
    assert not outputs(tmp_path / "out")
    assert "Traceback" not in capsys.readouterr().err


def test_an_inverted_looking_mask_is_warned_about(photo, tmp_path, capsys):
    damaged = np.asarray(Image.open(photo)).copy()
    damaged[8:14, 10:25] = 0
    hole = np.full((32, 32), 255, np.uint8)
    hole[8:14, 10:25] = 0  # the wrong way round
    Image.fromarray(damaged).save(photo)
    Image.fromarray(hole).save(tmp_path / "mask.png")
    talkative = [option for option in SHORT if option != "--quiet"]
    run(["inpaint", str(photo), "--mask", str(tmp_path / "mask.png"), "-o", str(tmp_path / "o"), *talkative])
    assert "--mask-polarity" in capsys.readouterr().err


def test_an_interrupted_run_saves_what_it_has_and_says_so(photo, tmp_path, monkeypatch):
    from diffbcp_cli.methods import split_gibbs as sampler

    real = sampler.SplitGibbs.step

    def step(self, chain, *, rng):
        if chain.step == 4:
            raise KeyboardInterrupt
        return real(self, chain, rng=rng)

    monkeypatch.setattr(sampler.SplitGibbs, "step", step)
    assert run(["denoise", str(photo), "-o", str(tmp_path / "out"), *SHORT]) == 130
    record = json.loads((tmp_path / "out" / "photo.json").read_text())
    assert record["finished"] is False
    assert record["iterations"] == 4
    assert (tmp_path / "out" / "photo.mean.png").exists()
