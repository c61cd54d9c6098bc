"""`diffbcp mask`: files out, the path on stdout, talk on stderr, exit codes as promised."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from PIL import Image

from diffbcp_cli.cli import mask as mask_cli
from diffbcp_cli.cli.app import run
from diffbcp_cli.photos import mask_kinds
from diffbcp_cli.photos.masks import read_mask
from diffbcp_cli.photos.photo import read_photo


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    y, x = np.mgrid[:40, :56]
    picture = np.stack([4 * x, 5 * y, 100 + x + y], axis=-1).astype(np.uint8)
    Image.fromarray(picture).save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


@pytest.fixture
def mask(tmp_path: Path, photo: Path) -> Path:
    assert (
        run(["mask", "make", "--kind", "box", "--like", str(photo), "-o", str(tmp_path / "mask.png"), "-q"])
        == 0
    )
    return tmp_path / "mask.png"


def ok(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    capsys.readouterr()
    assert run(["mask", *map(str, arguments)]) == 0
    return capsys.readouterr()


def fails(capsys: pytest.CaptureFixture[str], code: int, *arguments: object) -> str:
    capsys.readouterr()
    assert run(["mask", *map(str, arguments)]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return " ".join(err.split())


def test_the_choices_are_those_of_the_library() -> None:
    assert get_args(mask_cli.Kind) == mask_kinds.KINDS
    assert get_args(mask_cli.Recipe) == mask_kinds.RECIPES


def test_make_says_the_share_and_prints_the_path(
    tmp_path: Path, photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "new" / "m.png"
    options = ["make", "--kind", "uniform", "--missing", 0.9, "--like", photo, "--seed", 1, "-o", target]
    out, err = ok(capsys, *options)
    assert out == f"{target}\n"
    assert err == "mask: 90.0 % of the entries will be filled\n"
    first = target.read_bytes()
    out, err = ok(capsys, *options, "--quiet")
    assert (out, err) == (f"{target}\n", "")
    assert target.read_bytes() == first
    observed = read_mask(target, read_photo(photo))
    assert np.count_nonzero(~observed) == round(0.9 * observed.size)


def test_make_reports_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = ok(
        capsys, "make", "--recipe", "paper-stripe", "--size", "100x50", "-o", tmp_path / "m.npy", "--json"
    )
    facts = json.loads(out)
    assert facts["path"] == str(tmp_path / "m.npy")
    assert facts["missing_share"] == pytest.approx(0.51)
    assert (facts["width"], facts["height"], facts["channels"]) == (100, 50, 3)
    assert (facts["recipe"], facts["seed"]) == ("paper-stripe", 0)
    assert np.load(tmp_path / "m.npy").shape == (50, 100)


def test_make_takes_the_channels_of_a_grey_photo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Image.new("L", (20, 30)).save(tmp_path / "grey.png")
    out, err = ok(
        capsys,
        "make",
        "--recipe",
        "paper-uniform-0.9",
        "--like",
        tmp_path / "grey.png",
        "-o",
        tmp_path / "m.png",
        "--json",
    )
    assert json.loads(out)["channels"] == 1
    assert "90.0 % of the pixels" in err
    with Image.open(tmp_path / "m.png") as picture:
        assert (picture.mode, picture.size) == ("L", (20, 30))


@pytest.mark.parametrize("kind", mask_kinds.KINDS)
def test_make_any_kind(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ok(capsys, "make", "--kind", kind, "--size", "64x48", "--missing", "0.3", "-o", tmp_path / "m.png")
    with Image.open(tmp_path / "m.png") as picture:
        assert picture.size == (64, 48)


def test_apply_adds_noise_and_blanks(
    tmp_path: Path, photo: Path, mask: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = ok(capsys, "apply", photo, "--mask", mask, "--noise", 0.025, "-o", tmp_path / "observed.png")
    assert out == f"{tmp_path / 'observed.png'}\n"
    assert "of the pixels will be filled" in err
    clean, observed = read_photo(photo), read_photo(tmp_path / "observed.png")
    known = read_mask(mask, clean)
    assert observed.depth == "uint8"
    assert (observed.pixels[~known] == 0).all()
    inside = known & (clean.pixels > 0.1) & (clean.pixels < 0.9)
    assert (observed.pixels - clean.pixels)[inside].std() == pytest.approx(0.025, rel=0.1)


@pytest.mark.parametrize("suffix", [".tiff", ".npy"])
def test_apply_does_not_clip_floats(
    suffix: str, tmp_path: Path, photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"noisy{suffix}"
    out, err = ok(capsys, "apply", photo, "--noise", 0.2, "-o", target, "--json")
    assert json.loads(out)["missing_share"] == 0
    assert err == ""
    noisy = read_photo(target)
    assert noisy.depth == "float32"
    assert noisy.pixels.min() < -0.1
    assert (noisy.pixels - read_photo(photo).pixels).std() == pytest.approx(0.2, rel=0.05)
    ok(capsys, "apply", photo, "--noise", 0.2, "--seed", 1, "-o", tmp_path / f"other{suffix}")
    assert (read_photo(tmp_path / f"other{suffix}").pixels != noisy.pixels).any()


def test_from_nan_gives_back_the_mask(
    tmp_path: Path, photo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mask = tmp_path / "m.png"
    ok(capsys, "make", "--recipe", "paper-uniform-0.7", "--like", photo, "-o", mask)
    ok(capsys, "apply", photo, "--mask", mask, "--fill", "nan", "-o", tmp_path / "o.tiff")
    ok(capsys, "from", tmp_path / "o.tiff", "--nan", "-o", tmp_path / "back.png")
    assert (tmp_path / "back.png").read_bytes() == mask.read_bytes()


def test_from_colour_and_alpha(
    tmp_path: Path, photo: Path, mask: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ok(capsys, "apply", photo, "--mask", mask, "--fill", "#ff00ff", "-o", tmp_path / "o.png")
    exact = ["--color", "#ff00ff", "--tolerance", 0, "--grow", 0]
    ok(capsys, "from", tmp_path / "o.png", *exact, "-o", tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes() == mask.read_bytes()

    with Image.open(photo) as picture, Image.open(mask) as marked:
        picture.putalpha(marked.point(lambda level: 255 - level))
        picture.save(tmp_path / "clear.png")
    ok(capsys, "from", tmp_path / "clear.png", "--alpha", "-o", tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == mask.read_bytes()
    ok(capsys, "apply", tmp_path / "clear.png", "--mask", "alpha", "-o", tmp_path / "still.png")
    assert read_photo(tmp_path / "still.png").alpha is not None


def test_show_draws_and_warns(
    tmp_path: Path, photo: Path, mask: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = ok(capsys, "show", photo, "--mask", mask, "-o", tmp_path / "overlay.png")
    assert out == f"{tmp_path / 'overlay.png'}\n"
    assert "warning" not in err
    ok(capsys, "apply", photo, "--mask", mask, "-o", tmp_path / "o.png")
    options = ["show", tmp_path / "o.png", "--mask", mask, "--mask-polarity", "white-keeps", "--json"]
    out, err = ok(capsys, *options, "-o", tmp_path / "overlay.png")
    assert "looks inverted" in err
    assert json.loads(out)["looks_inverted"] is True


def test_conversions_are_said(
    tmp_path: Path, photo: Path, mask: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Image.open(photo) as picture:
        picture.convert("CMYK").save(tmp_path / "c.jpg")
        picture.quantize(16).save(tmp_path / "p.png")
    _, err = ok(capsys, "show", tmp_path / "c.jpg", "--mask", mask, "-o", tmp_path / "v.png")
    assert "c.jpg: converted from CMYK to RGB" in err
    _, err = ok(capsys, "show", tmp_path / "p.png", "--mask", mask, "-o", tmp_path / "v.png")
    assert "p.png: converted from a palette to RGB" in err
    _, err = ok(capsys, "apply", photo, "--mask", mask, "-o", tmp_path / "o.bmp", "-q")
    assert err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["make", "--size", "64x64"], "none of --kind or --recipe"),
        (
            ["make", "--kind", "box", "--recipe", "paper-stripe", "--size", "64x64"],
            "two of --kind or --recipe",
        ),
        (["make", "--kind", "box"], "none of --like or --size"),
        (["make", "--kind", "circle", "--size", "64x64"], "--kind"),
        (["make", "--recipe", "paper-circle", "--size", "64x64"], "--recipe"),
        (
            ["make", "--recipe", "paper-stripe", "--missing", "0.5", "--size", "64x64"],
            "a recipe has its own share",
        ),
        (["make", "--kind", "box", "--per", "pixel", "--size", "64x64"], "--per is for --kind uniform"),
        (["make", "--kind", "uniform", "--per", "row", "--size", "64x64"], "--per"),
        (["make", "--kind", "box", "--size", "64"], "is not a size"),
        (["make", "--kind", "box", "--size", "8x64"], "out of range"),
        (["make", "--kind", "box", "--size", "64x64", "--missing", "1.5"], "the missing share is 1.5"),
        (["make", "--kind", "box", "--size", "64x64", "--missing", "half"], "--missing"),
        (["make", "--kind", "box", "--size", "64x64", "--seed", "-1"], "--seed"),
        (["apply", "PHOTO"], "no damage to do"),
        (["apply", "PHOTO", "--noise", "-1"], "--noise"),
        (["apply", "PHOTO", "--mask", "MASK", "--fill", "mauve-ish"], "is not a colour"),
        (["apply", "PHOTO", "--mask", "MASK", "--fill", "nan"], "cannot hold NaN"),
        (["from", "PHOTO"], "none of --alpha or --nan or --color"),
        (["from", "PHOTO", "--nan", "--tolerance", "4"], "--tolerance is for --color"),
        (["from", "PHOTO", "--color", "#12"], "is not a colour"),
        (["show", "PHOTO", "--mask", "MASK", "--mask-polarity", "black"], "--mask-polarity"),
    ],
)
def test_usage_errors_end_with_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    photo: Path,
    mask: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = [{"PHOTO": str(photo), "MASK": str(mask)}.get(word, word) for word in arguments]
    assert message in fails(capsys, 2, *named, "-o", tmp_path / "out.png")
    assert not (tmp_path / "out.png").exists()


def test_input_errors_end_with_3(
    tmp_path: Path, photo: Path, mask: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.png"
    Image.new("L", (20, 20)).save(tmp_path / "small.png")
    Image.new("L", (56, 40), 255).save(tmp_path / "white.png")
    (tmp_path / "text.png").write_text("hello")
    cases = [
        (["apply", photo, "--mask", tmp_path / "small.png"], "the mask is 20x20 but photo.png is 56x40"),
        (["show", photo, "--mask", tmp_path / "white.png"], "marks every pixel"),
        (["show", photo, "--mask", "alpha"], "has no transparency"),
        (["show", tmp_path / "none.png", "--mask", mask], "does not exist"),
        (["make", "--kind", "box", "--like", tmp_path / "text.png"], "is not an image"),
        (["from", photo, "--nan"], "no pixel of photo.png is NaN"),
        (["from", photo, "--alpha"], "has no transparency"),
        (["from", photo, "--color", "#123456"], "--tolerance"),
    ]
    for arguments, message in cases:
        assert message in fails(capsys, 3, *arguments, "-o", target)
        assert not target.exists()


def test_outputs_that_cannot_be_written_end_with_2(
    tmp_path: Path, photo: Path, mask: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, mask_before = photo.read_bytes(), mask.read_bytes()
    box = ["make", "--kind", "box", "--size", "64x64", "-o"]
    assert "cannot be written" in fails(capsys, 2, *box, photo / "m.png")
    assert "cannot be written" in fails(capsys, 2, *box, "/proc/x/m.png")
    assert "name it .png or .npy" in fails(capsys, 2, *box, tmp_path / "m.jpg")
    assert "over itself" in fails(capsys, 2, "apply", photo, "--noise", "0.1", "-o", photo)
    assert "over itself" in fails(capsys, 2, "show", photo, "--mask", mask, "-o", mask)
    assert "over itself" in fails(capsys, 2, "make", "--kind", "box", "--like", photo, "-o", photo)
    (tmp_path / "same.png").hardlink_to(mask)
    assert "over itself" in fails(capsys, 2, "combine", photo, mask, "-o", tmp_path / "same.png")
    assert (tmp_path / "same.png").read_bytes() == mask_before
    assert photo.read_bytes() == before
