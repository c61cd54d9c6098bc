"""Many photographs: what is written, and what one bad file does to the others."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from pathlib import Path

import pytest
from photo_files import names, save_mask

from diffbcp_cli.cli.app import run
from diffbcp_cli.jobs.find import find_photos
from diffbcp_cli.photos import lock

TINY = ["--prior", "none", "--iterations", "3", "--burn-in", "1", "--rank", "4", "--quiet", "--jobs", "1"]


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
    assert (
        [row["name"] for row in rows]
        == [r["name"] for r in summary["results"]]
        == sorted(one.name for one in find_photos([str(photos)]).photos)
    )
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


def test_a_run_killed_between_its_record_and_its_checkpoint_leaves_nothing_in_the_end(
    photos, tmp_path, capsys
):
    out = tmp_path / "out"
    command = ["denoise", str(photos), "-o", str(out), *TINY, "--json"]
    assert run(command) == 0
    done = names(out)
    (out / "b.checkpoint.safetensors").write_bytes(b"the record was written, and this not removed")
    (out / ".b.std.tiff.0123abcd.tmp").write_bytes(b"")
    capsys.readouterr()
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 4
    assert names(out) == done


def test_a_run_killed_before_it_let_go_of_its_lock_leaves_nothing_in_the_end(photos, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["denoise", str(photos), "-o", str(out), *TINY, "--json"]
    assert run(command) == 0
    done = names(out)
    left = lock.lock_of(out, "b")
    left.write_bytes(b"a killed run")
    capsys.readouterr()
    assert run(command) == 0
    assert json.loads(capsys.readouterr().out)["skipped"] == 4
    assert names(out) == done
    assert not left.exists()


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
