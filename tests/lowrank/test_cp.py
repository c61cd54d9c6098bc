"""The conditionals of CP factors and weights against the joint density, written out naively in `tiny.log_joint`.

A conditional is right when it is proportional to the joint in its own variable: the same gradient and the same
Hessian.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import tiny
import torch
from scipy import stats

from diffbcp_cli import random
from diffbcp_cli.lowrank import cp
from diffbcp_cli.lowrank.cp_blocks import draw_components
from diffbcp_cli.lowrank.likelihood import Coupling

HYPER = tiny.PROPER
RANK = 4
LAYOUTS = {"patch": ((2, 3), (5,)), "reshape": ((2, 3), (3, 2)), "grey": ((1, 3), (5,))}
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


# --- factors and weights ---------------------------------------------------------------------------------


@dataclasses.dataclass
class Drawn:
    """What the sweep asked a Gaussian conditional for: Q (n, S, S), b (n, S), and what came back."""

    what: str
    precision: torch.Tensor
    linear: torch.Tensor
    result: torch.Tensor


@pytest.fixture
def drawn(monkeypatch):
    """Every call of the two Gaussian conditionals, batches of one factor put together."""
    calls = []
    rows, weights = cp.draw_rows, cp.draw_weights

    def watched_rows(gram, linear, noise, which=None, *, what):
        result = rows(gram, linear, noise, which, what=what)
        gram = gram if which is None else gram[which]
        calls.append(Drawn(what, gram + torch.eye(gram.shape[-1]), linear, result))
        return result

    def watched_weights(gram, linear, shrinkage, *, rng):
        result = weights(gram, linear, shrinkage, rng=rng)
        precision = gram + torch.diag(1 / shrinkage)
        calls.append(Drawn("weights", precision[None], linear[None], result[None]))
        return result

    monkeypatch.setattr(cp, "draw_rows", watched_rows)
    monkeypatch.setattr(cp, "draw_weights", watched_weights)
    return calls


def gaussian_of(model, field, members):
    """(Q, b) of the joint in some columns of a factor, or some weights, flattened row by row: by autograd."""
    whole = model.weights if field is None else model.factors[field]

    def log_density(part):
        changed = whole.clone()
        changed[..., members] = part
        if field is None:
            return tiny.log_joint(dataclasses.replace(model, weights=changed))
        factors = (*model.factors[:field], changed, *model.factors[field + 1 :])
        return tiny.log_joint(dataclasses.replace(model, factors=factors))

    zero = torch.zeros_like(whole[..., members])
    linear = torch.autograd.functional.jacobian(log_density, zero).flatten()
    precision = -torch.autograd.functional.hessian(log_density, zero).reshape(len(linear), len(linear))
    return precision, linear


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("blocks", [[[0, 1, 2, 3]], [[2, 0], [3, 1]], [[3], [1], [0], [2]], [[1, 3, 0], [2]]])
def test_factors_and_weights_are_drawn_from_the_joint(drawn, blocks, layout, coupled):
    left, right = LAYOUTS[layout]
    observation = tiny.random_observation(left, right)
    state = tiny.random_state(left, right, RANK)
    z = torch.randn(observation.values.shape, generator=tiny.rng(5), dtype=torch.float64)
    coupling = Coupling(0.6, z[None]) if coupled else None
    dealt = [torch.tensor(b) for b in blocks]
    new, entries = draw_components(state, observation, coupling, blocks=dealt, budget=2**20, rng=tiny.rng(1))

    # walk through the sweep with the drawn values, comparing each draw with the joint at that moment
    model = tiny.model_of(state, observation, HYPER, coupling)
    modes = [*range(len(left), len(left) + len(right)), *range(len(left)), None]  # right, left, weights
    calls = iter(drawn)
    for members in blocks:
        for mode in modes:
            call = next(calls)
            precision, linear = gaussian_of(model, mode, members)
            torch.testing.assert_close(torch.block_diag(*call.precision), precision, **CLOSE, msg=call.what)
            torch.testing.assert_close(call.linear.flatten(), linear, **CLOSE, msg=call.what)
            if mode is None:
                weights = model.weights.clone()
                weights[members] = call.result[0]
                model = dataclasses.replace(model, weights=weights)
            else:
                factor = model.factors[mode].clone()
                factor[:, members] = call.result
                factors = (*model.factors[:mode], factor, *model.factors[mode + 1 :])
                model = dataclasses.replace(model, factors=factors)
    assert next(calls, None) is None
    for found, expected in zip(
        [*new.left, *new.right, new.weights], [*model.factors, model.weights], strict=True
    ):
        torch.testing.assert_close(found, expected, **CLOSE)
    torch.testing.assert_close(entries, cp.reconstruct(new), **CLOSE)


@pytest.mark.parametrize("which", [None, torch.tensor([1, 0, 1])])
def test_rows_have_the_mean_and_covariance_of_their_precision(which):
    half = torch.randn(3 if which is None else 2, 4, 6, generator=tiny.rng(), dtype=torch.float64)
    gram = half @ half.mT
    linear = torch.randn(3, 4, generator=tiny.rng(1), dtype=torch.float64)
    precision = (gram if which is None else gram[which]) + torch.eye(4)

    def draw(noise):
        return cp.draw_rows(gram, linear, noise.expand(3, 4), which, what="rows")

    mean = draw(torch.zeros(4))
    root = torch.stack([draw(unit) - mean for unit in torch.eye(4, dtype=torch.float64)], -1)
    torch.testing.assert_close(mean, torch.linalg.solve(precision, linear), **CLOSE)
    torch.testing.assert_close(root @ root.mT, torch.linalg.inv(precision), **CLOSE)


def test_weights_have_the_mean_and_covariance_of_their_precision(monkeypatch):
    half = torch.randn(4, 6, generator=tiny.rng(), dtype=torch.float64)
    gram, linear = half @ half.T, torch.randn(4, generator=tiny.rng(1), dtype=torch.float64)
    shrinkage = torch.tensor([0.01, 0.5, 2.0, 7.0], dtype=torch.float64)
    precision = gram + torch.diag(1 / shrinkage)

    def draw(noise):
        monkeypatch.setattr(random, "normal", lambda shape, *, rng, dtype=None: noise)
        return cp.draw_weights(gram, linear, shrinkage, rng=tiny.rng())

    mean = draw(torch.zeros(4))
    root = torch.stack([draw(unit) - mean for unit in torch.eye(4)], -1)
    torch.testing.assert_close(mean, torch.linalg.solve(precision, linear), **CLOSE)
    torch.testing.assert_close(root @ root.T, torch.linalg.inv(precision), **CLOSE)


# --- the scale move --------------------------------------------------------------------------------------


def scales_moved(state):
    return cp.draw_scales(state, state.weights.double(), cp.square_norms(state), rng=tiny.rng(3))[0]


def scale_moved(factor, weights, shrinkage, rng):
    norm = factor.double().square().sum(0)
    stretch, weights = cp.draw_scale(norm, len(factor), weights, shrinkage, rng=rng)
    return factor * stretch.to(factor), weights


def test_the_scale_move_leaves_the_reconstruction_alone():
    left, right = LAYOUTS["reshape"]
    state = tiny.random_state(left, right, RANK)
    moved = scales_moved(state)
    torch.testing.assert_close(cp.reconstruct(moved), cp.reconstruct(state), rtol=1e-12, atol=1e-12)
    assert not torch.equal(moved.weights, state.weights)
    assert all(not torch.equal(a, b) for a, b in zip(moved.right, state.right, strict=True))


def test_the_scale_move_leaves_modes_of_one_row_alone():
    """Such a mode (the channel of a grey image) would need a chi-square of zero degrees of freedom."""
    state = tiny.random_state((1, 3), (1,), RANK)
    moved = scales_moved(state)
    assert torch.equal(moved.left[0], state.left[0])
    assert torch.equal(moved.right[0], state.right[0])


def test_the_scale_move_takes_zeros():
    """A factor of zeros, or a weight of zero, is where a chain may start."""
    theta = torch.ones(2, dtype=torch.float64)
    factor, weights = torch.zeros(3, 2), torch.tensor([1.0, 0.0], dtype=torch.float64)
    moved, moved_weights = scale_moved(factor, weights, theta, tiny.rng())
    assert torch.equal(moved, factor)
    assert torch.isfinite(moved_weights).all()
    assert moved_weights[1] == 0


@pytest.mark.statistical
@pytest.mark.parametrize("size", [2, 3, 12])
def test_the_scale_move_keeps_the_prior(size):
    """From exact draws of (a, lambda), one move gives exact draws. Three KS tests at 1e-5 a size, seed fixed."""
    count, theta = 40_000, 0.8
    generator = tiny.rng(size)
    factor = torch.randn(size, count, generator=generator, dtype=torch.float64)
    weights = theta**0.5 * torch.randn(count, generator=generator, dtype=torch.float64)
    shrinkage = torch.full((count,), theta, dtype=torch.float64)
    moved, moved_weights = scale_moved(factor, weights, shrinkage, generator)
    assert (moved_weights != weights).double().mean() > 0.4
    norm = moved.square().sum(0).numpy()
    assert stats.kstest(norm, stats.chi2(size).cdf).pvalue > 1e-5
    assert stats.kstest(moved_weights.numpy(), stats.norm(scale=theta**0.5).cdf).pvalue > 1e-5
    # independent of each other: the ratio of two chi-squares, over their degrees of freedom, is an F
    ratio = (norm / size) / (moved_weights.numpy() ** 2 / theta)
    assert stats.kstest(ratio, stats.f(size, 1).cdf).pvalue > 1e-5


@pytest.mark.statistical
def test_the_scale_move_finds_its_distribution_along_the_orbit():
    """Forty moves from (a, lambda) with |a|^2 = n: the density of |a|^2 there is
    s^((I - 3)/2) exp(-s/2 - lambda^2 n / (2 theta s)). KS at 1e-5, seed fixed.
    """
    size, count, norm, square, theta = 4, 20_000, 9.0, 0.6, 0.5
    factor = torch.full((size, count), (norm / size) ** 0.5, dtype=torch.float64)
    weights = torch.full((count,), square**0.5, dtype=torch.float64)
    shrinkage = torch.full((count,), theta, dtype=torch.float64)
    generator = tiny.rng(1)
    for _ in range(40):
        factor, weights = scale_moved(factor, weights, shrinkage, generator)
    grid = np.linspace(1e-6, 60, 400_001)
    density = grid ** ((size - 3) / 2) * np.exp(-grid / 2 - square * norm / (2 * theta * grid))
    cdf = np.cumsum(density) / density.sum()
    found = factor.square().sum(0).numpy()
    assert stats.kstest(found, lambda s: np.interp(s, grid, cdf)).pvalue > 1e-5
