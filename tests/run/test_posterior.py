"""Running moments against all draws at once."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from diffbcp_cli.problem import NORMAL_90
from diffbcp_cli.run.posterior import Moments


def added(values):
    moments = Moments()
    for value in values:
        moments.add(value)
    return moments


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_mean_and_std_are_those_of_all_draws(offset):
    draws = offset + torch.randn(37, 3, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    moments = added(draws)
    assert moments.count == 37
    np.testing.assert_allclose(moments.mean, draws.numpy().mean(0), rtol=1e-12)
    np.testing.assert_allclose(moments.std, draws.numpy().std(0, ddof=1), rtol=1e-8)


def test_float32_draws_are_summed_in_float64():
    draws = 1000 + torch.rand(5000, 2, generator=torch.Generator().manual_seed(0))
    moments = added(draws)
    assert moments.mean.dtype == torch.float64
    np.testing.assert_allclose(moments.std, draws.double().numpy().std(0, ddof=1), rtol=1e-9)


def test_one_draw_has_no_spread():
    moments = added([torch.tensor([1.0, 2.0])])
    assert moments.mean.tolist() == [1.0, 2.0]
    assert moments.std.tolist() == [0.0, 0.0]


def test_equal_draws_have_no_spread():
    assert added([torch.full((3,), 0.1)] * 9).std.tolist() == [0.0] * 3


def test_nothing_added_is_an_error():
    with pytest.raises(ValueError, match="no draw"):
        _ = Moments().mean
    with pytest.raises(ValueError, match="no draw"):
        _ = Moments().std


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_draws_may_change_after_they_were_added(dtype):
    moments, draw = Moments(), torch.ones(3, dtype=dtype)
    for value in (1.0, 3.0):
        draw.fill_(value)
        moments.add(draw)
    draw.fill_(100.0)
    assert moments.mean.tolist() == [2.0] * 3
    assert draw.tolist() == [100.0] * 3


def test_the_interval_of_90_percent():
    assert pytest.approx(stats.norm.ppf(0.95), rel=1e-15) == NORMAL_90
