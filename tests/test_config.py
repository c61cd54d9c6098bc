"""Options: checked once, every wrong value a usage error; TOML in and out."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffbcp_cli.errors import UsageError
from diffbcp_cli.options import (
    DURATIONS,
    EXTRAS,
    RunConfig,
    duration,
    from_mapping,
    read_toml,
    to_mapping,
    to_toml,
)

NAMES = [field.name for field in dataclasses.fields(RunConfig)]
WHOLE = [field.name for field in dataclasses.fields(RunConfig) if field.type == "int"]
NUMBERS = [
    field.name
    for field in dataclasses.fields(RunConfig)
    if "float" in str(field.type) and field.name not in DURATIONS
]


def read(tmp_path, text):
    path = tmp_path / "run.toml"
    path.write_text(text, encoding="utf-8")
    return read_toml(path)


# --- values ----------------------------------------------------------------------------------------------


INVALID = [
    ("iterations", 0),
    ("iterations", -3),
    ("thin", 0),
    ("rank", 0),
    ("block", 0),
    ("calls", 0),
    ("chains", 0),
    ("burn_in", -1),
    ("burn_in", 10**9),
    ("patch_size", 1),
    ("stride", 0),
    ("stride", 10**6),
    ("coupling", 0.0),
    ("coupling", -1.0),
    ("coupling", math.nan),
    ("coupling", math.inf),
    ("rho_min", 0.0),
    ("rho_min", math.nan),
    ("rho_min", 1e9),
    ("rho_max", 1e-9),
    ("rho_max", math.inf),
    ("rho_max", math.nan),
    ("sigma", 0.0),
    ("sigma", -0.1),
    ("sigma", 1.5),
    ("sigma", math.nan),
    ("adapt_floor", -1.0),
    ("adapt_floor", math.nan),
    ("tensorize", "spiral"),
    ("patch_weights", "twice"),
    ("observed", "Keep"),
    ("precision", "fp8"),
    ("solver", "euler"),
    ("save", ("mean", "everything")),
]


@pytest.mark.parametrize(("name", "value"), INVALID, ids=lambda v: str(v))
def test_a_value_that_cannot_be_used_is_a_usage_error(name, value):
    with pytest.raises(UsageError) as error:
        from_mapping({name: value})
    flag = name.replace("_", "-")
    words = {"rho-max": "--rho-min", "stride": "--patch-size"}  # named together
    assert f"--{flag}" in error.value.message or words.get(flag, "?") in error.value.message
    assert error.value.exit_code == 2


@pytest.mark.parametrize("name", NAMES)
def test_a_value_of_the_wrong_type_is_a_usage_error(name):
    with pytest.raises(UsageError):
        from_mapping({name: {"a": "table"}})


@pytest.mark.parametrize("name", WHOLE)
def test_only_a_whole_number_is_a_whole_number(name):
    for value in (2.5, 200.5, math.nan, "3", True):
        with pytest.raises(UsageError):
            from_mapping({name: value})


@pytest.mark.parametrize("name", NUMBERS)
def test_only_a_number_is_a_number(name):
    for value in ("0.5", [1.0], True):
        with pytest.raises(UsageError):
            from_mapping({name: value})


def test_a_whole_number_is_a_number():
    assert from_mapping({"coupling": 30, "rho-max": 4}).coupling == 30


def test_burn_in_that_leaves_nothing_says_what_would():
    with pytest.raises(UsageError) as error:
        RunConfig(iterations=50, burn_in=50)
    assert "--burn-in 20" in (error.value.hint or "")


def test_limits_are_allowed():
    RunConfig(iterations=1, burn_in=0)
    RunConfig(iterations=5, burn_in=4, patch_size=2, stride=2)
    RunConfig(rho_min=0.5, rho_max=0.5)
    RunConfig(save=EXTRAS)


def test_a_configuration_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().rank = 3


@given(st.integers(1, 60), st.integers(0, 59), st.integers(1, 9))
@settings(max_examples=50, deadline=None, derandomize=True)
def test_kept_draws_start_after_burn_in_and_are_evenly_spaced(iterations, burn_in, thin):
    if burn_in >= iterations:
        return
    kept = RunConfig(iterations=iterations, burn_in=burn_in, thin=thin).kept()
    assert kept[0] == burn_in
    assert kept[-1] < iterations <= kept[-1] + thin
    assert {b - a for a, b in pairwise(kept)} <= {thin}


# --- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right"), [("iteration", "iterations"), ("burnin", "burn-in"), ("patch-sise", "patch-size")]
)
def test_an_unknown_name_suggests_the_right_one(wrong, right):
    with pytest.raises(UsageError, match=wrong) as error:
        from_mapping({wrong: 1})
    assert right in (error.value.hint or "")


def test_a_name_like_no_other_suggests_nothing():
    with pytest.raises(UsageError, match="qqqq") as error:
        from_mapping({"qqqq": 1})
    assert error.value.hint is None


def test_dashes_and_underscores_are_the_same():
    expected = RunConfig(burn_in=7, patch_size=12, pinned=("burn_in",))
    assert from_mapping({"burn-in": 7, "patch_size": 12}) == expected


def test_values_are_laid_over_a_base():
    base = RunConfig(rank=7, seed=3)
    assert from_mapping({"seed": 4}, base) == RunConfig(rank=7, seed=4)
    assert from_mapping({}, base) == base


# --- TOML ------------------------------------------------------------------------------------------------


CHANGED = RunConfig(
    prior='C:\\priors\\my "own" prïor 図',
    iterations=17,
    burn_in=3,
    thin=2,
    rank=9,
    adapt_rank=False,
    adapt_floor=1e-7,
    tensorize="reshape",
    patch_size=12,
    stride=5,
    patch_weights="once",
    coupling=12.5,
    rho_min=0.1,
    rho_max=3.0,
    solver="paper",
    sigma=0.025,
    seed=123456789,
    device="cuda:1",
    observed="keep",
    save=("mean", "samples"),
)


@pytest.mark.parametrize("cfg", [RunConfig(), CHANGED], ids=["defaults", "changed"])
def test_toml_there_and_back(cfg, tmp_path):
    assert read(tmp_path, to_toml(cfg)) == cfg


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), st.floats(1e-6, 1e6))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_text_and_any_number_go_through_toml(tmp_path_factory, text, number):
    cfg = RunConfig(prior=text, coupling=number)
    assert read(tmp_path_factory.mktemp("toml"), to_toml(cfg)) == cfg


def test_what_json_records_makes_the_same_configuration_again():
    for cfg in (RunConfig(), CHANGED):
        assert from_mapping(to_mapping(cfg)) == cfg


@pytest.mark.parametrize(
    "text", ["rank = ", "rank = 0", "rank = 'many'", "ranks = 3", "rank = 3\nrank = 4", "[section]\nrank = 3"]
)
def test_a_bad_file_is_a_usage_error(tmp_path, text):
    with pytest.raises(UsageError):
        read(tmp_path, text)


def test_a_file_that_cannot_be_read_is_a_usage_error_that_names_it(tmp_path):
    (tmp_path / "binary.toml").write_bytes(b"rank = 3 \xff\xfe")
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "binary.toml"):
        with pytest.raises(UsageError, match=Path(path).name):
            read_toml(path)


@pytest.mark.parametrize("name", DURATIONS)
@pytest.mark.parametrize("text", ["", "soon", "2x", "-3m", "1m2h", "1..2s", "s", "nan", "inf"])
def test_what_is_not_a_time_is_refused(name, text):
    with pytest.raises(UsageError):
        from_mapping({name: text})


def test_a_time_may_be_written_in_hours_minutes_and_seconds():
    assert [duration(t) for t in ("90", "90s", "1.5m", "1h 30m", "2h5s")] == [90, 90, 90, 5400, 7205]
    assert from_mapping({"time_budget": "2m"}).time_budget == 120
