"""Geweke's joint test of the CP sweep.

A right sampler fails one comparison with probability 1e-4 (`geweke.FALSE_ALARM`, over all its quantities by
Bonferroni); the seeds are fixed. Planted mistakes must be found by the same comparison.
"""

from __future__ import annotations

import geweke
import numpy as np
import pytest
import tiny
from sweep_case import BUGS, SweepCase

pytestmark = pytest.mark.statistical


CASES = {
    "all at once": SweepCase((2, 3), (4,), block=3),
    "one by one, with a target": SweepCase((2, 2), (2, 3), block=1, rho=1.2),
    "two blocks, gathered": SweepCase((1, 3), (5,), block=2, rho=0.8, strategy="gather"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_sweep_keeps_the_joint_distribution(name):
    case = CASES[name]
    draws, prior = case.prior(np.random.default_rng(1))
    starts = [draws.state(i, len(case.left)) for i in range(geweke.CHAINS)]
    name, z, threshold = geweke.worst(prior, case.chains(starts, geweke.STEPS, tiny.rng(1)))
    assert abs(z) < threshold, (name, z)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_wrong_sweep_is_found_out(bug, monkeypatch):
    case = CASES["all at once"]
    draws, prior = case.prior(np.random.default_rng(2))
    monkeypatch.setattr(*BUGS[bug], bug)
    assert geweke.found(case, draws, prior, len(case.left), tiny.rng(2))
