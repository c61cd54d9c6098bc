"""The one door: no input is overwritten, nothing is touched before the lock is held, two runs share their work."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tifffile
from conftest import picture
from PIL import Image

from diffbcp_cli.cli.app import run
from diffbcp_cli.jobs.job import Job
from diffbcp_cli.jobs.one import report_photo, restore_photo
from diffbcp_cli.jobs.session import Session
from diffbcp_cli.options import Options
from diffbcp_cli.photos.lock import results_of
from diffbcp_cli.photos.targets import target_of
from diffbcp_cli.watch import Watch

TINY = ["--prior", "none", "--iterations", "3", "--burn-in", "1", "--rank", "4", "--quiet"]


def save(path: Path, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((picture(24, 24, seed=seed) * 255).astype(np.uint8)).save(path)
    return path


def save_mask(path: Path) -> Path:
    hole = np.zeros((24, 24), np.uint8)
    hole[4:9, 3:9] = 255
    Image.fromarray(hole).save(path)
    return path


def unharmed(inputs: list[Path], command: list[str], capsys) -> None:
    """The command is refused, says why, and the inputs are as they were."""
    before = [path.read_bytes() for path in inputs]
    for more in ([], ["--overwrite"]):
        assert run([*command, *TINY, *more]) == 2
        assert "a result would be written over" in capsys.readouterr().err
        assert [path.read_bytes() for path in inputs] == before


def test_a_photograph_is_not_written_over_itself(tmp_path, capsys):
    photo = save(tmp_path / "photo.png")
    unharmed([photo], ["denoise", str(photo), "-o", str(photo)], capsys)
    (tmp_path / "link.png").hardlink_to(photo)
    unharmed([photo], ["denoise", str(photo), "-o", str(tmp_path / "link.png")], capsys)
    (tmp_path / "soft.png").symlink_to(photo)
    unharmed([photo], ["denoise", str(tmp_path / "soft.png"), "-o", str(photo)], capsys)


def test_a_mask_is_not_written_over(tmp_path, capsys):
    photo, mask = save(tmp_path / "photo.png"), save_mask(tmp_path / "m.png")
    unharmed([photo, mask], ["inpaint", str(photo), "--mask", str(mask), "-o", str(mask)], capsys)
    beside = save_mask(tmp_path / "photo.std.png")
    unharmed([photo, beside], ["inpaint", str(photo), "-m", str(beside), "-o", str(tmp_path)], capsys)


def test_the_float_result_beside_a_png_is_not_written_over_its_photograph(tmp_path, capsys):
    photo = tmp_path / "scan.tiff"
    tifffile.imwrite(photo, picture(24, 24, 1)[..., 0].astype(np.float32))
    unharmed([photo], ["denoise", str(photo), "-o", str(tmp_path / "scan.png")], capsys)
    tifffile.imwrite(photo, (picture(24, 24, 1)[..., 0] * 255).astype(np.uint8))
    assert run(["denoise", str(photo), "-o", str(tmp_path / "scan.png"), *TINY]) == 0  # no float result here
    assert (tmp_path / "scan.png").exists()


def test_no_photograph_or_mask_of_a_batch_is_written_over(tmp_path, capsys):
    one, two = save(tmp_path / "a.png"), save(tmp_path / "b.png", 1)
    mask = save_mask(tmp_path / "a.std.png")
    command = ["inpaint", str(one), str(two), "--mask", str(mask), "-o", str(tmp_path), *TINY]
    before = mask.read_bytes()
    assert run(command) == 1
    assert "a result would be written over" in capsys.readouterr().err
    assert mask.read_bytes() == before
    assert (tmp_path / "b.mean.png").exists()
    assert not (tmp_path / "a.mean.png").exists()


def test_names_that_clash_are_found_in_whichever_shards_they_are(tmp_path, capsys):
    photos = tmp_path / "photos"
    for suffix in ("png", "bmp", "webp", "tiff"):
        save(photos / f"g.{suffix}")
    failed = 0
    for part in ("1/3", "2/3", "3/3"):
        command = ["denoise", str(photos), "-o", str(tmp_path / "out"), "--shard", part, "--json", *TINY]
        run(command)
        document = json.loads(capsys.readouterr().out)
        assert (document["done"], document["skipped"]) == (0, 0)
        failed += document["failed"]
    assert failed == 4


def test_a_refused_run_leaves_the_files_of_the_other_alone(tmp_path, capsys):
    photo, out = save(tmp_path / "photo.png"), tmp_path / "out"
    out.mkdir()
    waiting = out / ".photo.mean.png.0123abcd.tmp"
    waiting.write_bytes(b"about to be renamed by the first run")
    with results_of(out, "photo"):
        assert run(["denoise", str(photo), "-o", str(out), *TINY]) == 2
        assert waiting.exists()


def test_with_wait_the_second_run_finds_the_work_done(tmp_path):
    job = Job(save(tmp_path / "photo.png"), None, target_of(Path("photo.png"), tmp_path / "out"), "photo.png")
    cfg = Options(prior="none", iterations=3, burn_in=1, rank=4)
    (tmp_path / "out").mkdir()
    found: list[str] = []
    second = threading.Thread(target=lambda: found.append(restore_photo(job, Session(cfg, wait=True)).status))
    with results_of(tmp_path / "out", "other"):
        second.start()
        first = restore_photo(job, Session(cfg, wait=True)).status
        second.join()
    assert sorted([first, *found]) == ["done", "skipped"]


class Impatient(Watch):
    """A user who has pressed Ctrl-C already."""

    def cancelled(self) -> bool:
        return True


def test_a_stop_before_the_first_iteration_leaves_nothing(tmp_path):
    target = target_of(Path("photo.png"), tmp_path / "out")
    job = Job(save(tmp_path / "photo.png"), None, target, "photo.png")
    session = Session({"prior": "none", "iterations": 3, "burn_in": 1, "rank": 4})
    with pytest.raises(KeyboardInterrupt):
        restore_photo(job, session, Impatient())
    report = report_photo(job, session, Impatient())
    assert (report.status, report.exit_code) == ("interrupted", 130)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.slow
def test_two_runs_on_one_folder_share_the_work(tmp_path):
    for number in range(6):
        save(tmp_path / "photos" / f"{number}.png", number)
    options = [
        "--prior",
        "none",
        "--iterations",
        "150",
        "--burn-in",
        "50",
        "--rank",
        "8",
        "--quiet",
        "--json",
    ]
    command = [sys.executable, "-m", "diffbcp_cli", "denoise", "photos", "-o", "out", "--wait", "-j", "1"]
    runs = [
        subprocess.Popen([*command, *options], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(2)
    ]
    done: list[str] = []
    for process in runs:
        printed, said = process.communicate(timeout=120)
        assert process.returncode == 0, said
        results = json.loads(printed)["results"]
        assert {one["status"] for one in results} <= {"done", "skipped"}
        done += [one["name"] for one in results if one["status"] == "done"]
    assert sorted(done) == [f"{number}.png" for number in range(6)]
    assert not list((tmp_path / "out").glob(".*"))


def test_alone_or_in_a_folder_the_bytes_are_the_same_and_the_record_says_the_threads(tmp_path):
    photo = save(tmp_path / "photos" / "photo.png")
    save(tmp_path / "photos" / "other.png", 1)
    for number, inputs in enumerate((photo, photo.parent)):
        out = tmp_path / str(number)
        assert run(["denoise", str(inputs), "-o", str(out), *TINY, "--threads", "1", "--jobs", "1"]) == 0
        assert json.loads((out / "photo.json").read_text())["threads"] == 1
    for ending in ("mean.png", "std.tiff", "std.png"):
        alone, together = ((tmp_path / n / f"photo.{ending}").read_bytes() for n in "01")
        assert alone == together
