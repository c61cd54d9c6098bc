"""The first guess at missing entries."""

from __future__ import annotations

import pytest
import torch

from diffbcp_cli.priors.interpolate import interpolate


def test_known_entries_are_left_alone():
    rng = torch.Generator().manual_seed(0)
    x, known = torch.randn(2, 3, 33, 47, generator=rng), torch.rand(2, 3, 33, 47, generator=rng) < 0.2
    torch.testing.assert_close(interpolate(x, known)[known], x[known])
    torch.testing.assert_close(interpolate(x, torch.ones_like(known)), x)


def test_a_constant_picture_is_filled_with_its_constant():
    x, known = torch.full((1, 1, 50, 70), 0.4), torch.zeros(1, 1, 50, 70, dtype=torch.bool)
    known[0, 0, 10, 20] = True
    torch.testing.assert_close(interpolate(x, known), x)


def test_what_missing_entries_hold_does_not_matter():
    known = torch.rand(1, 3, 40, 40, generator=torch.Generator().manual_seed(1)) < 0.3
    x = torch.linspace(-1, 1, 40).expand(1, 3, 40, 40)
    spoiled = torch.where(known, x, torch.nan)
    torch.testing.assert_close(interpolate(spoiled, known), interpolate(x, known))


def test_a_gradient_is_followed():
    x = torch.linspace(-1, 1, 64).expand(1, 1, 64, 64)
    known = torch.rand(x.shape, generator=torch.Generator().manual_seed(2)) < 0.1
    error = (interpolate(x, known) - x)[~known]
    assert error.square().mean().sqrt() < 0.05  # the gradient rises by 0.03 a pixel
    assert x[~known].square().mean().sqrt() > 0.5


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (5, 2)])
def test_tiny_pictures_and_empty_masks(size):
    x = torch.rand(1, 3, *size)
    assert torch.equal(interpolate(x, torch.zeros_like(x, dtype=torch.bool)), torch.zeros_like(x))
