"""Muon: the orthogonal direction, and steps of the size that AdamW's have."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from diffbcp_cli.training.optim import Muon, orthogonal


@pytest.mark.parametrize("shape", [(8, 30), (30, 8), (16, 16)])
def test_all_singular_values_come_near_one_and_the_directions_stay(shape):
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    u, values, vt = torch.linalg.svd(matrix, full_matrices=False)
    assert values.max() > 1.5 * values.min()
    # in the basis of the singular vectors the result is diagonal: only the values have changed
    inside = u.T @ orthogonal(matrix) @ vt.T
    assert torch.allclose(inside, torch.diag(inside.diagonal()), atol=1e-4)
    assert 0.6 < inside.diagonal().min() <= inside.diagonal().max() < 1.3


def test_a_step_has_the_rms_of_adam_and_goes_down():
    generator = torch.Generator().manual_seed(1)
    target = torch.randn(12, 4, 3, 3, generator=generator)
    weight = nn.Parameter(torch.zeros_like(target))
    optimizer = Muon([weight], lr=0.1)
    before = weight.detach().clone()
    losses = []
    for index in range(30):
        optimizer.zero_grad()
        loss = (weight - target).square().mean()
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
        if index == 0:
            assert float((weight.detach() - before).square().mean().sqrt()) == pytest.approx(
                0.2 * 0.1, rel=0.25
            )
            assert optimizer.state[weight]["momentum"].shape == weight.shape
    assert losses[-1] < 0.7 * losses[0]
    assert not math.isnan(losses[-1])


def test_weight_decay_shrinks_the_weights_before_the_step():
    start = torch.randn(6, 2, 3, 3, generator=torch.Generator().manual_seed(2))
    results = []
    for decay in (0.0, 0.5):
        weight = nn.Parameter(start.clone())
        weight.grad = torch.ones_like(start)
        Muon([weight], lr=0.1, decay=decay).step()
        results.append(weight.detach())
    torch.testing.assert_close(results[0] - results[1], 0.05 * start)
