"""Pictures through pipes: `-` in the place of a photograph, and `-o -`."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffbcp_cli.cli.app import run
from diffbcp_cli.photos.codecs.signatures import suffix_of
from diffbcp_cli.photos.photo import SUFFIXES, read_photo, write_photo

FAST = ["--method", "telea", "--quiet"]


@pytest.fixture
def stdin(monkeypatch):
    return lambda data: monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


def test_a_picture_goes_through_two_real_pipes_and_nothing_else_is_on_stdout(photo, mask, tmp_path):
    """As a shell runs it: each process has pipes for streams."""
    command = [sys.executable, "-m", "diffbcp_cli", "inpaint", "-", "--mask", str(mask)]
    more = ["--method", "telea", "-o", "-"]
    first = subprocess.run([*command, *more], input=photo.read_bytes(), capture_output=True, check=True)
    second = subprocess.run([*command, *more, "-q"], input=first.stdout, capture_output=True, check=True)
    assert b"will be filled" in first.stderr  # talk goes to stderr
    assert second.stderr == b""
    with Image.open(io.BytesIO(second.stdout)) as restored:
        assert (restored.format, restored.size) == ("PNG", (32, 32))


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_format_is_that_of_the_input(suffix, photo, mask, tmp_path, stdin, capsysbinary):
    source = write_photo(tmp_path / f"in{suffix}", read_photo(photo).pixels, read_photo(photo))
    stdin(source.read_bytes())
    assert run(["inpaint", "-", "--mask", str(mask), "-o", "-", *FAST]) == 0
    assert suffix_of(capsysbinary.readouterr().out) == suffix_of(source.read_bytes())


def test_a_format_can_be_asked_for(photo, mask, tmp_path, capsysbinary):
    command = ["inpaint", str(photo), "--mask", str(mask), "-o", "-", "--format", "tiff", *FAST]
    assert run(command) == 0
    written = tmp_path / "written.tiff"
    written.write_bytes(capsysbinary.readouterr().out)
    assert run(["inpaint", str(photo), "--mask", str(mask), "-o", str(tmp_path / "file.tiff"), *FAST]) == 0
    assert np.array_equal(read_photo(written).pixels, read_photo(tmp_path / "file.tiff").pixels)


def test_a_picture_on_stdin_can_be_restored_into_a_folder(photo, mask, tmp_path, stdin, capsys):
    stdin(photo.read_bytes())
    assert run(["inpaint", "-", "--mask", str(mask), "-o", str(tmp_path / "out"), *FAST]) == 0
    assert (tmp_path / "out" / "stdin.mean.png").exists()
    assert '"photo": "-"' in (tmp_path / "out" / "stdin.json").read_text()


def test_the_one_name_on_stdin_may_go_to_stdout(photo, mask, stdin, capsysbinary):
    stdin(f"{photo}\n".encode())
    assert run(["inpaint", "-", "--mask", str(mask), "-o", "-", *FAST]) == 0
    assert suffix_of(capsysbinary.readouterr().out) == ".png"


@pytest.mark.parametrize(
    ("data", "more", "said"),
    [
        (b"", ["-o", "-"], "nothing came in on stdin"),
        (bytes(range(256)), ["-o", "-"], "neither a picture of a known format nor a list"),
        (b"a.png\nb.png\n", ["-o", "-"], "stdin lists several"),
        (b"\x89PNG\r\n\x1a\n and nothing", ["-o", "-"], "its header is damaged"),
        (b"\x89PNG\r\n\x1a\n", ["other.png", "-o", "out"], "is restored alone"),
        (b"a.png", ["-o", "-", "--json"], "--json does not go with -o -"),
        (b"a.png", ["-o", "-", "--resume"], "--resume does not go with -o -"),
        (b"a.png", ["-o", "out", "--format", "png"], "--format is for a picture on stdout"),
    ],
)
def test_what_cannot_be_piped_is_said(data, more, said, tmp_path, monkeypatch, stdin, capsysbinary):
    monkeypatch.chdir(tmp_path)
    stdin(data)
    assert run(["denoise", "-", *more, "-q"]) in (2, 3)
    printed = capsysbinary.readouterr()
    assert printed.out == b""
    assert said in printed.err.decode()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_does_not_fit_in_one_pipe(tmp_path, capsys):
    Path(tmp_path / "photos").mkdir()
    assert run(["denoise", str(tmp_path / "photos"), "-o", "-"]) == 2
    assert "-o - writes one picture" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("start", "suffix"),
    [
        (b"BMW.png\n", None),
        (b"GIF8", None),
        (b"\0\0\0\x18ftypheic", ".heic"),
        (b"\0\0\0\x18ftypavif", ".avif"),
        (b"", None),
    ],
)
def test_a_list_of_names_is_not_taken_for_a_picture(start, suffix):
    assert suffix_of(start) == suffix
