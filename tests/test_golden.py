"""Results of tiny seeded runs do not change unnoticed: see golden_runs.py."""

from __future__ import annotations

import json
import math

import golden_runs
import numpy as np
import pytest

RECORDED = json.loads((golden_runs.HOME / "numbers.json").read_text())
SAME_MACHINE = RECORDED["machine"] == golden_runs.kind_of_machine()
CLOSE = 0.03  # of the range: chains on another kind of processor part after some iterations


@pytest.mark.slow
@pytest.mark.parametrize("name", golden_runs.RUNS)
def test_a_seeded_run_gives_what_it_gave(name, tmp_path):
    arrays, numbers = golden_runs.run(name, tmp_path)
    with np.load(golden_runs.HOME / f"{name}.npz") as recorded:
        assert arrays.keys() == set(recorded.files)
        for key, values in arrays.items():
            if SAME_MACHINE:
                np.testing.assert_array_equal(values, recorded[key], err_msg=key)
            else:
                top = 1.0 if values.dtype.kind == "f" else np.iinfo(values.dtype).max
                assert np.abs(values.astype(float) - recorded[key]).mean() < CLOSE * top
    differences = [*different(numbers, RECORDED["runs"][name])] if SAME_MACHINE else []
    assert not differences, differences


def different(now, then, place="record"):
    """Where two JSON values differ."""
    if isinstance(then, dict) and isinstance(now, dict):
        for key in then.keys() | now.keys():
            yield from different(now.get(key), then.get(key), f"{place}.{key}")
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for index, (one, other) in enumerate(zip(now, then, strict=True)):
            yield from different(one, other, f"{place}[{index}]")
    elif now != then and not (isinstance(then, float) and isinstance(now, float) and math.isclose(now, then)):
        yield f"{place}: {then} is now {now}"
