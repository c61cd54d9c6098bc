"""The user's own defaults: a file and variables, under everything that is typed."""

from __future__ import annotations

import json

import pytest
from conftest import SHORT

from diffbcp_cli.cli.app import run
from diffbcp_cli.cli.own_defaults import config_path, fitting, own_defaults
from diffbcp_cli.errors import UsageError


@pytest.fixture
def config(tmp_path, monkeypatch):
    monkeypatch.delenv("DIFFBCP_CONFIG")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "diffbcp" / "config.toml"
    path.parent.mkdir()
    return path


def used(capsys, *typed: str) -> dict:
    """The options of a run, as --print-config shows those that were given."""
    assert run(["inpaint", *typed, "--print-config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    return dict(line.split(" = ") for line in lines if not line.startswith("#"))


def test_typed_over_config_over_variable_over_file(config, monkeypatch, tmp_path, capsys):
    config.write_text("seed = 1\ndevice = 'cpu'\nsave = ['panel']\niterations = 70\n")
    assert used(capsys)["seed"] == "1"
    monkeypatch.setenv("DIFFBCP_SEED", "2")
    assert used(capsys)["seed"] == "2"
    (tmp_path / "run.toml").write_text("seed = 3\n")
    assert used(capsys, "--config", str(tmp_path / "run.toml"))["seed"] == "3"
    found = used(capsys, "--config", str(tmp_path / "run.toml"), "--seed", "4")
    assert found["seed"] == "4"
    assert found["iterations"] == "70"
    assert "panel" in found["save"]


def test_a_run_uses_them_and_its_record_says_so(config, photo, tmp_path, capsys):
    config.write_text("seed = 9\n")
    assert run(["denoise", str(photo), "-o", str(tmp_path / "out"), *SHORT, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["given"]["seed"] == 9


def test_a_record_makes_its_result_again_whatever_the_defaults_are(config, photo, tmp_path, capsys):
    first, again = tmp_path / "a", tmp_path / "b"
    assert run(["denoise", str(photo), "-o", str(first), *SHORT]) == 0
    config.write_text("seed = 9\n")
    assert run(["denoise", "--config", str(first / "photo.json"), "-o", str(again), "-q"]) == 0
    assert (first / "photo.mean.png").read_bytes() == (again / "photo.mean.png").read_bytes()


def test_another_method_leaves_out_what_it_does_not_take():
    defaults = {"dps_zeta": 0.3, "seed": 1, "method": "dps"}
    assert fitting(defaults, {}) == defaults
    assert fitting(defaults, {"method": "telea"}) == {"seed": 1, "method": "dps"}
    assert fitting(defaults, {"preset": "fast"}) == {"seed": 1}
    assert "calibrate" not in own_defaults("denoise", {"DIFFBCP_CALIBRATE": "true"})
    assert own_defaults("inpaint", {"DIFFBCP_CALIBRATE": "true"})["calibrate"] is True


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("DIFFBCP_SEDE", "did you mean seed"),
        ("DIFFBCP_SEED", "DIFFBCP_SEED"),
        ("DIFFBCP_CONFIG", "is not there"),
    ],
)
def test_a_wrong_variable_is_said(variable, said, monkeypatch, capsys):
    monkeypatch.setenv(variable, "many")
    assert run(["denoise", "photo.png"]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_wrong_file_is_named(config, capsys):
    config.write_text("sede = 1\n")
    assert run(["denoise", "photo.png"]) == 2
    assert str(config) in capsys.readouterr().err.replace("\n", "")


def test_variables_of_other_things_are_no_options(monkeypatch):
    assert own_defaults("denoise", {"DIFFBCP_MODELS": "x", "DIFFBCP_FUZZ": "3", "DIFFBCP_SEED": ""}) == {}
    assert config_path({"DIFFBCP_CONFIG": "/a/b.toml"}).name == "b.toml"
    with pytest.raises(UsageError):
        own_defaults("denoise", {"DIFFBCP_CONFIG": "/nowhere/b.toml"})
