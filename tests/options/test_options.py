"""Options: each stands once, is checked, and is resolved once; TOML in and out."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from diffbcp_cli.errors import UsageError
from diffbcp_cli.options import (
    EXTRAS,
    GROUPS,
    METHODS,
    PRESETS,
    Options,
    asks_to_refine,
    check,
    kinds,
    lay,
    read_duration,
    read_recipe,
    read_toml,
    resolve,
    table,
    takes,
    to_mapping,
    to_toml,
)
from diffbcp_cli.options.methods import OF_SPLIT_GIBBS, MethodEntry

NAMES = list(table(Options))
DURATIONS = [name for name, one in table(Options).items() if one.read is read_duration]
WHOLE = [name for name, kind in kinds(Options).items() if kind is int and table(Options)[name].read is None]
NUMBERS = [name for name, kind in kinds(Options).items() if kind is float and name not in DURATIONS]


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
        resolve(check({name: value}))
    assert f"--{name.replace('_', '-')}" in error.value.message
    assert error.value.exit_code == 2
    with pytest.raises(UsageError):
        Options(**{name: value})


@pytest.mark.parametrize("name", NAMES)
def test_a_value_of_the_wrong_type_is_a_usage_error(name):
    with pytest.raises(UsageError):
        check({name: {"a": "table"}})


@pytest.mark.parametrize("name", WHOLE)
def test_only_a_whole_number_is_a_whole_number(name):
    for value in (2.5, 200.5, math.nan, "3", True):
        with pytest.raises(UsageError):
            check({name: value})


@pytest.mark.parametrize("name", NUMBERS)
def test_only_a_number_is_a_number(name):
    for value in ("0.5", [1.0], True):
        with pytest.raises(UsageError):
            check({name: value})


def test_a_whole_number_is_a_number():
    assert check({"coupling": 30, "rho-max": 4}) == {"coupling": 30, "rho_max": 4}


def test_burn_in_that_leaves_nothing_says_what_would():
    with pytest.raises(UsageError) as error:
        Options(iterations=50, burn_in=50)
    assert "--burn-in 20" in (error.value.hint or "")


def test_limits_are_allowed():
    Options(iterations=1, burn_in=0)
    Options(iterations=5, burn_in=4, patch_size=2, stride=2)
    Options(rho_min=0.5, rho_max=0.5)
    Options(save=EXTRAS)


def test_a_configuration_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Options().rank = 3


# --- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right"), [("iteration", "iterations"), ("burnin", "burn-in"), ("patch-sise", "patch-size")]
)
def test_an_unknown_name_suggests_the_right_one(wrong, right):
    with pytest.raises(UsageError, match=wrong) as error:
        check({wrong: 1})
    assert right in (error.value.hint or "")


def test_a_name_like_no_other_suggests_nothing():
    with pytest.raises(UsageError, match="qqqq") as error:
        check({"qqqq": 1})
    assert error.value.hint is None


def test_dashes_and_underscores_are_the_same():
    assert check({"burn-in": 7, "patch_size": 12}) == {"burn_in": 7, "patch_size": 12}


def test_what_lies_over_wins():
    assert lay({"rank": 7, "seed": 3}, {"seed": 4}) == {"rank": 7, "seed": 4}


def test_a_new_patch_size_takes_its_own_stride():
    assert resolve(lay({"patch_size": 16, "stride": 3}, {"patch_size": 10})).stride == 5
    assert resolve(lay({"stride": 3}, {"rank": 10})).stride == 3
    assert resolve({"patch_size": 3}).stride == 1


# --- the table -------------------------------------------------------------------------------------------


def test_every_option_has_a_type_help_and_a_group():
    for name, one in table(Options).items():
        assert one.group in GROUPS, name
        assert one.help.endswith("."), name
        assert kinds(Options)[name] in (bool, int, float, str, tuple), name


def test_every_value_in_the_table_passes_its_own_check():
    for name, one in table(Options).items():
        for value in one.large.values():
            check({name: value})
    for preset in PRESETS.values():
        check(preset.values)
        for values in preset.large.values():
            check(values)


def test_options_need_no_heavy_package():
    code = (
        "import sys, diffbcp_cli.options; assert not {'torch', 'numpy', 'typer', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_an_option_of_another_method_is_refused(monkeypatch):
    monkeypatch.setitem(METHODS, "other", MethodEntry("another", ("coupling",)))
    owners = "diffbcp and bcp-gibbs and bcp and btr"
    with pytest.raises(UsageError, match=f"--rank is an option of {owners}, not of other"):
        resolve({"method": "other", "rank": 5})
    found = resolve({"method": "other", "coupling": 3.0, "seed": 4, "preset": "fast"})
    assert (found.coupling, found.seed) == (3.0, 4)
    record = to_mapping(found)
    assert "rank" not in record
    assert resolve(check(record)) == found


def test_a_path_takes_no_option_of_chains_and_its_last_step_counts(monkeypatch):
    walk = MethodEntry("a walk", ("sweeps",), path=True, defaults={"sweeps": 9, "iterations": 7})
    monkeypatch.setitem(METHODS, "walk", walk)
    for name, value in (("burn_in", 5), ("thin", 2), ("calibrate", True), ("until_converged", True)):
        with pytest.raises(UsageError, match=r"is an option of diffbcp and .*, not of walk"):
            resolve({"method": "walk", name: value})
    found = resolve({"method": "walk"})
    assert (found.sweeps, found.iterations, found.burn_in) == (9, 7, 6)
    assert resolve({"method": "walk", "iterations": 1}).burn_in == 0
    assert not {"burn_in", "thin"} & set(to_mapping(found))
    assert resolve(check(to_mapping(found))) == found


# --- sizes and presets -----------------------------------------------------------------------------------


def large(known=0.5, **given):
    return resolve(check(given), height=2048, width=2048, known=known)


def differences(found, usual):
    return {name: getattr(found, name) for name in NAMES if getattr(found, name) != getattr(usual, name)}


def test_small_photographs_keep_the_usual_values():
    usual = Options(iterations=52, burn_in=20, calibrate=True)
    assert resolve({}) == resolve({}, height=512, width=512, known=0.1) == usual
    assert resolve({}, height=512, width=513, known=0.1) != usual
    assert large(size_defaults=False) == replace(usual, size_defaults=False)
    paper = Options(sampler="split-gibbs")
    assert resolve({"sampler": "split-gibbs"}, height=512, width=512, known=0.1) == paper


PATCH = {
    "iterations": 12,
    "burn_in": 5,
    "coupling": 6.0,
    "rho_min": 0.05,
    "calls": 1,
    "sweeps": 2,
    "finish": 10,
}
RESHAPE = {
    **{"iterations": 30, "burn_in": 12, "rank": 500, "block": 500, "coupling": 50.0},
    **{"calls": 1, "sweeps": 2, "prior_scale": "fit"},
}
FAST = {"rank": 100, "adapt_floor": 3.0, "calls": 1}


@pytest.mark.parametrize(
    ("given", "known", "expected"),
    [
        ({}, 0.5, PATCH),
        ({}, 0.1, {**PATCH, "rank": 100}),
        ({"prior": "none"}, 0.5, {"iterations": 24, "burn_in": 10}),
        ({"prior": "none"}, 0.1, {"iterations": 24, "burn_in": 10, "rank": 100}),
        ({"tensorize": "reshape"}, 0.1, RESHAPE),
        ({"tensorize": "reshape", "prior": "none"}, 0.1, RESHAPE),
        ({"preset": "fast"}, 0.5, {**PATCH, **FAST, "iterations": 6, "burn_in": 2}),
        ({"preset": "fast", "prior": "none"}, 0.5, {**FAST, "iterations": 12, "burn_in": 5}),
        (
            {"preset": "fast", "tensorize": "reshape"},
            0.5,
            {**RESHAPE, **FAST, "iterations": 15, "burn_in": 6},
        ),
        ({"preset": "fast", "iterations": 60}, 0.5, {**PATCH, **FAST, "iterations": 60, "burn_in": 24}),
        ({"preset": "fast", "burn_in": 3}, 0.5, {**PATCH, **FAST, "iterations": 60, "burn_in": 3}),
        ({"rank": 200, "iterations": 100}, 0.1, {**PATCH, "iterations": 100, "burn_in": 40}),
        ({"burn_in": 7}, 0.5, {**PATCH, "iterations": 100, "burn_in": 7}),
        ({"rank": 77, "calls": 3}, 0.1, {**PATCH, "rank": 77, "calls": 3}),
    ],
    ids=str,
)
def test_large_photographs_take_other_values_unless_given(given, known, expected):
    """The values of split-gibbs, which were measured; what is given always stays."""
    given = {"sampler": "split-gibbs", **given}
    found = large(known, **given)
    assert differences(found, Options(**given)) == {
        name: value for name, value in expected.items() if value != getattr(Options(**given), name)
    }
    assert large(known, **to_mapping(found)) == found


PAPER = {
    **{"tensorize": "patch", "patch_size": 16, "stride": 8, "rank": 200, "adapt_rank": True},
    **{"coupling": 100.0, "rho_min": 0.3, "rho_max": 10.0, "solver": "paper", "sweeps": 1},
    **{"iterations": 100, "burn_in": 40, "thin": 3, "finish": 0},
}
"""The experiment of the paper, section on inpainting and denoising and its appendix."""


@pytest.mark.parametrize(
    ("side", "other"),
    [
        (256, {}),
        (512, {}),
        (2048, {"tensorize": "reshape", "rank": 500, "coupling": 50.0, "rho_min": 0.1, "sweeps": 2}),
    ],
)
def test_the_paper_preset_is_its_experiment(side, other):
    found = resolve({"preset": "paper"}, height=side, width=side, known=0.1)
    assert {name: getattr(found, name) for name in PAPER} == {**PAPER, **other}
    assert found.prior_scale == ("fit" if other else "tile")
    assert resolve({"preset": "paper", "rank": 10}, height=side, width=side).rank == 10


def test_the_paper_preset_belongs_to_one_method():
    assert resolve({"preset": "paper"}).method == PRESETS["paper"].method
    with pytest.raises(UsageError, match="--preset paper is for"):
        resolve({"preset": "paper", "method": "tctv"})


def test_bcp_gibbs_is_the_chain_without_a_prior():
    for side in (256, 1024):
        alone = resolve({"method": "bcp-gibbs"}, height=side, width=side)
        twin = resolve({"prior": "none"}, height=side, width=side)
        assert alone.prior == "none"
        assert differences(alone, twin) == {"method": "bcp-gibbs"}
    with pytest.raises(UsageError, match="no use for a prior"):
        resolve({"method": "bcp-gibbs", "prior": "natural"})


def test_a_preset_lies_under_what_is_given():
    assert differences(resolve({"preset": "fast"}), Options()) == {
        **{"preset": "fast", "iterations": 12, "burn_in": 7}
    }
    split = {"sampler": "split-gibbs", "preset": "fast"}
    assert differences(resolve(split), Options(sampler="split-gibbs")) == {
        **{"preset": "fast", "iterations": 60, "burn_in": 24, **FAST}
    }
    assert resolve({"preset": "fast", "rank": 200}).rank == 200


def test_resolved_options_stay_as_they_are():
    options = Options(rank=7)
    assert resolve(options, height=4000, width=4000, known=0.1) is options


# --- TOML ------------------------------------------------------------------------------------------------


CHANGED = {
    "prior": 'C:\\priors\\my "own" prïor 図',
    "sampler": "split-gibbs",
    "iterations": 17,
    "burn_in": 3,
    "thin": 2,
    "rank": 9,
    "adapt_rank": False,
    "adapt_floor": 1e-7,
    "tensorize": "reshape",
    "patch_size": 12,
    "stride": 5,
    "patch_weights": "once",
    "coupling": 12.5,
    "rho_min": 0.1,
    "rho_max": 3.0,
    "solver": "paper",
    "sigma": 0.025,
    "seed": 123456789,
    "device": "cuda:1",
    "observed": "keep",
    "save": ("mean", "samples"),
}


@pytest.mark.parametrize("given", [{}, {"rank": 200}, CHANGED], ids=["none", "one", "many"])
def test_toml_there_and_back(given, tmp_path):
    assert read(tmp_path, to_toml(given)) == given


def test_printed_toml_shows_every_default_as_a_comment():
    printed = to_toml({"rank": 200, "preset": "fast"}).splitlines()
    assert {"rank = 200", 'preset = "fast"', "# iterations = 60", "# seed = 0"} <= {*printed}
    assert len(printed) == len([name for name in NAMES if takes("diffbcp", name)])
    assert len(to_toml({}).splitlines()) == len(printed) - len(OF_SPLIT_GIBBS) - 1  # and --finish


# --- the sampler of diffbcp ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given", [{}, {"seed": 3}, {"iterations": 9}, {"estimator": "refined", "finish": 4}], ids=str
)
def test_diffbcp_draws_by_langevin_dynamics(given):
    assert resolve(given).sampler == "langevin"


@pytest.mark.parametrize(
    "given",
    [
        *({name: getattr(Options, name)} for name in OF_SPLIT_GIBBS if name != "stride"),
        {"stride": 4},
        {"finish": 3},
        {"prior": "none"},
        {"preset": "paper"},
        {"method": "bcp-gibbs"},
    ],
    ids=str,
)
def test_an_option_of_the_low_rank_model_chooses_its_sampler(given):
    assert resolve(given).sampler == "split-gibbs"
    if "method" not in given:
        with pytest.raises(UsageError, match="goes with --sampler split-gibbs"):
            resolve({**given, "sampler": "langevin"})


@pytest.mark.parametrize(
    ("given", "refines"),
    [
        ({}, False),
        ({"sampler": "split-gibbs"}, True),
        ({"preset": "paper"}, False),
        ({"estimator": "refined"}, True),
        ({"sampler": "split-gibbs", "estimator": "mean"}, False),
        ({"method": "pnp-dm"}, False),
    ],
    ids=str,
)
def test_the_estimator_goes_with_the_sampler_unless_given(given, refines):
    assert asks_to_refine(resolve(given)) == refines


@pytest.mark.parametrize(
    ("given", "burn_in"),
    [
        ({"iterations": 26}, 10),
        ({"iterations": 1}, 0),
        ({"iterations": 300}, 20),
        ({"iterations": 300, "burn_in": 100}, 100),
        ({"iterations": 10, "rank": 5}, 4),
        ({"iterations": 20, "method": "pnp-dm"}, 8),
        ({"iterations": 24, "preset": "fast"}, 7),
    ],
    ids=str,
)
def test_fewer_iterations_keep_the_share_of_burn_in(given, burn_in):
    assert resolve(given).burn_in == burn_in


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), st.floats(1e-6, 1e6))
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_text_and_any_number_go_through_toml(tmp_path_factory, text, number):
    given = {"prior": text, "coupling": number}
    assert read(tmp_path_factory.mktemp("toml"), to_toml(given)) == given


def test_a_record_makes_the_same_options_again_for_any_photograph(tmp_path):
    path = tmp_path / "photo.json"
    for options in (Options(), Options(**CHANGED), large(0.1, preset="fast")):
        path.write_text(json.dumps({"options": {**to_mapping(options), "pinned": []}}))
        given = read_recipe(path).given
        assert resolve(given) == resolve(given, height=3000, width=3000, known=0.1) == options


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
        check({name: text})


def test_a_time_may_be_written_in_hours_minutes_and_seconds():
    assert [read_duration(t) for t in ("90", "90s", "1.5m", "1h 30m", "2h5s")] == [90, 90, 90, 5400, 7205]
    assert check({"time_budget": "2m"}) == {"time_budget": 120}


def test_every_method_has_a_file_that_builds_it():
    from diffbcp_cli.methods import builder, state_classes

    for name, entry in METHODS.items():
        assert callable(builder(name))
        assert state_classes(name)
        assert {*entry.options} <= {*NAMES}


@pytest.mark.parametrize(
    ("given", "size", "calibrates"),
    [
        ({}, 256, True),
        ({}, 1024, False),
        ({"iterations": 26}, 256, False),
        ({"iterations": 100}, 256, True),
        ({"calibrate": False}, 256, False),
        ({"iterations": 26, "calibrate": True}, 256, True),
        ({"preset": "fast"}, 256, False),
        ({"sampler": "split-gibbs"}, 256, False),
    ],
    ids=str,
)
def test_a_run_long_enough_is_calibrated(given, size, calibrates):
    assert resolve(given, height=size, width=size, known=0.5).calibrate == calibrates
