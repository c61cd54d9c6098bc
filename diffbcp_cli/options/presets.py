"""Presets: sets of values that are laid under what the user gives."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Preset:
    """Values laid under what the user gives. large: other values for large pictures, by case (see `resolve`).

    beyond: values of large pictures that come before the case is looked up. method, sampler: those that it is made
    for, None for any. langevin: the values in place of `values` for the sampler langevin.
    """

    help: str
    values: Mapping[str, Any]
    large: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)
    beyond: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    method: str | None = None
    sampler: str | None = None
    langevin: Mapping[str, Any] = dataclasses.field(default_factory=dict)


_UNTIL_AGREED = {"chains": 4, "until_converged": True}

PRESETS = {
    "paper": Preset(
        "the experiment of the paper: its settings and its solver, and nothing after the mean of the draws",
        {
            **{"tensorize": "patch", "patch_size": 16, "stride": 8, "patch_weights": "replicated"},
            **{"rank": 200, "block": 200, "adapt_rank": True, "sweeps": 1, "atom_patches": 0},
            **{"coupling": 100.0, "rho_min": 0.3, "rho_max": 10.0, "solver": "paper"},
            **{"iterations": 100, "burn_in": 40, "thin": 3, "finish": 0},
        },
        {"reshape": {"rank": 500, "block": 500, "coupling": 50.0, "rho_min": 0.1, "sweeps": 2}},
        beyond={"tensorize": "reshape"},
        method="diffbcp",
        sampler="split-gibbs",
    ),
    "fast": Preset(
        "trade a little quality for speed",
        {"rank": 100, "adapt_floor": 3.0, "iterations": 60, "burn_in": 24, "calls": 1},
        {
            "patch": {"iterations": 6, "burn_in": 2},
            "alone": {"iterations": 12, "burn_in": 5},
            "reshape": {"iterations": 15, "burn_in": 6},
        },
        langevin={"iterations": 12, "burn_in": 7, "calibrate": False},
    ),
    "thorough": Preset(
        "four chains, until they agree",
        _UNTIL_AGREED,
        langevin={**_UNTIL_AGREED, "max_iterations": 400},
    ),
}
