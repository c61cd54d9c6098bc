"""Labels, sticks and variances against the joint density: differences of the log joint between two values."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import tiny
import torch

from diffbcp_cli import random
from diffbcp_cli.lowrank import cusp

PRIOR = tiny.PROPER.cusp
LAYOUT = ((2, 3), (5,))
RANK = 4


@pytest.fixture
def model():
    state, observation = tiny.random_state(*LAYOUT, RANK), tiny.random_observation(*LAYOUT)
    return tiny.model_of(state, observation, tiny.PROPER)


def with_label(model, r, label, theta):
    allocation, shrinkage = model.allocation.clone(), model.shrinkage.clone()
    allocation[r], shrinkage[r] = label, theta
    return dataclasses.replace(model, allocation=allocation, shrinkage=shrinkage)


def label_probability(model, r):
    """P(zeta_r = h | rest), theta_r summed out of the joint: trapezoids in log theta."""
    base, step = float(tiny.log_joint(model)), 0.125
    thetas = torch.arange(-6.0, 7.0, step, dtype=torch.float64).exp().tolist()

    def density(label, theta):
        return math.exp(float(tiny.log_joint(with_label(model, r, label, theta))) - base)

    found = [density(label, PRIOR.spike_var) for label in range(1, r + 2)]
    found += [sum(step * t * density(label, t) for t in thetas) for label in range(r + 2, RANK + 1)]
    return np.array(found) / sum(found)


@pytest.mark.parametrize("scale", [0.3, 3.0])
def test_labels_have_the_probabilities_of_the_joint(model, monkeypatch, scale):
    model = dataclasses.replace(model, weights=scale * model.weights)
    seen = []

    def watched(log_weight, *, rng):
        seen.append(log_weight)
        return log_weight.argmax(-1)

    monkeypatch.setattr(random, "categorical", watched)
    drawn = cusp.draw_allocation(model.weights, model.sticks, PRIOR, rng=tiny.rng())
    assert torch.equal(drawn, seen[0].argmax(-1) + 1)  # labels count from one
    probability = seen[0].softmax(-1).numpy()
    for r in range(RANK):
        np.testing.assert_allclose(probability[r], label_probability(model, r), rtol=1e-6, atol=1e-12)


def test_the_last_stick_is_one_whatever_stands_there(model):
    odd = model.sticks.clone()
    odd[-1] = 0.2
    one, two = (cusp.draw_allocation(model.weights, s, PRIOR, rng=tiny.rng()) for s in (model.sticks, odd))
    assert torch.equal(one, two)


def test_huge_and_zero_weights_have_labels():
    weights = torch.tensor([0.0, 1e30, -1e150, 1e-200], dtype=torch.float64)
    sticks = torch.tensor([1e-12, 1 - 1e-12, 0.5, 1.0], dtype=torch.float64)
    drawn = cusp.draw_allocation(weights, sticks, PRIOR, rng=tiny.rng())
    assert ((drawn >= 1) & (drawn <= 4)).all()
    assert drawn[1] > 2
    assert drawn[2] > 3


def test_sticks_are_drawn_from_the_joint(model, monkeypatch):
    seen = []

    def watched(a, b, *, rng):
        seen.append((a.double(), b.double()))
        return torch.full_like(a, 0.5, dtype=torch.float64)

    monkeypatch.setattr(random, "beta", watched)
    drawn = cusp.draw_sticks(model.allocation, PRIOR, rng=tiny.rng())
    assert drawn.tolist() == [0.5] * (RANK - 1) + [1.0]
    a, b = seen[0]
    for r in range(RANK - 1):
        one, two = model.sticks.clone(), model.sticks.clone()
        one[r], two[r] = 0.2, 0.7
        expected = (a[r] - 1) * math.log(0.2 / 0.7) + (b[r] - 1) * math.log(0.8 / 0.3)
        found = tiny.difference(
            dataclasses.replace(model, sticks=one), dataclasses.replace(model, sticks=two)
        )
        assert found == pytest.approx(float(expected), rel=1e-9)


@pytest.mark.parametrize("labels", [[1, 1, 1, 1], [4, 4, 4, 4], [2, 4, 1, 2]])
def test_stick_counts(labels, monkeypatch):
    """A label of R + 1, which a fresh state may hold, counts as above every stick."""
    seen = []
    monkeypatch.setattr(
        random, "beta", lambda a, b, *, rng: seen.append((a, b)) or torch.ones(4).double() / 2
    )
    cusp.draw_sticks(torch.tensor(labels), PRIOR, rng=tiny.rng())
    a, b = seen[0]
    assert a.tolist() == [1 + labels.count(h) for h in (1, 2, 3, 4)]
    assert b.tolist() == [PRIOR.stick + sum(x > h for x in labels) for h in (1, 2, 3, 4)]


def test_variances_are_drawn_from_the_joint(model, monkeypatch):
    """InvGamma(shape, rate) read off the call: the draw at gamma = 1 is the rate."""
    seen = []

    def one(shape, *, rng):
        seen.append(shape)
        return torch.ones_like(shape)

    monkeypatch.setattr(random, "gamma", one)
    slab = model.allocation > torch.arange(1, RANK + 1)
    rate = cusp.draw_shrinkage(model.weights, slab, PRIOR, rng=tiny.rng())
    assert slab.any()
    assert not slab.all()
    assert (rate[~slab] == PRIOR.spike_var).all()
    for r in slab.nonzero().flatten().tolist():
        label = int(model.allocation[r])
        found = tiny.difference(with_label(model, r, label, 0.4), with_label(model, r, label, 1.5))
        shape = float(seen[0][r])
        expected = -(shape + 1) * math.log(0.4 / 1.5) - float(rate[r]) * (1 / 0.4 - 1 / 1.5)
        assert found == pytest.approx(expected, rel=1e-9)


# --- rank adaptation ---------------------------------------------------------------------------------------


def test_adaptation_comes_with_its_probability():
    """exp(-1 - 0.005 i), within 5 standard errors."""
    for step in (0, 100):
        generator = tiny.rng(step)
        share = sum(cusp.adaptation_due(step, rng=generator) for _ in range(3000)) / 3000
        expected = math.exp(-1 - 0.005 * step)
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / 3000)


def cusp_of(slab):
    """Components in the slab or not, as labels that say so."""
    position = torch.arange(1, len(slab) + 1)
    labels = torch.where(torch.tensor(slab), torch.full_like(position, len(slab) + 1), position)
    return cusp.Cusp(torch.ones(len(slab)).double(), labels, torch.full((len(slab),), 0.5).double())


@pytest.mark.parametrize(
    ("slab", "energy", "drop"),
    [
        ([True, True, False], [0.1, 0.1, 0.1], []),  # one weak component is the spare
        ([True, False, False], [0.1, 0.3, 0.2], [2]),  # of two the stronger stays
        ([False, True, False, False], [0.3, 0.1, 0.2, 9.0], [2]),  # a strong spike component stays
        ([True] * 5 + [False] * 3, [0.1] * 5 + [0.3, 0.1, 0.2], [6]),  # five active ones have two spares
        ([False, False], [0.1, 0.2], [0]),  # without an active one there is one spare
    ],
)
def test_weak_components_of_the_spike_go_but_for_the_spares(slab, energy, drop):
    change = cusp.rank_change(cusp_of(slab), torch.tensor(energy).double(), 1.0)
    assert change.drop.nonzero().flatten().tolist() == drop
    assert change.grow == 0


@pytest.mark.parametrize(
    ("slab", "energy", "grow"),
    [
        ([True, True], [9.0, 9.0], 1),
        ([True, False], [9.0, 9.0], 1),  # strong in the spike is as good: the last one is never in the slab
        ([True, False], [9.0, 1.0], 1),  # at the limit is not below it
        ([True, True], [0.1, 0.1], 1),  # the slab is active whatever its energy
        ([False] * 8, [9.0] * 8, 2),  # a quarter
        ([False] * 9, [9.0] * 8 + [0.1], 1),  # one of the two is there
    ],
)
def test_spares_are_added_where_too_few_are_left(slab, energy, grow):
    change = cusp.rank_change(cusp_of(slab), torch.tensor(energy).double(), 1.0)
    assert change.grow == grow
    assert not change.drop.any()


def test_a_drawn_label_never_puts_the_last_component_in_the_slab(model):
    huge = torch.full((RANK,), 1e6, dtype=torch.float64)
    start = cusp.initial(RANK, PRIOR)
    assert start.in_slab.all()
    for seed in range(20):
        drawn = cusp.draw(huge, start, PRIOR, rng=tiny.rng(seed))
        assert drawn.in_slab[:-1].all()
        assert not drawn.in_slab[-1]


def test_without_shrinkage_the_prior_of_the_weights_stays():
    """Plain normals at a fixed rank: the paper's ablation."""
    plain = cusp.CuspPrior(shrinks=False)
    start = cusp.initial(RANK, plain)
    drawn = cusp.draw(torch.full((RANK,), 1e-9), start, plain, rng=tiny.rng())
    assert drawn is start
    assert drawn.in_slab.all()
    assert (drawn.shrinkage == 1).all()
