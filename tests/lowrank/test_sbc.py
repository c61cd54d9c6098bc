"""Simulation-based calibration of the CP sweep (Talts et al., 2018), on a tiny tensor.

A truth is drawn from the prior, data from the truth, and draws of the posterior from a chain that starts elsewhere.
Then the rank of each quantity of the truth among the chain's draws is uniform. Unlike Geweke's test it starts away
from the truth, so it also fails where the chain does not get to the posterior.
"""

from __future__ import annotations

from dataclasses import replace

import geweke
import numpy as np
import pytest
import tiny
import torch
from scipy import stats
from sweep_case import BUGS, SweepCase, noise_without_its_half

from diffbcp_cli.lowrank.cp_sweep import sweep

pytestmark = pytest.mark.statistical

CASE = SweepCase((2, 3), (4,), block=3)
REPLICATES, BURN_IN, THIN, DRAWS = 64, 50, 10, 15
FALSE_ALARM = 1e-4  # of all quantities together


def ranks(count, generator):
    """name -> (count,) ranks of the truth among DRAWS draws of its posterior, 0 to DRAWS."""
    left, observation = len(CASE.left), CASE.observation()
    draws, _ = CASE.prior(np.random.default_rng(7))
    spread, found = CASE.spread(observation.weight), []
    for index in range(count):
        truth = draws.take(slice(index, index + 1))
        x = torch.from_numpy(truth.entries(left)[0]).float()
        noise = torch.randn(x.shape, generator=generator) * float(truth.noise_precision[0]) ** -0.5
        seen = replace(observation, values=(x + spread * noise) * observation.observed)
        state, kept = draws.state(count + index, left), []
        for step in range(BURN_IN + THIN * DRAWS):
            state, _ = sweep(state, seen, geweke.HYPER, coupling=None, block=CASE.block, rng=generator)
            if step >= BURN_IN and (step - BURN_IN) % THIN == 0:
                kept.append(state)
        posterior = geweke.collect(kept)
        true, drawn = (geweke.quantities(one, one.entries(left)) for one in (truth, posterior))
        ties = np.random.default_rng(index)
        found.append({name: rank_of(true[name][0], drawn[name], ties) for name in true})
    return {name: np.array([one[name] for one in found]) for name in found[0]}


def rank_of(value, drawn, ties):
    """How many draws are below a value; those that equal it are below by chance."""
    equal = int((drawn == value).sum())
    return int((drawn < value).sum()) + int(ties.integers(0, equal + 1))


def least_p_value(found):
    """The name of the quantity whose ranks are least uniform, and its p-value, for all of them together.

    Eight groups of ranks are compared with a uniform distribution.
    """
    p = {
        name: stats.chisquare(np.bincount(values * 8 // (DRAWS + 1), minlength=8)).pvalue
        for name, values in found.items()
    }
    name = min(p, key=p.__getitem__)
    return name, p[name] * len(p)


def test_the_truth_ranks_uniformly_among_the_draws():
    name, p = least_p_value(ranks(REPLICATES, tiny.rng(3)))
    assert p > FALSE_ALARM, (name, p)


def test_a_wrong_sweep_is_found_out(monkeypatch):
    monkeypatch.setattr(*BUGS[noise_without_its_half], noise_without_its_half)
    name, p = least_p_value(ranks(REPLICATES, tiny.rng(4)))
    assert p < FALSE_ALARM, (name, p)
