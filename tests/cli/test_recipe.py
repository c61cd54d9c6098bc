"""A run can be looked at before, written down, and made again from its record, bit for bit."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import UsageError
from diffbcp_cli.jobs.estimate import NeededPrior, memory, seconds
from diffbcp_cli.options import Options, check, read_recipe, read_size, resolve, to_mapping

SHORT = ["--prior", "none", "--iterations", "4", "--burn-in", "1", "--rank", "5", "--quiet"]


def results(folder: Path, stem: str) -> bytes:
    return b"".join((folder / f"{stem}.{kind}").read_bytes() for kind in ("mean.png", "std.tiff"))


def test_a_record_makes_its_result_again_even_one_from_a_folder(photo, mask, tmp_path):
    again = tmp_path / "photos" / "sub" / "photo.png"
    again.parent.mkdir(parents=True)
    again.write_bytes(photo.read_bytes())
    first, second = tmp_path / "first", tmp_path / "second"
    command = ["inpaint", str(tmp_path / "photos"), "--mask", str(mask), "-o", str(first), "-j", "1"]
    assert run([*command, "--seed", "3", "--observed", "keep", *SHORT]) == 0
    record = first / "sub" / "photo.json"
    assert run(["inpaint", "--config", str(record), "-o", str(second), "--quiet"]) == 0
    assert results(second, "photo") == results(first / "sub", "photo")
    options = json.loads((second / "photo.json").read_text())["options"]
    assert options == json.loads(record.read_text())["options"]
    assert (options["seed"], options["observed"], options["threads"]) == (3, "keep", 1)


def test_what_is_typed_wins_over_the_record(photo, tmp_path):
    assert run(["denoise", str(photo), "-o", str(tmp_path / "a"), *SHORT]) == 0
    record = ["--config", str(tmp_path / "a" / "photo.json"), "--quiet"]
    assert run(["denoise", str(photo), "-o", str(tmp_path / "b"), "--seed", "9", *record]) == 0
    options = json.loads((tmp_path / "b" / "photo.json").read_text())["options"]
    assert (options["seed"], options["iterations"]) == (9, 4)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('{"options": {"iteratoins": 5}}', "did you mean iterations?"),
        ('{"options": {"iterations": "many"}}', "--iterations"),
        ('{"seed": 5}', "no options"),
        ("[1, 2]", "no options"),
        ("{", "cannot read"),
        ("[" * 100_000, "cannot read"),
    ],
)
def test_a_json_file_that_is_no_record_is_a_usage_error(text, word, tmp_path, capsys):
    path = tmp_path / "photo.json"
    path.write_text(text)
    assert run(["denoise", "photo.png", "--config", str(path)]) == 2
    assert word in capsys.readouterr().err


def test_the_printed_configuration_has_every_option_and_can_be_given_back(tmp_path, capsys):
    assert run(["denoise", "--print-config", "--rank", "7", "--memory-budget", "2GB", "--sigma", "0.1"]) == 0
    printed = capsys.readouterr().out
    for name in to_mapping(Options()):  # those of other methods are left out
        assert name.replace("_", "-") in printed
    path = tmp_path / "run.toml"
    path.write_text(printed)
    cfg = resolve(read_recipe(path).given)
    assert (cfg.rank, cfg.memory_budget, cfg.sigma) == (7, 2 * 10**9, 0.1)
    assert run(["denoise", "--print-config", "--config", str(path)]) == 0
    assert capsys.readouterr().out == printed


def test_a_dry_run_says_what_would_be_done_and_writes_nothing(photo, mask, tmp_path, capsys):
    out = tmp_path / "out"
    (photo.parent / "bad.png").write_bytes(b"no picture")
    before = sorted(tmp_path.rglob("*"))
    command = ["inpaint", str(tmp_path), "--mask", str(mask), "-o", str(out), "--dry-run", *SHORT]
    assert run([*command, "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert said["images"] == 2
    by_name = {one["name"]: one for one in said["results"]}
    assert by_name["photo.png"]["missing_share"] == pytest.approx(90 / 1024)
    assert by_name["photo.png"]["seconds"] > 0
    assert said["memory"] > 2e8
    assert "not an image" in by_name["bad.png"]["error"]
    assert run(command) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "1 to do (1 cannot be restored), 1 at a time" in shown
    assert "to download: nothing" in shown
    assert sorted(tmp_path.rglob("*")) == before


def test_a_dry_run_of_one_photograph_fails_as_the_run_would(tmp_path, capsys):
    assert run(["denoise", str(tmp_path / "none.png"), "--dry-run", *SHORT]) == 3
    assert run(["denoise", str(tmp_path), "--dry-run", "--prior", "no-such-prior"]) == 4
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.slow
def test_a_dry_run_is_near_the_processor_time_of_the_run(tmp_path, capsys):
    """It was six to seven times too high once; processors differ by a factor of two or so."""
    pixels = np.random.default_rng(0).normal(120, 20, (160, 160, 3)).clip(0, 255).astype(np.uint8)
    hole = np.zeros((160, 160), np.uint8)
    hole[::2] = 255
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    Image.fromarray(hole).save(tmp_path / "mask.png")
    command = ["inpaint", str(tmp_path / "photo.png"), "--mask", str(tmp_path / "mask.png"), "--fast"]
    command += ["-o", str(tmp_path / "out"), "--threads", "1", "--json"]
    assert run([*command, "--dry-run"]) == 0
    said = json.loads(capsys.readouterr().out)["seconds"]
    began = time.process_time()
    assert run(command) == 0
    taken = time.process_time() - began
    assert taken / 3 < said < 3 * taken, (said, taken)


def test_estimates_grow_with_the_work():
    cfg, prior = Options(sampler="split-gibbs"), NeededPrior("natural", None, 0)
    assert seconds(10**5, 3, cfg, prior) > seconds(10**5, 3, cfg, None) > seconds(10**4, 3, cfg, None)
    assert seconds(10**5, 3, dataclasses.replace(cfg, chains=2), None) == 2 * seconds(10**5, 3, cfg, None)
    assert seconds(10**5, 3, dataclasses.replace(cfg, time_budget=7.0), None) == 7
    small, none = (300, 300, 3), dataclasses.replace(cfg, prior="none")
    assert memory(*small, cfg, prior) > memory(*small, none, None) > memory(100, 100, 3, none, None)
    assert 0.8 * cfg.memory_budget < memory(8192, 8192, 3, cfg, prior) <= cfg.memory_budget
    too_small = dataclasses.replace(cfg, memory_budget=10**9)
    assert memory(8192, 8192, 3, too_small, prior) > 3e9  # the picture and its sums alone


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("512MiB", 512 * 2**20),
        ("1.5g", 15 * 10**8),
        ("300000000", 3 * 10**8),
        ("4 GiB", 2**32),
    ],
)
def test_sizes_are_read_in_powers_of_ten_and_of_two(text, size):
    assert read_size(text, "--memory-budget") == size


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1e9", "2 gigs", "9" * 400, "1KIB2", "nan"])
def test_what_is_no_size_is_a_usage_error(text):
    with pytest.raises(UsageError):
        read_size(text, "--memory-budget")


def test_a_budget_too_small_to_work_in_is_refused():
    with pytest.raises(UsageError, match="at least 64MiB"):
        check({"memory-budget": "1MB"})
    assert check({"memory-budget": "1GB"}) == {"memory_budget": 10**9}


def test_the_default_budget_leaves_the_sampler_as_it_was():
    from diffbcp_cli.lowrank.cp_sweep import MEMORY_BUDGET
    from diffbcp_cli.methods.low_rank import settings_of

    assert settings_of(Options(), None).budget == MEMORY_BUDGET
    assert settings_of(resolve(check({"memory-budget": "1GiB"})), None).budget == MEMORY_BUDGET // 4


def test_a_picture_over_the_limit_is_refused_before_it_is_decoded(tmp_path, capsys):
    Image.new("L", (3000, 1000)).save(tmp_path / "large.png")
    command = ["denoise", str(tmp_path / "large.png"), "-o", str(tmp_path / "out"), *SHORT]
    assert run([*command, "--max-pixels", "2.9M"]) == 3
    assert "2.9 million pixels" in capsys.readouterr().err
