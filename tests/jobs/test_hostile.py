"""Hostile input: names, sizes, special files, full and read-only disks. Nothing is lost or half-written."""

from __future__ import annotations

import collections
import json
import os
import struct
import subprocess
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffbcp_cli.cli.app import run
from diffbcp_cli.jobs.plan import Request, make_plan
from diffbcp_cli.jobs.pool import Told, run_here
from diffbcp_cli.jobs.session import Session
from diffbcp_cli.options import Options
from diffbcp_cli.photos.lock import lock_of, results_of

TINY = ["--prior", "none", "--iterations", "3", "--burn-in", "1", "--rank", "4", "--quiet", "--jobs", "1"]
CFG = Options(prior="none", iterations=3, burn_in=1, rank=4, threads=1)


def save(path: Path, seed: int = 0) -> Path:
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (16, 16, 3)).astype(np.uint8)).save(
        path, "PNG"
    )
    return path


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    return folder


def test_any_file_name_is_restored_printed_as_it_is_and_shown_harmlessly(photos, tmp_path, capfdbinary):
    names = [b"new\nline.png", b"\xff\xfe.png", b"-dash.png", b"red\x1b[31m.png", "é [1].png".encode()]
    for name in names:
        save(photos / os.fsdecode(name))
    (photos / os.fsdecode(b"bad\x1b]0;\xff.png")).write_bytes(b"broken")
    out = tmp_path / "out"
    assert run(["denoise", str(photos), "-o", str(out), *TINY]) == 1
    said = capfdbinary.readouterr()
    for name in names:
        stem = name.removesuffix(b".png")
        assert (out / os.fsdecode(stem + b".mean.png")).is_file()
        assert os.fsencode(out) + b"/" + stem + b".mean.png\n" in said.out
    assert b"\x1b" not in said.err
    assert rb"bad\x1b]0;\udcff.png" in said.err
    summary = json.loads((out / "summary.json").read_text(encoding="ascii"))
    assert {os.fsencode(r["name"]) for r in summary["results"] if r["status"] == "done"} == set(names)
    assert b"\xff\xfe.png,done" in (out / "summary.csv").read_bytes()


def test_one_file_with_a_strange_name_works_too(photos, tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(photos)
    for name in (b"-o.png", b"\xff.png"):
        save(Path(os.fsdecode(name)))
        assert run(["denoise", "-o", str(tmp_path / "out"), *TINY, "--json", "--", os.fsdecode(name)]) == 0
        assert json.loads(capfdbinary.readouterr().out)["name"] == os.fsdecode(name)


def test_a_name_with_no_room_for_its_results_is_refused_before_the_work(photos, tmp_path, capsys):
    save(photos / f"{'é' * 118}.png")
    save(photos / f"{'x' * 232}.png")
    save(photos / f"{'y' * 240}.png")
    assert run(["denoise", str(photos), "-o", str(tmp_path / "out"), *TINY]) == 1
    said = capsys.readouterr()
    assert said.err.count("too long") == 2
    assert len(list((tmp_path / "out").glob("x*.mean.png"))) == 1


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def bombs() -> dict[str, bytes]:
    """Small files that claim to be huge pictures."""
    side = 200_000
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(bytes(10**7))) + chunk(b"IEND", b"")
    bmp = (
        b"BM"
        + struct.pack("<IHHI", 100, 0, 0, 54)
        + struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, *([0] * 6))
    )
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({side}, {side}, 3), }}"
    npy = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) + 1) + header.encode() + b"\n" + bytes(64)
    entries = [
        (256, side),
        (257, side),
        (258, 16),
        (259, 1),
        (262, 1),
        (273, 8),
        (277, 1),
        (278, side),
        (279, 64),
    ]
    tiff = b"II*\0" + struct.pack("<IH", 8, len(entries))
    tiff += b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries) + bytes(4)
    return {"a.png": png, "b.bmp": bmp, "c.npy": npy, "d.tiff": tiff}


