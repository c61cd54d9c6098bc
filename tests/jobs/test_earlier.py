"""A result that is there already is kept if the inputs and options are those of its record, and made anew if not."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import picture
from PIL import Image

from diffbcp_cli.cli.app import run

TINY = ["--prior", "none", "--iterations", "3", "--burn-in", "1", "--rank", "4"]


def save(path: Path, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((picture(24, 24, seed=seed) * 255).astype(np.uint8)).save(path)
    return path


def save_mask(path: Path, rows: slice = slice(4, 9)) -> Path:
    hole = np.zeros((24, 24), np.uint8)
    hole[rows, 3:9] = 255
    Image.fromarray(hole).save(path)
    return path


@pytest.fixture
def done(tmp_path: Path) -> Path:
    """A folder with photo.png, mask.png and the results of inpainting in out/."""
    save(tmp_path / "photo.png")
    save_mask(tmp_path / "mask.png")
    assert inpaint(tmp_path) == 0
    return tmp_path


def inpaint(folder: Path, *more: str, photo: str = "photo.png", mask: str = "mask.png") -> int:
    where = ["-o", str(folder / "out")]
    return run(["inpaint", str(folder / photo), "--mask", str(folder / mask), *where, *TINY, *more])


def stamp(folder: Path) -> int:
    return (folder / "out" / "photo.json").stat().st_mtime_ns


def test_the_record_says_what_it_was_made_from(done):
    record = json.loads((done / "out" / "photo.json").read_text())
    assert record["command"] == "inpaint"
    assert record["given"]["rank"] == 4
    assert "thin" not in record["given"]
    assert set(record["digest"]) == {"photo", "mask"}
    assert record["threads"] >= 1


def test_the_same_again_is_skipped_by_whatever_path_or_speed(done, capsys):
    before = stamp(done)
    (done / "copy.png").write_bytes((done / "mask.png").read_bytes())
    assert inpaint(done) == 0
    assert inpaint(done, mask="copy.png") == 0
    assert inpaint(done, "--threads", "1", "--checkpoint-every", "5s", "--device", "cpu") == 0
    assert stamp(done) == before
    assert capsys.readouterr().err.count("is there already") == 3


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: save_mask(d / "mask.png", slice(5, 12)) and inpaint(d), "the mask has changed"),
        (lambda d: save(d / "photo.png", 1) and inpaint(d), "the photograph has changed"),
        (lambda d: inpaint(d, "--seed", "1"), "--seed was 0, now 1"),
        (lambda d: inpaint(d, "--mask-polarity", "white-keeps"), "--mask-polarity was white-fills"),
        (lambda d: inpaint(d, "--save", "samples"), "--save was mean,std, now mean,std,samples"),
        (
            lambda d: run(["denoise", str(d / "photo.png"), "-o", str(d / "out"), *TINY]),
            "it was made by inpaint",
        ),
    ],
)
def test_what_has_changed_is_restored_again_and_said(change, reason, done, capsys):
    before = stamp(done)
    capsys.readouterr()
    assert change(done) == 0
    assert stamp(done) > before
    assert f"photo.png is restored again: {reason}" in capsys.readouterr().err.replace("\n", " ")


def test_a_mask_that_is_not_there_returns_no_old_picture(done, capsys):
    assert inpaint(done, mask="absent.png") == 3
    assert "absent.png" in capsys.readouterr().err


def test_fewer_results_than_there_are_need_no_new_run(done):
    assert inpaint(done, "--save", "samples") == 0
    before = stamp(done)
    assert inpaint(done) == 0
    assert stamp(done) == before
    assert (done / "out" / "photo.samples.npz").exists()


def test_files_of_the_old_result_do_not_stand_beside_the_new_record(done):
    assert inpaint(done, "--save", "samples") == 0
    assert inpaint(done, "--seed", "2") == 0
    assert not (done / "out" / "photo.samples.npz").exists()


def test_a_record_without_digests_counts_as_another(done):
    path = done / "out" / "photo.json"
    record = json.loads(path.read_text())
    del record["digest"]
    path.write_text(json.dumps(record))
    assert inpaint(done) == 0
    assert "digest" in json.loads(path.read_text())


def test_the_record_given_back_as_a_configuration_is_the_same_run(done):
    before = stamp(done)
    record = done / "out" / "photo.json"
    assert run(["inpaint", "--config", str(record), "-o", str(done / "out")]) == 0
    assert stamp(done) == before


def test_a_time_budget_is_compared_as_it_was_asked_for(done):
    assert inpaint(done, "--time-budget", "1m") == 0
    before = stamp(done)
    assert inpaint(done, "--time-budget", "1m") == 0
    assert stamp(done) == before


def test_in_a_folder_each_photograph_is_judged_by_itself(tmp_path, capsys):
    for number, name in enumerate("abc"):
        save(tmp_path / "photos" / f"{name}.png", number)
    mask = save_mask(tmp_path / "mask.png")
    command = ["inpaint", str(tmp_path / "photos"), "--mask", str(mask), "-o", str(tmp_path / "out"), *TINY]
    assert run([*command, "--jobs", "1"]) == 0
    save(tmp_path / "photos" / "b.png", 9)
    capsys.readouterr()
    assert run([*command, "--jobs", "1", "--json"]) == 0
    said = capsys.readouterr()
    status = {one["name"]: one["status"] for one in json.loads(said.out)["results"]}
    assert status == {"a.png": "skipped", "b.png": "done", "c.png": "skipped"}
    assert "1 of 3 are restored again: the photograph has changed" in said.err


SIDECAR = '{"camera": "box", "name": "photo.png", "options": {}, "size": [24, 24]}'


@pytest.mark.parametrize("text", [SIDECAR, "[]", "not JSON at all", ""])
def test_a_json_file_of_another_program_is_never_replaced(text, tmp_path, capsys):
    photo = save(tmp_path / "photo.png")
    (tmp_path / "photo.json").write_text(text)
    for more in ([], ["--overwrite"], ["--resume"]):
        assert run(["denoise", str(photo), "-o", str(tmp_path), *TINY, *more]) == 2
        assert "photo.json is not a record" in capsys.readouterr().err.replace("\n", "")
    assert run(["denoise", str(photo), str(save(tmp_path / "other.png")), "-o", str(tmp_path), *TINY]) == 1
    assert (tmp_path / "photo.json").read_text() == text
    assert not (tmp_path / "photo.mean.png").exists()
    assert (tmp_path / "other.mean.png").exists()


def test_the_result_of_another_photograph_is_replaced_only_on_request(tmp_path, capsys):
    first, second, out = save(tmp_path / "a.png"), save(tmp_path / "a.bmp", 1), tmp_path / "out"
    assert run(["denoise", str(first), "-o", str(out), *TINY]) == 0
    assert run(["denoise", str(second), "-o", str(out), *TINY]) == 2
    assert "is the record of" in capsys.readouterr().err
    assert json.loads((out / "a.json").read_text())["name"] == "a.png"
    assert run(["denoise", str(second), "-o", str(out), *TINY, "--overwrite"]) == 0
    assert json.loads((out / "a.json").read_text())["name"] == "a.bmp"


@pytest.mark.parametrize("name", ["summary.json", "summary.csv"])
def test_a_summary_of_another_program_is_never_replaced(name, tmp_path, capsys):
    save(tmp_path / "photos" / "a.png")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("profit,loss\n1,2\n")
    assert run(["denoise", str(tmp_path / "photos"), "-o", str(tmp_path / "out"), *TINY]) == 2
    assert name in capsys.readouterr().err
    assert (tmp_path / "out" / name).read_text() == "profit,loss\n1,2\n"
    assert len(list((tmp_path / "out").iterdir())) == 1
