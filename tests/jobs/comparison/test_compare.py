"""`diffbcp compare`: the grid of runs, what it writes, and that nothing is done twice."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import picture
from PIL import Image

import diffbcp_cli
from diffbcp_cli.cli.app import run
from diffbcp_cli.photos.photo import read_photo
from diffbcp_cli.scoring.metrics import psnr

METHODS = "telea,nlm,bcp:rank=4:iterations=4"


def clean(folder, names=("a.png", "sub/b.png"), side=32):
    for number, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((picture(side, side, seed=number) * 255).astype(np.uint8)).save(folder / name)
    return folder


def command(photos, out, *more, methods=METHODS):
    return ["compare", str(photos), "-o", str(out), "--methods", methods, "--lpips", "none", "-q", *more]


DAMAGE = ["--recipe", "paper-uniform-0.7", "--noise", "0.05", "--sigma", "0.05", "-j", "1"]


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    photos, out = clean(folder / "clean"), folder / "out"
    assert run(command(photos, out, *DAMAGE)) == 0
    return photos, out, json.loads((out / "compare.json").read_text())


def test_every_method_restores_every_photograph_and_is_scored(compared):
    photos, out, document = compared
    (damage,) = document["damages"].values()
    assert list(damage["methods"]) == METHODS.split(",")
    for method, folder in zip(METHODS.split(","), ("telea", "nlm", "bcp+rank=4+iterations=4"), strict=True):
        one = damage["methods"][method]
        assert (one["count"], one["failed"]) == (2, [])
        found = []
        for name in ("a", "sub/b"):
            result = read_photo(out / "runs" / "paper-uniform-0.7" / folder / f"{name}.mean.png").pixels
            found.append(psnr(result, read_photo(photos / f"{name}.png").pixels))
        assert [record["psnr"] for record in one["images"]] == pytest.approx(found)
        assert one["mean"]["psnr"] == pytest.approx(np.mean(found))
        assert one["mean"]["cost"]["seconds"] >= 0
        assert 50e6 < one["mean"]["cost"]["peak_memory"] < 20e9
    own = damage["methods"]["bcp:rank=4:iterations=4"]
    assert 0 < own["mean"]["calibration"]["filled"]["coverage"]["90"] <= 1
    assert "calibration" not in damage["methods"]["telea"]["mean"]


def test_differences_are_paired_and_have_a_p(compared):
    _, _, document = compared
    (damage,) = document["damages"].values()
    first, other = (
        [record["psnr"] for record in damage["methods"][name]["images"]] for name in ("telea", "nlm")
    )
    gap = damage["differences"]["to"]["nlm"]["psnr"]
    assert damage["differences"]["from"] == "telea"
    assert gap["mean"] == pytest.approx(np.mean(np.subtract(other, first)))
    assert gap["p"] in (0.5, 1.0)  # of two pairs, by 4 patterns of signs


def test_the_photographs_are_damaged_as_was_asked_for(compared):
    photos, out, _ = compared
    folder = out / "inputs" / "paper-uniform-0.7"
    for name in ("a", "sub/b"):
        missing = np.asarray(Image.open(folder / "masks" / f"{name}.png")) > 127
        hurt, exact = (
            read_photo(path).pixels for path in (folder / "photos" / f"{name}.png", photos / f"{name}.png")
        )
        assert missing.mean() == pytest.approx(0.7, abs=0.001)
        assert (hurt[missing] == 0).all()
        assert (hurt - exact)[~missing].std() == pytest.approx(0.05, rel=0.15)


def test_tables_hold_the_numbers_of_the_document(compared):
    _, out, document = compared
    (damage,) = document["damages"].values()
    rows = list(csv.DictReader((out / "compare.csv").read_text().splitlines()))
    assert len(rows) == 6
    assert {row["damage"] for row in rows} == {"paper-uniform-0.7"}
    records = [record for one in damage["methods"].values() for record in one["images"]]
    assert [float(row["psnr"]) for row in rows] == [record["psnr"] for record in records]
    text, tex = ((out / f"compare.{ending}").read_text() for ending in ("md", "tex"))
    for name, one in damage["methods"].items():
        (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
        assert f"{one['mean']['psnr']:.2f}" in line
        assert f"{one['mean']['psnr']:.2f}" in tex
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 1
    assert tex.count(r"\textbf") >= 3


def test_the_same_command_does_nothing_twice(compared, capsys):
    photos, out, before = compared
    results = [*(out / "runs").rglob("*.mean.png"), *(out / "runs").rglob("*.json")]
    times = {path: path.stat().st_mtime_ns for path in results}
    assert len(times) == 12
    assert run(command(photos, out, *DAMAGE)) == 0
    assert {path: path.stat().st_mtime_ns for path in results} == times
    assert json.loads((out / "compare.json").read_text()) == before


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_without_doing_again_what_was_done(tmp_path):
    photos, out = clean(tmp_path / "clean"), tmp_path / "out"
    words = command(photos, out, *DAMAGE, methods="telea,nlm")
    process = subprocess.Popen([sys.executable, "-m", "diffbcp_cli", *words])
    first, last = (out / "runs" / "paper-uniform-0.7" / name for name in ("telea", "nlm"))
    deadline = time.monotonic() + 120
    while len([*first.rglob("*.json")]) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    done = {path: path.stat().st_mtime_ns for path in first.rglob("*.json")}
    assert len(done) == 2
    assert not (out / "compare.json").exists()
    assert not [*last.rglob("*.json")]
    assert run(words) == 0
    assert {path: path.stat().st_mtime_ns for path in first.rglob("*.json")} == done
    document = json.loads((out / "compare.json").read_text())
    (damage,) = document["damages"].values()
    assert [one["count"] for one in damage["methods"].values()] == [2, 2]


def test_photographs_that_are_damaged_are_compared_with_and_without_the_truth(tmp_path, capsys):
    photos, out = clean(tmp_path / "photos", ("a.png",)), tmp_path / "out"
    hole = np.zeros((32, 32), np.uint8)
    hole[8:14, 10:25] = 255
    Image.fromarray(hole).save(tmp_path / "hole.png")
    words = command(photos, out, "--mask", str(tmp_path / "hole.png"), methods="telea")
    assert run(words) == 0
    document = json.loads((out / "compare.json").read_text())
    assert document["not_computed"] == {"metrics": "there is no truth: --truth"}
    assert set(document["damages"]["hole"]["methods"]["telea"]["mean"]) == {"cost"}
    assert run([*words, "--truth", str(photos), "--json"]) == 0
    document = json.loads(capsys.readouterr().out.split("compare.json")[-1].partition("\n")[2])
    telea = document["damages"]["hole"]["methods"]["telea"]
    assert telea["mean"]["psnr"] > 20
    assert telea["mean"]["regions"]["filled"]["psnr"] > 10


def test_one_that_fails_is_reported_and_the_rest_go_on(tmp_path, capsys):
    photos, out = clean(tmp_path / "photos"), tmp_path / "out"
    (photos / "c.png").write_bytes(b"no picture")
    Image.fromarray(np.full((32, 32), 255, np.uint8)).save(tmp_path / "all.png")
    assert run(command(photos, out, "--mask", str(tmp_path / "all.png"), methods="telea")) == 1
    assert "marks every" in capsys.readouterr().err
    document = json.loads((out / "compare.json").read_text())
    assert len(document["damages"]["all"]["methods"]["telea"]["failed"]) == 3


BAD = [
    (["--methods", "telea,difbcp", "--noise", "0.1"], "did you mean diffbcp?"),
    (["--methods", "telea:pnp_step=repo", "--noise", "0.1"], "is an option of pnp-dm, not of telea"),
    (["--set", "pnp-step=repo", "--noise", "0.1"], "is an option of none of telea, nlm"),
    (["--set", "rnk=3", "--noise", "0.1"], "did you mean rank?"),
    (["--set", "iterations=many", "--noise", "0.1"], "--iterations cannot be 'many'"),
    (["--methods", "telea,telea", "--noise", "0.1"], "named twice"),
    (["--methods", "bcp:save=samples", "--noise", "0.1"], "which a comparison chooses"),
    (["--methods", "pnp-dm", "--prior", "none", "--noise", "0.1"], "cannot do without one"),
    (["--methods", "nlm", "--prior", "none", "--noise", "0.1"], "nothing estimates it"),
    (["--methods", ",", "--noise", "0.1"], "there is no method to compare"),
    (["--recipe", "paper-dots"], "there is no recipe"),
    (["--recipe", "paper-stripe", "--mask", "alpha"], "two ways"),
    (["--recipe", "paper-stripe", "--truth", "."], "the photographs are the truth"),
    ([], "nothing is missing"),
    (["--noise", "0.1", "--lpips", "none", "--set", "device=cuda:99"], "--device"),
]


def test_weights_of_lpips_that_are_not_there_end_the_comparison_before_the_first_run(tmp_path, capsys):
    photos, out = clean(tmp_path / "photos", ("a.png",), side=16), tmp_path / "out"
    words = command(
        photos, out, "--noise", "0.1", "--lpips", "vgg", "--lpips-trunk", "nowhere.st", methods="telea"
    )
    assert run(words) == 4
    assert "nowhere.st is not a readable safetensors file" in capsys.readouterr().err
    assert not out.exists()


@pytest.mark.parametrize(("words", "said"), BAD, ids=[said for _, said in BAD])
def test_what_cannot_be_is_said_in_a_sentence_and_nothing_is_written(words, said, tmp_path, capsys):
    photos, out = clean(tmp_path / "photos", ("a.png",), side=16), tmp_path / "out"
    assert run(["compare", str(photos), "-o", str(out), "--methods", "telea,nlm", "-q", *words]) == 2
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
    assert not out.exists()


def test_a_file_of_another_program_is_not_replaced(tmp_path, capsys):
    photos, out = clean(tmp_path / "photos", ("a.png",), side=16), tmp_path / "out"
    out.mkdir()
    (out / "compare.json").write_text('{"mine": 1}')
    assert run(command(photos, out, "--noise", "0.1", "--sigma", "0.1", methods="nlm")) == 2
    assert "was not written by diffbcp" in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == ["compare.json"]


def test_from_python_it_gives_pictures_and_numbers():
    exact = picture(32, 32)
    known = np.random.default_rng(0).random((32, 32)) < 0.5
    found = diffbcp_cli.compare(
        exact * known[..., None], known, ["telea", "bcp:rank=4"], truth=exact, iterations=3, device="cpu"
    )
    assert list(found.scores) == ["telea", "bcp:rank=4"]
    assert found.scores["telea"]["psnr"] == pytest.approx(psnr(found["telea"].mean, exact))
    assert "coverage" in found.scores["bcp:rank=4"]
    assert "coverage" not in found.scores["telea"]
    assert f"{found.scores['telea']['psnr']:.2f}" in str(found)
    assert "<td>telea</td>" in found._repr_html_()
