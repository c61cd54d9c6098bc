"""bcp-gibbs is the low-rank chain of diffbcp with no prior, to the last bit."""

from __future__ import annotations

import numpy as np
from sampling import damaged

from diffbcp_cli.jobs.session import restore
from diffbcp_cli.options import resolve


def run(**given):
    pixels, observed = damaged()
    short = {"iterations": 6, "burn_in": 2, "rank": 6, "patch_size": 8, "device": "cpu"}
    return restore(pixels.astype(np.float32), observed, resolve({**short, **given}), prior=None)


def test_it_draws_what_diffbcp_draws_without_a_prior():
    alone, twin = run(method="bcp-gibbs"), run(method="diffbcp", prior="none")
    np.testing.assert_array_equal(alone.mean, twin.mean)
    np.testing.assert_array_equal(alone.std, twin.std)


def test_the_paper_preset_averages_the_draws_and_does_nothing_after():
    """Its settings typed out give the same picture; short, and without a prior."""
    paper = run(preset="paper", prior="none")
    typed = run(
        rank=6, block=200, coupling=100.0, rho_min=0.3, solver="paper", finish=0, atom_patches=0, prior="none"
    )
    np.testing.assert_array_equal(paper.mean, typed.mean)
    assert paper.numbers["draws"] == 4
