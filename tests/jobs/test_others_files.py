"""Files of others in the output folder: links out of it, and photographs that are named like results."""

from __future__ import annotations

import json
import os
import shutil
import signal

import pytest
from photo_files import save

from diffbcp_cli.cli.app import run

CHECKPOINT = "0.checkpoint.safetensors"
TINY = ["--prior", "none", "--iterations", "2", "--burn-in", "1", "--rank", "4", "--quiet", "--jobs", "1"]


@pytest.mark.parametrize("name", ["0.mean.png", "0.std.png", "0.json", "0.checkpoint.safetensors"])
@pytest.mark.parametrize("many", [False, True])
def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path, capsys, name, many):
    photo = save(tmp_path / "photos" / "0.png", 0)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "victim")
    given = str(photo.parent if many else photo)
    assert run(["denoise", given, "-o", str(tmp_path / "out"), *TINY]) == (1 if many else 3)
    assert "is a link that leads out of" in capsys.readouterr().err
    assert not (tmp_path / "victim").exists()


@pytest.mark.parametrize("name", ["summary.csv", "summary.json"])
def test_the_summary_follows_no_link_out_of_the_folder(tmp_path, capsys, name):
    save(tmp_path / "photos" / "0.png", 0)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).symlink_to(tmp_path / "victim")
    assert run(["denoise", str(tmp_path / "photos"), "-o", str(tmp_path / "out"), *TINY]) == 3
    assert not (tmp_path / "victim").exists()
    assert not list((tmp_path / "out").glob("0.*"))


def test_a_link_that_was_typed_is_written_through(tmp_path):
    photo = save(tmp_path / "photos" / "0.png", 0)
    (tmp_path / "mine.png").symlink_to(tmp_path / "elsewhere.png")
    assert run(["denoise", str(photo), "-o", str(tmp_path / "mine.png"), *TINY]) == 0
    assert (tmp_path / "elsewhere.png").is_file()


def test_a_photograph_that_is_named_like_a_result_is_not_replaced(tmp_path, capsys):
    folder = tmp_path / "photos"
    save(folder / "0.png", 0)
    before = save(folder / "0.mean.png", 1).read_bytes()
    command = ["denoise", str(folder), "-o", str(folder), *TINY]
    assert run(command) == 1
    assert "a result would be written over" in capsys.readouterr().err
    assert (folder / "0.mean.png").read_bytes() == before
    assert run([*command, "--overwrite"]) == 0  # so it may
    assert run(command) == 0  # its record stands beside it now


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_damaged_record_fails_its_own_picture_in_eval(tmp_path, capsys, content):
    for number in range(2):
        save(tmp_path / "truth" / f"{number}.png", number)
    shutil.copytree(tmp_path / "truth", tmp_path / "out")
    (tmp_path / "out" / "0.json").write_bytes(content)
    out, truth = str(tmp_path / "out"), str(tmp_path / "truth")
    assert run(["eval", out, truth, "--lpips", "none", "--json"]) == 1
    said = capsys.readouterr()
    assert "0.json is damaged" in said.err
    assert [one["name"] for one in json.loads(said.out)["images"]] == ["1"]


@pytest.mark.parametrize("option", ["--csv", "--html", "--markdown"])
def test_no_table_of_eval_is_written_over_what_it_reads(tmp_path, capsys, option):
    before = save(tmp_path / "a.png", 0).read_bytes()
    (tmp_path / "link").hardlink_to(tmp_path / "a.png")
    picture = str(tmp_path / "a.png")
    assert run(["eval", picture, picture, "--lpips", "none", option, str(tmp_path / "link")]) == 2
    assert "would be written over" in capsys.readouterr().err
    assert (tmp_path / "a.png").read_bytes() == before


@pytest.fixture
def in_time():
    """An end after some seconds, where a bug would wait for ever."""

    def late(number, frame):
        pytest.fail("it waits for a pipe")  # no OSError, which the code may expect

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are Unix's")
@pytest.mark.parametrize(
    "name", ["0.json", CHECKPOINT, "0.mean.png", "0.std.tiff", "summary.json", "summary.csv"]
)
def test_a_pipe_in_the_place_of_a_result_is_neither_read_nor_replaced(tmp_path, capsys, in_time, name):
    photo = save(tmp_path / "photos" / "0.png", 0)
    out = tmp_path / "out"
    out.mkdir()
    os.mkfifo(out / name)
    given = str(photo.parent if name.startswith("summary") else photo)
    assert run(["denoise", given, "-o", str(out), "--resume", *TINY]) == 2
    assert f"{name} " in capsys.readouterr().err
    assert [path.name for path in out.iterdir()] == [name]


def test_two_pictures_to_compare_may_be_no_regular_files_and_are_refused(tmp_path, capsys, in_time):
    save(tmp_path / "a.png", 0)
    os.mkfifo(tmp_path / "b.png")
    assert run(["eval", str(tmp_path / "a.png"), str(tmp_path / "b.png"), "--lpips", "none"]) == 3
    assert "b.png is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["compare.csv", "compare.html", "compare.md", "compare.tex", "compare.json"])
def test_a_comparison_replaces_no_file_of_another_program(tmp_path, capsys, name):
    photo, mask = save(tmp_path / "0.png", 0), save(tmp_path / "m.png", 1)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text("a table of theirs")
    command = ["compare", str(photo), "--mask", str(mask), "--methods", "telea", "-o", str(tmp_path / "out")]
    assert run([*command, "--quiet"]) == 2
    assert "was not written by diffbcp" in capsys.readouterr().err
    assert (tmp_path / "out" / name).read_text() == "a table of theirs"
