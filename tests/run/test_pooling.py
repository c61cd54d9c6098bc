"""What the windows of a photograph say together."""

from __future__ import annotations

import pytest

from diffbcp_cli.run.pooling import Part, pool


def part(std, converged, calibration=None, weights=(0.5, 0.5), source="prior"):
    numbers = {
        "noise_source": source,
        "diagnostics": {"pixels_converged": converged},
        "calibration": calibration,
        "draws": int(100 * converged),
        "finish_level": std,
        "rank": {"last": 4, "active": 2},
        "finish_weights": list(weights),
    }
    trace = {"noise_std": [9.0, std, std]}
    return Part({"std": std, "lower": std, "upper": std}, numbers, (trace,), (f"{converged}",))


def calibration(factor, factors, held_out, shape="pixels"):
    return {
        "factor": factor,
        "factors": factors,
        "held_out_coverage_before": [0.2] * 4,
        "held_out_coverage": [0.5, 0.8, 0.9, 0.95],
        "held_out": held_out,
        "held_out_shape": shape,
    }


def test_the_worst_window_speaks_for_the_convergence_and_the_middle_one_for_the_noise():
    both = pool([part(0.1, 0.9), part(0.3, 0.2), part(0.2, 0.5)], burn_in=1)
    assert both.warnings == ("0.2",)
    assert both.numbers["diagnostics"] == {"pixels_converged": 0.2}
    assert both.noise["std"] == 0.2
    assert both.numbers["draws"] == 20
    assert both.numbers["tensor_noise"]["std"] == pytest.approx(0.2)


def test_the_refinement_is_reported_as_the_mean_over_windows():
    both = pool([part(0.1, 0.9, weights=(1.0,)), part(0.3, 0.9, weights=(0.2, 0.8))], burn_in=0)
    assert both.numbers["finish_level"] == pytest.approx(0.2)
    assert both.numbers["finish_weights"] == pytest.approx([0.6, 0.4])


def test_without_a_prior_the_noise_is_that_of_all_chains():
    both = pool([part(0.1, 0.9, source="chain"), part(0.3, 0.9, source="chain")], burn_in=1)
    assert both.noise["std"] == pytest.approx(0.2)
    assert both.numbers["noise_source"] == "chain"


def test_calibrations_count_by_what_was_held_out():
    few, many = (
        calibration(2.0, [1.0, 1.5, 2.0, 3.0], 100),
        calibration(1.0, [0.5, 0.5, 1.0, 1.0], 300, "strokes"),
    )
    found = pool([part(0.1, 0.9, few), part(0.1, 0.9, None), part(0.1, 0.9, many)], burn_in=0)
    both = found.numbers["calibration"]
    assert both["factor"] == pytest.approx(1.25)
    assert both["factors"] == pytest.approx([0.625, 0.75, 1.25, 1.5])
    assert (both["held_out"], both["held_out_shape"]) == (400, "strokes")
    assert pool([part(0.1, 0.9, few)], burn_in=0).numbers["calibration"] == few
