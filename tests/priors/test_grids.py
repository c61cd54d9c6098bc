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


def test_levels_are_those_of_times_that_fall_evenly_or_are_mostly_low():
    even, low = grids.vp_levels(4.0, 5), grids.vp_levels(4.0, 5, power=0.5)
    for levels in (even, low):
        assert levels.tolist() == sorted(levels.tolist(), reverse=True)
        assert (float(levels[0]), float(levels[-1])) == (pytest.approx(4.0), 0.0)
        assert float(levels[-2]) == pytest.approx(float(grids.PAPER.sigma(torch.tensor(1e-3))), rel=1e-5)
    steps = grids.PAPER.time(even[:-1]).diff()
    torch.testing.assert_close(steps, steps[:1].expand_as(steps))
    assert bool((low[1:-2] < even[1:-2]).all())
    assert grids.vp_levels(4.0, 1).tolist() == [pytest.approx(4.0), 0.0]
    with pytest.raises(ValueError, match="no 0 levels"):
        grids.vp_levels(4.0, 0)
