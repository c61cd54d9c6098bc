"""`diffbcp eval` as people type it: what it prints, what it writes, how it ends."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest
import torch
from eval_data import make_set, needs, save, truth_picture

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import ModelError
from diffbcp_cli.scoring import lpips as perceptual


@pytest.fixture
def evaluate(tmp_path, monkeypatch, capsys):
    """Run `diffbcp eval` in tmp_path; returns (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))

    def call(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(["eval", *arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_json_is_all_of_stdout_and_has_the_documented_keys(tmp_path, evaluate):
    make_set(tmp_path)
    code, out, _ = evaluate("out/", "truth/", "--mask", "masks/", "--json")
    assert code == 0
    document = json.loads(out)
    assert set(document) == {
        "conventions",
        "not_computed",
        "count",
        "mean",
        "interval",
        "curves",
        "images",
        "failed",
        "unmatched",
    }
    first = document["images"][0]
    assert {"name", "psnr", "ssim", "ms_ssim", "lpips", "mae", "regions", "calibration"} <= set(first)
    assert document["mean"]["psnr"] == pytest.approx(sum(r["psnr"] for r in document["images"]) / 3)
    assert "window 11" in document["conventions"]["ssim"]


def test_lpips_that_is_not_to_be_had_is_said_not_skipped(tmp_path, evaluate):
    needs("lpips")
    make_set(tmp_path, ("a",))
    code, out, err = evaluate("out", "truth", "--json")
    assert code == 0
    assert "LPIPS was not computed" in err
    assert "--lpips vgg" in err
    document = json.loads(out)
    assert "--lpips vgg" in document["not_computed"]["lpips"]
    assert document["conventions"]["lpips"] == "not computed"
    assert document["images"][0]["lpips"] is None


def test_lpips_asked_for_by_name_must_be_there(tmp_path, evaluate, monkeypatch):
    needs("lpips")

    def unreachable(self, file, *, weights=False):
        self.out_of_reach = ModelError("the Hub is out of reach")

    make_set(tmp_path, ("a",))
    monkeypatch.setattr(perceptual.Hub, "get", unreachable)
    code, out, err = evaluate("out", "truth", "--lpips", "paper")
    assert (code, out) == (4, "")
    assert "out of reach" in err


def test_lpips_is_computed_with_the_feed_that_was_asked_for(tmp_path, evaluate, monkeypatch):
    needs("lpips")
    torch.manual_seed(0)
    trunk = {}
    channels = 3
    for one in (conv for stage in perceptual.SHAPES["vgg"] for conv in stage):
        trunk[f"features.{one.number}.weight"] = (
            torch.randn(one.width, channels, 3, 3) / (9 * channels) ** 0.5
        )
        trunk[f"features.{one.number}.bias"] = torch.zeros(one.width)
        channels = one.width
    monkeypatch.setattr(perceptual, "read_trunk", lambda path: trunk)
    make_set(tmp_path, ("a",))
    values = {}
    for feed in ("standard", "paper"):
        code, out, _ = evaluate("out", "truth", "--json", "--lpips", feed, "--lpips-trunk", "t.safetensors")
        assert code == 0
        document = json.loads(out)
        assert document["conventions"]["lpips"].startswith(f"{feed}: VGG16")
        assert document["not_computed"] == {}
        values[feed] = document["images"][0]["lpips"]
    assert values["standard"] != values["paper"]
    assert min(values.values()) > 0.0


def test_the_table_names_every_image_the_mean_and_the_conventions(tmp_path, evaluate):
    make_set(tmp_path, ("a", "[b]", "sub/c"))
    code, out, err = evaluate("out", "truth", "--lpips", "none")
    assert code == 0
    for text in (
        "PSNR",
        "sub/c",
        "[b]",
        "mean of 3",
        "95 % from",
        "Gaussian window 11",
        "lpips: not computed",
    ):
        assert text in out
    assert (
        err.strip()
        == "ms_ssim not computed for 3 of 3: MS-SSIM needs at least 161x161 pixels, the picture is 32x40"
    )


def test_two_files_are_scored(tmp_path, evaluate):
    save(tmp_path / "left.png", truth_picture(0))
    save(tmp_path / "right.png", truth_picture(1))
    code, out, _ = evaluate("left.png", "right.png", "--json", "--lpips", "none")
    assert code == 0
    assert json.loads(out)["count"] == 1


def test_several_folders_are_compared_by_name(tmp_path, evaluate):
    make_set(tmp_path, method="one/out", noise=0.02)
    make_set(tmp_path, method="two/out", noise=0.05)
    make_set(tmp_path, method="three", noise=0.09)
    arguments = ("one/out", "two/out/", "three", "--truth", "truth", "--lpips", "none")
    code, out, _ = evaluate(*arguments, "--json")
    assert code == 0
    document = json.loads(out)
    assert list(document["methods"]) == ["one/out", "two/out", "three"]
    means = [one["mean"]["psnr"] for one in document["methods"].values()]
    assert means == sorted(means, reverse=True)
    assert set(document["differences"]["to"]) == {"two/out", "three"}
    code, out, _ = evaluate(*arguments)
    assert "three (3)" in out


def test_csv_markdown_and_html_are_written(tmp_path, evaluate):
    make_set(tmp_path)
    files = ("--csv", "a.csv", "--markdown", "a.md", "--html", "a.html")
    code, _, err = evaluate("out", "truth", "--mask", "masks", *files, "--lpips", "none")
    assert code == 0
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        assert [row["name"] for row in csv.DictReader(file)] == ["a", "b", "sub/c"]
    assert "| sub/c |" in (tmp_path / "a.md").read_text(encoding="utf-8")
    assert "sub/c" in (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "wrote a.html" in err


def test_without_a_truth_a_page_shows_before_and_after(tmp_path, evaluate):
    save(tmp_path / "photo.png", truth_picture(0))
    short = ("--method", "telea", "--save", "page,plain")
    assert (
        run(["mask", "make", "--kind", "box", "--like", "photo.png", "--missing", "0.1", "-o", "m.png"]) == 0
    )
    assert run(["inpaint", "photo.png", "--mask", "m.png", "-o", "out", *short]) == 0
    code, out, err = evaluate("out", "--html", "page.html")
    assert (code, out) == (0, "")
    assert "no truth" in err
    made, saved = (
        (tmp_path / name).read_text(encoding="utf-8") for name in ("page.html", "out/photo.page.html")
    )
    for text in (made, saved):
        assert "% filled, 0.00% changed" in text
    assert (tmp_path / "out/photo.plain.png").is_file()
    (tmp_path / "photo.png").unlink()
    assert evaluate("out", "--html", "page.html")[0] == 3


def test_a_bad_pair_is_reported_and_the_exit_code_says_so(tmp_path, evaluate):
    make_set(tmp_path)
    save(tmp_path / "out/a.mean.png", truth_picture(0, (40, 33, 3)))
    code, out, err = evaluate("out", "truth", "--json", "--lpips", "none")
    assert code == 1
    assert "error: a.mean.png is 33x40 RGB but a.png is 32x40 RGB" in err
    document = json.loads(out)
    assert document["failed"][0]["name"] == "a"
    assert document["count"] == 2


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("out/a.mean.png", "wide.png"), 3, "is 32x40 RGB but wide.png is 33x40 RGB"),
        (("out", "other"), 3, "has a truth of the same name"),
        (("out", "nowhere"), 3, "nowhere does not exist"),
        (("out", "truth", "--mask", "nowhere.png"), 3, "nowhere.png does not exist"),
        (("out",), 2, "RESULTS and TRUTH are needed"),
        (("out", "out", "truth"), 2, "RESULTS and TRUTH are needed"),
        (("out", "out", "--truth", "truth"), 2, "given twice"),
        (("out", "truth", "--lpips", "squeeze"), 2, "squeeze"),
        (("out", "truth", "--lpips", "alex"), 4, "AlexNet trunk of LPIPS is not on the Hub"),
        (("out", "truth", "--html", "no/such/folder/a.html"), 3, "cannot write"),
    ],
)
def test_mistakes_end_with_their_exit_code_and_no_traceback(tmp_path, evaluate, arguments, code, message):
    make_set(tmp_path)
    save(tmp_path / "wide.png", truth_picture(0, (40, 33, 3)))
    save(tmp_path / "other/zzz.png", truth_picture(0))
    found, out, err = evaluate(*arguments, *(() if "--lpips" in arguments else ("--lpips", "none")))
    assert (found, out) == (code, "")
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_unmatched_files_are_mentioned_and_quiet_is_quiet(tmp_path, evaluate):
    make_set(tmp_path)
    save(tmp_path / "out/extra.png", truth_picture(0))
    save(tmp_path / "truth/more.png", truth_picture(0))
    code, out, err = evaluate("out", "truth", "--json", "--lpips", "none")
    assert code == 0
    assert "no truth for extra" in err
    assert "no result for more.png" in err
    assert json.loads(out)["unmatched"] == {"results": ["extra"], "truth": ["more.png"]}
    assert evaluate("out", "truth", "--json", "--quiet")[2] == ""


def test_help_does_not_import_torch():
    code = (
        "import sys; from diffbcp_cli.cli.app import run; code = run(['eval', '--help']); "
        "sys.exit(code or ('torch' in sys.modules) or ('numpy' in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
