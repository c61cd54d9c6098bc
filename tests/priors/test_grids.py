"""Noise levels: from the start down to zero, and the VP schedule with its inverse."""

from __future__ import annotations

import pytest
import torch

from diffbcp_cli.priors import grids


def test_grids_fall_from_the_start_to_zero():
    for levels in (
        grids.power_grid(0.8, 5),
        grids.power_grid(3.0, 1),
        grids.PAPER.sigma(grids.vp_times(0.8)),
    ):
        assert levels.dtype == torch.float64
        assert levels[-1] == 0
        assert (levels.diff() < 0).all()
    assert grids.power_grid(0.8, 5)[0] == 0.8


@pytest.mark.parametrize("bad", [(0.0, 3), (0.5, 0)])
def test_a_grid_needs_a_start_and_a_call(bad):
    with pytest.raises(ValueError, match="no grid"):
        grids.power_grid(*bad)


def test_the_paper_takes_about_ten_calls_from_its_smallest_coupling():
    assert len(grids.vp_times(0.3)) - 1 in range(9, 12)


def test_vp_time_and_sigma_are_inverses_down_to_tiny_levels():
    vp = grids.PAPER
    sigma = torch.logspace(-6, 2, 50, dtype=torch.float64)
    assert torch.allclose(vp.sigma(vp.time(sigma)), sigma, rtol=1e-9)
    # the end of the schedule: prod(1 - beta) of 1000 linear steps
    betas = torch.linspace(1e-4, 0.02, 1000, dtype=torch.float64)
    last = ((1 - torch.exp(torch.log1p(-betas).sum())) / torch.exp(torch.log1p(-betas).sum())).sqrt()
    assert vp.time(last) == pytest.approx(1.0, abs=0.005)
