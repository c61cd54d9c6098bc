"""Many photographs: which are found, where their results go, and what one bad file does to the others."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import InputError, UsageError
from diffbcp_cli.jobs import find as inputs
from diffbcp_cli.jobs.plan import Masks, Request, make_plan

TINY = ["--prior", "none", "--iterations", "3", "--burn-in", "1", "--rank", "4", "--quiet", "--jobs", "1"]


def save(path: Path, seed: int = 0, size: tuple[int, int] = (16, 16)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3)).astype(np.uint8)).save(path)
    return path


def save_mask(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    hole = np.zeros((16, 16), np.uint8)
    hole[4:7, 3:9] = 255
    Image.fromarray(hole).save(path)
    return path


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number, name in enumerate(("a.png", "b.png", "sub/a.png", "sub/deep/c.webp")):
        save(folder / name, number)
    return folder


def found(*arguments: object, **options) -> list[str]:
    return [one.name for one in inputs.find_photos([str(a) for a in arguments], **options).photos]


# --- which photographs ---------------------------------------------------------------------------------------


def test_a_folder_is_searched_in_depth_and_named_by_relative_path(photos):
    (photos / "notes.txt").write_text("no picture")
    save(photos / ".hidden" / "x.png")
    assert found(photos) == ["a.png", "b.png", "sub/a.png", "sub/deep/c.webp"]


def test_a_pattern_names_like_its_folder(photos):
    assert found(photos / "**" / "*.png") == ["a.png", "b.png", "sub/a.png"]
    assert found(photos / "su*" / "*.png") == ["sub/a.png"]


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(photos):
    save(photos / "[1]*.png")
    assert found(photos / "[1]*.png") == ["[1]*.png"]


def test_results_of_earlier_runs_are_no_photographs(photos):
    for kind in ("mean", "std", "lower", "panel", "mask"):
        save(photos / f"a.{kind}.png")
    findings = inputs.find_photos([str(photos)])
    assert len(findings.photos) == 4
    assert findings.left_out == 5
    assert found(save(photos / "my.holiday.png")) == ["my.holiday.png"]


def test_folders_of_results_and_masks_inside_the_input_are_left_out(photos):
    save(photos / "out" / "x.png")
    mask = save(photos / "masks" / "a.png")
    assert "out/x.png" not in found(photos, apart_from=[photos / "out", mask.parent])
    assert "masks/a.png" not in found(photos, apart_from=[photos / "out", mask])


def test_a_link_to_a_folder_is_not_followed_so_loops_end(photos):
    (photos / "sub" / "up").symlink_to(photos)
    (photos / "again").symlink_to(photos / "sub")
    assert found(photos) == found(photos / "**" / "*.*") == ["a.png", "b.png", "sub/a.png", "sub/deep/c.webp"]


def test_the_same_file_twice_is_one_photograph(photos):
    assert found(photos, photos / "a.png", photos / "*.png") == found(photos)


def test_names_from_a_list_may_hold_any_bytes():
    assert inputs.read_list(b"a.png\nb c.png\n", null=False) == ["a.png", "b c.png"]
    listed = inputs.read_list(b"new\nline.png\0\xff.png\0", null=True)
    assert [os.fsencode(name) for name in listed] == [b"new\nline.png", b"\xff.png"]


def test_root_gives_names_and_refuses_what_lies_outside(photos, tmp_path):
    outside = save(tmp_path / "other" / "x.png")
    listed = [str(photos / "sub" / "a.png"), str(outside)]
    findings = inputs.find_photos(["-"], listed=listed, root=photos)
    by_name = {one.name: one.problem for one in findings.photos}
    assert by_name.pop("sub/a.png") is None
    (problem,) = by_name.values()
    assert "is not in" in str(problem)


def test_shards_share_out_every_name_once_whatever_the_others_are():
    every = [f"img/{number}.png" for number in range(200)]
    parts = [[name for name in every if inputs.in_shard(name, (i, 3))] for i in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == sorted(every)
    assert all(40 < len(part) < 95 for part in parts)
    assert inputs.in_shard("img/7.png", (1, 1))


@pytest.mark.parametrize("text", ["0/3", "4/3", "a/b", "3", "1/", "-1/2", "1/2/3"])
def test_a_shard_that_is_none_is_a_usage_error(text):
    with pytest.raises(UsageError):
        inputs.parse_shard(text)


# --- masks and places ----------------------------------------------------------------------------------------


def test_masks_are_matched_by_relative_path_then_by_stem_at_the_top(photos, tmp_path):
    folder = tmp_path / "masks"
    save_mask(folder / "sub" / "a.png")
    save_mask(folder / "c.png")
    save_mask(folder / "b.mask.png")
    masks = Masks(folder)
    assert masks.find(photos / "sub/a.png", "sub/a.png") == folder / "sub" / "a.png"
    assert masks.find(photos / "sub/deep/c.webp", "sub/deep/c.webp") == folder / "c.png"
    assert masks.find(photos / "b.png", "b.png") == folder / "b.mask.png"
    with pytest.raises(InputError, match="no mask"):
        masks.find(photos / "a.png", "a.png")  # sub/a.png is another photograph's


def test_a_photograph_is_never_its_own_mask(photos):
    save_mask(photos / "b.mask.png")
    masks = Masks(photos)
    assert masks.find(photos / "b.png", "b.png") == photos / "b.mask.png"
    with pytest.raises(InputError, match="no mask"):
        masks.find(photos / "a.png", "a.png")


def test_photographs_whose_results_would_have_one_name_are_both_refused(photos, tmp_path):
    save(photos / "b.jpg")
    plan = make_plan(Request((str(photos),), tmp_path / "out"))
    assert {bad.name for bad in plan.bad} == {"b.png", "b.jpg"}
    assert {job.name for job in plan.jobs} == {"a.png", "sub/a.png", "sub/deep/c.webp"}


def test_a_photograph_that_would_overwrite_the_summary_is_refused(photos, tmp_path):
    save(photos / "summary.png")
    save(photos / "sub" / "summary.png")
    plan = make_plan(Request((str(photos),), tmp_path / "out"))
    assert [bad.name for bad in plan.bad] == ["summary.png"]


def test_a_link_out_of_the_output_folder_is_not_written_through(photos, tmp_path):
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    elsewhere.mkdir()
    out.mkdir()
    (out / "sub").symlink_to(elsewhere)
    (out / "b.mean.png").symlink_to(elsewhere / "victim.png")
    assert run(["denoise", str(photos), "-o", str(out), *TINY]) == 1
    assert not names(elsewhere)
    assert "a.mean.png" in names(out)


def test_what_a_killed_run_left_goes_but_not_what_a_neighbour_is_writing(tmp_path):
    from diffbcp_cli.photos.files import remove_leftovers
    from diffbcp_cli.photos.targets import KINDS

    dead = {".a.mean.png.0123abcd.tmp", ".a.json.0123abcd.tmp", ".a.checkpoint.safetensors.0123abcd.tmp"}
    alive = {".a.b.mean.png.0123abcd.tmp", ".a.b.json.0123abcd.tmp", ".ab.json.0123abcd.tmp", "a.mean.png"}
    for name in dead | alive:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path, "a", KINDS)
    assert names(tmp_path) == alive


# --- whole runs ----------------------------------------------------------------------------------------------


def test_a_folder_gives_a_folder_of_the_same_structure_and_a_summary(photos, tmp_path, capsys):
    masks, out = tmp_path / "masks", tmp_path / "out"
    for name in ("a.png", "b.png", "sub/a.png", "c.png"):
        save_mask(masks / name)
    assert run(["inpaint", str(photos), "--mask", str(masks), "-o", str(out), *TINY]) == 0
    kinds = ("mean.png", "std.png", "std.tiff", "json")
    stems = ("a", "b", "sub/a", "sub/deep/c")
    assert names(out) == {f"{s}.{k}" for s in stems for k in kinds} | {"summary.json", "summary.csv"}
    printed = capsys.readouterr().out.split()
    assert {Path(line).relative_to(out).as_posix() for line in printed} == names(out) - {
        "summary.json",
        "summary.csv",
    }
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["images"], summary["done"], summary["failed"]) == (4, 4, 0)
    rows = list(csv.DictReader(io.StringIO((out / "summary.csv").read_text())))
    assert [row["name"] for row in rows] == [r["name"] for r in summary["results"]] == sorted(found(photos))
    assert float(rows[0]["missing_share"]) == pytest.approx(18 / 256)


def test_a_result_does_not_depend_on_its_neighbours_or_on_how_it_was_named(photos, tmp_path):
    def pixels(folder: str, name: str, *arguments: object) -> bytes:
        out = tmp_path / folder
        assert run(["denoise", *map(str, arguments), "-o", str(out), *TINY, "--threads", "1"]) == 0
        return (out / f"{name}.mean.png").read_bytes() + (out / f"{name}.std.tiff").read_bytes()

    alone = pixels("one", "a", photos / "a.png")
    assert pixels("all", "a", photos) == alone
    assert pixels("two", "a", photos / "b.png", photos / "a.png") == alone
    assert pixels("glob", "a", photos / "*.png") == alone
    deep = (tmp_path / "all" / "sub" / "a.mean.png").read_bytes()
    assert (
        pixels("root", "sub/a", photos / "sub" / "a.png", photos / "b.png", "--root", photos)[: len(deep)]
        == deep
    )


def test_one_bad_file_is_reported_and_the_rest_go_on(photos, tmp_path, capsys):
    (photos / "b.png").write_bytes(b"not a picture")
    (photos / "gone.png").symlink_to(tmp_path / "nowhere.png")
    out = tmp_path / "out"
    assert run(["denoise", str(photos), "-o", str(out), *TINY, "--json"]) == 1
    said = capsys.readouterr()
    document = json.loads(said.out)
    status = {one["name"]: one["status"] for one in document["results"]}
    assert status == {
        "a.png": "done",
        "b.png": "failed",
        "gone.png": "failed",
        "sub/a.png": "done",
        "sub/deep/c.webp": "done",
    }
    assert document == json.loads((out / "summary.json").read_text())
    assert "b.png is not an image" in said.err
    assert "Traceback" not in said.err
    assert not [name for name in names(out) if name.startswith(("b.", "gone."))]


def test_finished_photographs_are_skipped_unless_overwrite(photos, tmp_path, capsys):
    command = ["denoise", str(photos), "-o", str(tmp_path / "out"), *TINY, "--json"]
    assert run(command) == 0
    capsys.readouterr()
    (tmp_path / "out" / "b.json").unlink()
    assert run(command) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["done"], second["skipped"]) == (1, 3)
    assert all(one["noise_std"] > 0 for one in second["results"])
    assert run([*command, "--overwrite"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 4


def test_results_in_the_folder_of_the_photographs_are_not_restored_again(photos, capsys):
    command = ["denoise", str(photos), "-o", str(photos), *TINY, "--json"]
    assert run(command) == 0
    capsys.readouterr()
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 4


def test_a_list_comes_from_stdin(photos, tmp_path, capsys, monkeypatch):
    listed = b"\0".join(os.fsencode(photos / name) for name in ("a.png", "sub/deep/c.webp"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(listed)))
    assert run(["denoise", "-", "-0", "-o", str(tmp_path / "out"), *TINY]) == 0
    assert {"a.mean.png", "c.mean.png"} <= names(tmp_path / "out")


def test_shards_together_do_what_one_run_does(photos, tmp_path, capsys):
    out = tmp_path / "out"
    for part in ("1/2", "2/2"):
        assert run(["denoise", str(photos), "-o", str(out), "--shard", part, *TINY]) == 0
    assert {"summary.1-of-2.json", "summary.2-of-2.csv"} <= names(out)
    capsys.readouterr()
    assert run(["denoise", str(photos), "-o", str(out), *TINY, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 4


@pytest.mark.parametrize(
    ("arguments", "code", "word"),
    [
        (["{empty}"], 3, "holds no images"),
        (["{photos}/*.bmp"], 3, "no image matches"),
        (["{photos}", "--mask", "{photos}/none.png"], 3, "none.png"),
        (["{photos}", "-o", "{photos}/one.png"], 2, "several"),
        (["{photos}", "--shard", "5/4"], 2, "--shard"),
        (["{photos}", "--jobs", "-1"], 2, "jobs"),
        (["{photos}", "--max-pixels", "many"], 2, "--max-pixels"),
        ([], 2, "no photograph"),
    ],
)
def test_batches_that_cannot_be_done_are_refused(arguments, code, word, photos, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    filled = [a.format(photos=photos, empty=tmp_path / "empty") for a in arguments]
    command = "inpaint" if "--mask" in filled else "denoise"
    out = [] if "-o" in filled else ["-o", str(tmp_path / "out")]
    assert run([command, *filled, *out, *TINY[:-2]]) == code
    said = capsys.readouterr()
    assert word in said.err
    assert "Traceback" not in said.err
    assert not (tmp_path / "out").exists()
