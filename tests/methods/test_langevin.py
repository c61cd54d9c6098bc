"""Langevin dynamics against closed forms: a Gaussian prior, for which the posterior is known exactly."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import tiny
import torch
from conftest import picture

from diffbcp_cli import tree
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.methods import langevin
from diffbcp_cli.methods.held_out import MOST_MISFIT, misfit
from diffbcp_cli.methods.langevin import START, Langevin, LangevinState, lacking
from diffbcp_cli.operators.mask import Mask
from diffbcp_cli.options import Options
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.problem import Problem, Trace
from diffbcp_cli.random import Seeds
from diffbcp_cli.run.posterior import Posterior
from diffbcp_cli.units import to_signed

CHANNELS, SIDE = 4, 8  # entries of one replicate, and replicates a side
COPIES = SIDE * SIDE
VARIANCES = (0.4, 0.1, 0.03, 0.01)  # of the prior, along its axes
NOISE, VALUES = 0.15, (0.5, -0.3)  # of the data; the known entries of each replicate
BURN_IN, STEPS = 20, 600
SPREAD_ERROR = (
    0.12  # five standard errors of a variance from the replicates and steps below, and the probes' error
)


def axes():
    """The axes of the prior, (4, 4), the same for every replicate."""
    return torch.linalg.qr(tiny.normal(CHANNELS, CHANNELS, generator=tiny.rng(5)))[0].contiguous()


def correlated():
    """Each pixel is a replicate, whose four channels have the same covariance as those of the others."""
    basis = torch.kron(axes(), torch.eye(COPIES, dtype=torch.float64)).float()
    var = torch.tensor(VARIANCES).reshape(-1, 1, 1).expand(-1, SIDE, SIDE)
    return GaussianPrior(torch.zeros(()), var, basis=basis)


def half_known(noise_std=NOISE):
    known = torch.zeros(CHANNELS, SIDE, SIDE, dtype=torch.bool)
    known[:2] = True
    y = torch.zeros(CHANNELS, SIDE, SIDE)
    y[:2] = torch.tensor(VALUES)[:, None, None]
    return Problem(y, Mask(known), noise_std)


def exact():
    """Mean and variance (4,) of each entry given the known two."""
    basis = axes().numpy()
    cov = basis @ np.diag(VARIANCES) @ basis.T
    gain = cov[:, :2] @ np.linalg.inv(cov[:2, :2] + NOISE**2 * np.eye(2))
    return gain @ np.array(VALUES), np.diag(cov - gain @ cov[:2])


def sampler(problem, prior, burn_in=BURN_IN, draws=range(0)):
    return Langevin(problem, prior, burn_in, draws, Seeds(0, ""))


def posterior_of(method, steps, seed=1):
    rng, found = tiny.rng(seed), Posterior(method.burn_in, traces=[Trace()], probes=[[]])
    state = method.init(rng=rng)
    for step in range(method.burn_in + steps):
        state, info = method.step(state, rng=rng)
        found.add(0, info, keep=step in method.draws)
    return found, state


@pytest.fixture(scope="module")
def summed():
    return posterior_of(sampler(half_known(), correlated()), STEPS)[0]


@pytest.mark.statistical
def test_the_mean_is_that_of_the_posterior(summed):
    """The two chains of a pair have opposite errors, which cancel for a Gaussian prior."""
    expected = torch.tensor(exact()[0]).reshape(-1, 1, 1).expand(-1, SIDE, SIDE)
    torch.testing.assert_close(summed.image.mean, expected, rtol=0, atol=2e-3)


@pytest.mark.statistical
def test_the_std_is_that_of_the_posterior(summed):
    found = summed.std.square().mean((1, 2)).numpy()
    np.testing.assert_allclose(found, exact()[1], rtol=SPREAD_ERROR)


@pytest.mark.statistical
@pytest.mark.parametrize("keep", [0.0, math.exp(-0.1)])
def test_the_friction_does_not_change_the_posterior(keep, monkeypatch):
    monkeypatch.setattr(langevin, "_KEEP", keep)
    found = posterior_of(sampler(half_known(), correlated()), STEPS)[0]
    np.testing.assert_allclose(found.std.square().mean((1, 2)).numpy(), exact()[1], rtol=SPREAD_ERROR)


MOVE = Langevin._move


def half_momentum(self, state, prior, level, rng):
    """A planted mistake: the momentum is never refreshed by its full share of noise."""
    moved = MOVE(self, state, prior, level, rng)
    return replace(moved, momentum=0.8 * moved.momentum)


def known_move(self, state, prior, level, rng):
    """A planted mistake: the known entries move with the others."""
    moved = MOVE(self, state, prior, level, rng)
    u = torch.where(self.known(state.step), moved.u + 0.3 * level * moved.momentum, moved.u)
    return replace(moved, u=u)


def stale_score(self, state, prior, level, rng):
    """A planted mistake: the second half of the step uses the score from before it."""
    moved = MOVE(self, state, prior, level, rng)
    return replace(moved, clean=state.clean)


def without_within(values, known, rounds):
    """A planted mistake: Var(z | u) is left out."""
    return torch.zeros_like(values)


@pytest.mark.statistical
@pytest.mark.parametrize("mistake", [half_momentum, known_move, stale_score], ids=lambda one: one.__name__)
def test_a_planted_mistake_in_the_move_is_found(mistake, monkeypatch):
    monkeypatch.setattr(Langevin, "_move", mistake)
    found = posterior_of(sampler(half_known(), correlated()), STEPS)[0]
    variance = found.std.square().mean((1, 2)).numpy()
    assert not np.allclose(variance, exact()[1], rtol=SPREAD_ERROR)


@pytest.mark.statistical
def test_leaving_out_the_variance_given_u_is_found(monkeypatch):
    monkeypatch.setattr(langevin, "smoothed", without_within)
    found = posterior_of(sampler(half_known(), correlated()), STEPS)[0]
    assert not np.allclose(found.std.square().mean((1, 2)).numpy(), exact()[1], rtol=SPREAD_ERROR)


@pytest.mark.statistical
def test_whole_draws_have_the_variance_of_the_posterior():
    """The reverse process in four calls is a little too sure; its draws keep nine tenths of the variance and more."""
    draws = range(BURN_IN, BURN_IN + STEPS, 4)
    found = posterior_of(sampler(half_known(), correlated(), draws=draws), STEPS)[0]
    assert len(found.samples) == len(draws)
    samples = torch.stack(found.samples).double()
    mean = torch.tensor(exact()[0]).reshape(-1, 1, 1)
    variance = (samples - mean).square().mean((0, 2, 3)).numpy()
    ratio = variance / exact()[1]
    assert ((ratio > 0.75) & (ratio < 1.15)).all(), ratio


def test_asking_for_draws_changes_nothing_else():
    plain, _ = posterior_of(sampler(half_known(), correlated()), 10)
    drawn, _ = posterior_of(sampler(half_known(), correlated(), draws=range(BURN_IN, BURN_IN + 10)), 10)
    assert torch.equal(plain.image.mean, drawn.image.mean)
    assert torch.equal(plain.std, drawn.std)


# ---- annealing ----


def test_burn_in_goes_down_from_the_start_to_the_level_of_the_noise():
    method = sampler(half_known(), correlated(), burn_in=5)
    levels = [method._level(step, NOISE) for step in range(8)]
    assert levels[0] == pytest.approx(START)
    assert levels == sorted(levels, reverse=True)
    assert levels[4:] == pytest.approx([NOISE] * 4)
    assert sampler(half_known(), correlated(), burn_in=0)._level(0, NOISE) == pytest.approx(NOISE)
    assert method._level(0, 0.9) == pytest.approx(0.9)


def test_known_entries_get_the_noise_that_they_lack_and_lose_it_again():
    method, rng = sampler(half_known(), correlated()), tiny.rng(0)
    state = method.init(rng=rng)
    for step in range(BURN_IN + 3):
        level = method._level(step, NOISE)
        added = (state.u[0] - method.problem.y)[:2]
        expected = lacking(level, NOISE)
        assert float(added.std()) == pytest.approx(expected, rel=0.35, abs=1e-6)
        torch.testing.assert_close(state.u[:, :2], (method.problem.y + state.added)[:, :2])
        state, _ = method.step(state, rng=rng)


# ---- entries that are held out and put back ----


def held_back():
    """The second known entry of every replicate is to be used after burn-in only."""
    problem = half_known()
    later = torch.zeros_like(problem.known)
    later[1] = True
    return replace(problem, later=later)


def given_the_first():
    """Mean and variance (4,) of each entry given the first known one alone."""
    basis = axes().numpy()
    cov = basis @ np.diag(VARIANCES) @ basis.T
    gain = cov[:, 0] / (cov[0, 0] + NOISE**2)
    return gain * VALUES[0], np.diag(cov) - gain * cov[0]


@pytest.mark.statistical
def test_burn_in_predicts_what_is_held_out_without_having_seen_it(monkeypatch):
    monkeypatch.setattr(langevin, "HELD_STEPS", 300)
    found, _ = posterior_of(sampler(held_back(), correlated(), burn_in=320), 1)
    mean, std = (part.reshape(CHANNELS, -1) for part in found.predicted[0])
    expected, variance = given_the_first()
    np.testing.assert_allclose(mean.mean(1)[1:], expected[1:], atol=0.01)
    np.testing.assert_allclose(std.square().mean(1)[1:], variance[1:], rtol=SPREAD_ERROR)


@pytest.mark.statistical
def test_after_burn_in_they_count_like_the_others():
    found, _ = posterior_of(sampler(held_back(), correlated()), STEPS)
    expected = torch.tensor(exact()[0]).reshape(-1, 1, 1).expand(-1, SIDE, SIDE)
    torch.testing.assert_close(found.image.mean, expected, rtol=0, atol=2e-3)


def test_a_state_in_the_middle_of_what_is_held_out_goes_through_a_checkpoint():
    method, rng = sampler(held_back(), correlated()), tiny.rng(2)
    state = method.init(rng=rng)
    for _ in range(method.annealing + 3):
        state, _ = method.step(state, rng=rng)
    assert state.held is not None
    tensors, plain = tree.pack(state)
    again = tree.unpack(json.loads(json.dumps(plain)), tensors, classes=langevin.STATE_CLASSES)
    found = []
    for one in (state, again):
        later = tiny.rng(7)
        for _ in range(12):
            one, info = method.step(one, rng=later)
            found.append(info)
    for first, second in zip(found[:12], found[12:], strict=True):
        assert torch.equal(first.image, second.image)
        assert first.noise_std == second.noise_std
        assert (first.predicted is None) == (second.predicted is None)
    assert any(info.predicted is not None for info in found)


def test_nothing_is_predicted_where_nothing_is_held_out():
    assert not posterior_of(sampler(half_known(), correlated()), 2)[0].predicted


def scene(share, wrong, std=0.1, noise=0.02):
    """Scattered known entries, held-out ones, and measurements that are `wrong` times std^2 off what is predicted.

    Deep in a hole, where an error would say nothing, it is ten times as large.
    """
    rng = tiny.rng(0)
    known, held = (
        torch.rand(2, 1, 900, 600, generator=rng) < torch.tensor([share, 0.05])[:, None, None, None]
    ).unbind()
    known[:, 800:] = False
    held &= ~known
    y = wrong**0.5 * std * torch.randn(1, 900, 600, generator=rng) + noise * torch.randn(
        1, 900, 600, generator=rng
    )
    y[:, 802:] *= 10
    return misfit(y, held, known, torch.stack([torch.zeros_like(y), torch.full_like(y, std)]), noise)


@pytest.mark.parametrize("wrong", [0.5, 1.0, 2.0, 9.0])
def test_the_misfit_is_what_held_out_entries_beside_known_ones_say(wrong):
    assert scene(0.1, wrong) == pytest.approx(min(max(1 + 0.85 * (wrong - 1), 1), MOST_MISFIT), rel=0.06)


def test_where_known_entries_are_together_the_misfit_says_nothing():
    assert scene(0.7, 9.0) == 1
    assert 1 < scene(0.5, 1.8) < scene(0.1, 1.8)


# ---- the level of the noise ----


@pytest.mark.parametrize("noise", [0.02, 0.1])
@pytest.mark.parametrize("known", [0.5, 1.0])
def test_a_noise_level_that_is_not_given_is_found(noise, known):
    """White pictures of a Gaussian prior with a small variance: what is left is noise."""
    rng = np.random.default_rng(0)
    truth = 0.5 + 0.02 * rng.standard_normal((64, 64, 3))
    pixels = (truth + noise * rng.standard_normal(truth.shape)).astype(np.float32)
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.04**2))
    found = restore(
        pixels, rng.random(truth.shape) < known, Options(method="langevin", device="cpu"), prior=prior
    )
    assert found.noise["std"] == pytest.approx(noise, rel=0.15)
    assert found.numbers["noise_source"] == "chain"


def test_a_noise_level_that_is_given_stays():
    pixels = picture(16, 16).astype(np.float32)
    cfg = Options(method="langevin", sigma=0.05, iterations=8, burn_in=3, device="cpu")
    found = restore(pixels, pixels < 0.6, cfg, prior=GaussianPrior(torch.zeros(()), torch.tensor(0.25)))
    assert found.trace.noise_std == pytest.approx([0.05] * 8)
    assert found.numbers["noise_source"] == "given"


def test_a_prior_that_knows_the_picture_fills_it():
    pixels = picture(24, 24).astype(np.float32)
    observed = np.random.default_rng(0).random(pixels.shape) < 0.3
    prior = GaussianPrior(to_signed(pixels), torch.tensor(1e-4))
    cfg = Options(method="langevin", sigma=0.02, iterations=30, burn_in=12, device="cpu")
    assert np.abs(restore(pixels, observed, cfg, prior=prior).mean - pixels).max() < 0.02


def test_the_state_of_a_whole_picture_is_one_chain():
    problem = Problem(torch.zeros(3, 16, 16), Mask(torch.ones(3, 16, 16, dtype=torch.bool)), 0.1)
    method, rng = sampler(problem, GaussianPrior(torch.zeros(()), torch.tensor(0.25))), tiny.rng(0)
    state = method.init(rng=rng)
    assert isinstance(state, LangevinState)
    assert len(state.u) == 1
    later, info = method.step(state, rng=rng)
    assert torch.equal(later.u[0], problem.y)
    assert info.image.shape == problem.y.shape