def test_bombs_are_refused_without_being_unpacked(photos, tmp_path, capsys):
    import resource

    for name, data in bombs().items():
        (photos / name).write_bytes(data)
    sparse = photos / "e.png"
    with sparse.open("wb") as file:
        file.truncate(2**40)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert run(["denoise", str(photos), "-o", str(tmp_path / "out"), *TINY, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["failed"] == 5
    assert {result["exit_code"] for result in document["results"]} == {3}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_special_files_and_loops_are_refused(photos, tmp_path, capsys):
    os.mkfifo(photos / "pipe.png")
    (photos / "loop.png").symlink_to(photos / "loop.png")
    (photos / "zero.png").symlink_to("/dev/zero")
    (photos / "folder.png").mkdir()
    save(photos / "good.png")
    assert run(["denoise", str(photos), "-o", str(tmp_path / "out"), *TINY, "--json"]) == 1
    status = {one["name"]: one["status"] for one in json.loads(capsys.readouterr().out)["results"]}
    assert status == {"pipe.png": "failed", "loop.png": "failed", "zero.png": "failed", "good.png": "done"}
    assert run(["denoise", "/dev/zero", "-o", str(tmp_path / "other"), *TINY]) == 3


def test_files_that_vanish_or_change_during_the_run_fail_alone(photos, tmp_path):
    for name in "abcd":
        save(photos / f"{name}.png", ord(name))

    def meddle(told: Told) -> None:
        if told.name == "a.png" and told.progress.done == 1:
            (photos / "b.png").unlink()
            (photos / "c.png").write_bytes((photos / "c.png").read_bytes()[:100])

    jobs = make_plan(Request((str(photos),), tmp_path / "out")).jobs
    reports = {r.name: r for r in run_here(jobs, Session(CFG), tell=meddle, stopping=lambda: False)}
    assert {name: r.status for name, r in reports.items()} == {
        "a.png": "done",
        "b.png": "failed",
        "c.png": "failed",
        "d.png": "done",
    }
    assert "does not exist" in (reports["b.png"].error or "")


def test_a_second_run_on_a_photograph_is_refused_and_changes_nothing(photos, tmp_path, capsys):
    save(photos / "a.png")
    save(photos / "b.png", 1)
    out = tmp_path / "out"
    out.mkdir()
    leftover = out / ".a.mean.png.0123abcd.tmp"  # the other run is about to rename it
    leftover.touch()
    with results_of(out, "a"):
        assert run(["denoise", str(photos / "a.png"), "-o", str(out), *TINY]) == 2
        assert {path.name for path in out.iterdir()} == {lock_of(out, "a").name, leftover.name}
        assert run(["denoise", str(photos), "-o", str(out), *TINY]) == 1
        assert leftover.exists()
        assert (out / "b.mean.png").exists()
    said = capsys.readouterr().err
    assert f"another run (process {os.getpid()} on" in said
    assert "--wait" in said
    assert run(["denoise", str(photos), "-o", str(out), *TINY]) == 0
    assert not leftover.exists()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 200 kB of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"a tmpfs cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def remount(disk: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)


def test_a_disk_that_fills_up_ends_the_run_with_whole_results_only(photos, disk, capsys):
    for number in range(12):
        save(photos / f"{number:02}.png", number)
    command = ["denoise", str(photos), "-o", str(disk), *TINY, "--json"]
    assert run(command) == 1
    said = capsys.readouterr()
    assert "no space left on device" in said.err
    assert "Traceback" not in said.err
    document = json.loads(said.out)
    assert document["failed"] == 1
    assert document["done"] + document["left"] == 11
    assert document["done"] > 0
    assert document["left"] > 0
    done = [Path(r["name"]).stem for r in document["results"] if r["status"] == "done"]
    kinds = ("mean.png", "std.png", "std.tiff", "json")
    present = {path.name for path in disk.iterdir()} - {"summary.json", "summary.csv"}
    assert present == {f"{stem}.{kind}" for stem in done for kind in kinds}
    for stem in done:
        with Image.open(disk / f"{stem}.mean.png") as picture:
            picture.load()
    remount(disk, "size=10m")
    assert run(command) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["skipped"], document["done"]) == (len(done), 12 - len(done))


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, pytest.raises(OSError, match="space"):
        collections.deque((file.write(bytes(4096)) for _ in range(10**4)), maxlen=0)


def test_a_full_disk_leaves_the_old_result_when_it_was_to_be_replaced(photos, disk, capsys):
    photo = save(photos / "a.png")
    command = ["denoise", str(photo), "-o", str(disk), *TINY]
    assert run(command) == 0
    before = {path.name: path.read_bytes() for path in disk.iterdir()}
    fill(disk / "ballast")
    assert run([*command, "--overwrite", "--seed", "1"]) == 3
    assert "no space left" in capsys.readouterr().err
    (disk / "ballast").unlink()
    assert {path.name: path.read_bytes() for path in disk.iterdir()} == before


def test_a_read_only_output_is_refused(photos, disk, capsys):
    save(photos / "a.png")
    remount(disk, "ro")
    for inputs in (photos, photos / "a.png"):
        assert run(["denoise", str(inputs), "-o", str(disk), *TINY]) == 2
        assert "read-only" in capsys.readouterr().err


def test_a_disk_that_fills_up_in_the_middle_of_a_map_is_recognised(photos, disk, capsys):
    """NumPy's own error for it has no number: std.tiff is what does not fit."""
    remount(disk, "size=1m")
    for number in range(4):
        pixels = np.random.default_rng(number).integers(0, 256, (256, 256)).astype(np.uint8)
        Image.fromarray(pixels).save(photos / f"{number}.png")
    (disk / "ballast").write_bytes(bytes(800_000))  # room for mean.png, not for std.tiff
    assert run(["denoise", str(photos), "-o", str(disk), *TINY, "--json"]) == 1
    said = capsys.readouterr()
    assert "0.std.tiff: no space left on device" in said.err
    document = json.loads(said.out)
    assert (document["failed"], document["left"]) == (1, 3)
