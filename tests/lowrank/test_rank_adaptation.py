"""Rank adaptation of CP: what is dropped, what stays, and what a new component is made of."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import smooth
import tiny
import torch
from scipy import stats

from diffbcp_cli.lowrank import cp
from diffbcp_cli.lowrank.cp import reconstruct
from diffbcp_cli.lowrank.cp_sweep import sweep
from diffbcp_cli.lowrank.likelihood import observe
from diffbcp_cli.lowrank.tensorize import Patches
from diffbcp_cli.methods.cp_step import LowRank
from diffbcp_cli.methods.low_rank import Settings
from diffbcp_cli.units import to_signed

LAYOUT = ((2, 3), (7,))
RANK = 5
FREEDOM = 12  # 2 + 3 + 7
HYPER = tiny.PROPER


@pytest.fixture
def observation():
    return tiny.random_observation(*LAYOUT)


def state_with(energies, slab, observation, *, tau=2.0):
    """A state whose components have these energies, in the slab or not."""
    state = tiny.random_state(*LAYOUT, len(energies))
    now = cp.energy(state, observation)
    position = torch.arange(1, len(energies) + 1)
    slab = torch.tensor(slab)
    return replace(
        state,
        weights=state.weights * (torch.tensor(energies, dtype=torch.float64) / now).sqrt(),
        cusp=replace(
            state.cusp, allocation=torch.where(slab, torch.full_like(position, len(energies) + 1), position)
        ),
        noise_precision=tau,
    )


def adapt(state, observation, floor, seed=0):
    return cp.adapt(state, observation, HYPER, floor=floor, rng=tiny.rng(seed))


def test_the_energy_is_the_weighted_square_of_a_component(observation):
    """With equal weights: sum over entries of w x_r^2."""
    state = tiny.random_state(*LAYOUT, RANK)
    even = replace(observation, weight=torch.full_like(observation.weight, 0.25))
    for r, found in enumerate(cp.energy(state, even).tolist()):
        alone = reconstruct(state.select(torch.tensor([r])))
        assert found == pytest.approx(0.25 * float(alone.square().sum()), rel=1e-9)


def test_noise_is_that_of_every_number_over_the_share_that_is_known(observation):
    state = tiny.random_state(*LAYOUT, RANK)
    total = float(observation.weight.sum())
    known = float((observation.weight * observation.observed).sum()) / total
    assert 0.4 < known < 0.8
    assert cp.noise_energy(state, observation) == pytest.approx(2 * FREEDOM / 1.7 / known)


def limit_of(observation):
    """Half the energy of noise at tau = 2."""
    return 0.5 * cp.noise_energy(replace(tiny.random_state(*LAYOUT, RANK), noise_precision=2.0), observation)


def test_weak_spike_components_go_and_the_strongest_of_them_stays_as_a_spare(observation):
    limit = limit_of(observation)
    energies = [0.1 * limit, 1.1 * limit, 0.2 * limit, 0.9 * limit, 0.01 * limit]
    state = state_with(energies, [True, False, False, False, False], observation)
    adapted = adapt(state, observation, 0.5)
    found = cp.energy(adapted, observation).tolist()
    assert found == pytest.approx([energies[0], energies[1], energies[3]])
    assert adapted.in_slab.tolist() == [True, False, False]


def test_a_single_weak_component_is_the_spare(observation):
    state = state_with([5.0, 1e-9, 5.0], [True, False, True], observation)
    assert adapt(state, observation, 0.1) is state


def test_nothing_is_dropped_while_components_grow(observation):
    state = state_with([1e-9] * RANK, [False] * RANK, observation)
    assert cp.adapt(state, observation, HYPER, floor=1.0, shrink=False, rng=tiny.rng()) is state


def test_strong_components_stay_whatever_their_label_and_get_spares(observation):
    state = state_with([1e6] * RANK, [False] * RANK, observation)
    adapted = adapt(state, observation, 1.0)
    assert adapted.rank == RANK + 1  # two spares, but a matrix (6, 7) has no higher rank than 6
    assert torch.equal(adapted.weights[:RANK], state.weights)


def test_the_rank_stops_at_that_of_a_matrix():
    observation = tiny.random_observation((1, 2), (3,))
    state = tiny.random_state((1, 2), (3,), 2)
    assert cp.adapt(state, observation, HYPER, floor=1e-9, rng=tiny.rng()) is state


def test_the_counts_of_components(observation):
    limit = 2 * limit_of(observation)
    state = state_with([2 * limit, 0.5 * limit, 1e-30], [True, False, False], observation)
    assert cp.effective_ranks(state, observation) == {
        "rank": 3,
        "active_rank": 1,
        "effective_rank": 2,
        "contributing_rank": 1,
    }


@pytest.mark.slow
@pytest.mark.statistical
def test_the_rank_of_a_photograph_is_found_from_10_and_from_300():
    """Two chains, seeds fixed: their numbers of components that contribute end within 20 % of each other."""
    image = to_signed(smooth.photograph()[8:112, 8:112])
    image = image + 0.05 * torch.randn(image.shape, generator=tiny.rng(1))
    known = torch.rand(image.shape, generator=tiny.rng(2)) < 0.3
    observation = observe(image, known, Patches(*image.shape), once=False)
    found = []
    for rank in (10, 300):
        step = LowRank(observation, Settings(rank=rank, burn_in=220, adapt_floor=1.0))
        rng = tiny.rng(3)
        state, _ = step.init(rng=rng)
        for index in range(220):
            state, drawn = step.step(state, None, index, rng=rng)
        found.append(drawn.numbers["contributing_rank"])
    assert max(found) < 1.2 * min(found), found


def test_a_component_is_added_from_the_prior_when_none_is_spare(observation):
    state = state_with([5.0] * RANK, [True] * RANK, observation)
    grown = adapt(state, observation, 0.1)
    assert grown.rank == RANK + 1
    assert not grown.in_slab[RANK:].any()
    assert grown.in_slab[:RANK].all()


def test_growing_keeps_the_components_that_were_there():
    state = tiny.random_state(*LAYOUT, RANK, dtype=torch.float32)
    grown = cp.grow(state, HYPER, rng=tiny.rng())
    for old, new in zip((*state.left, *state.right), (*grown.left, *grown.right), strict=True):
        assert new.dtype == old.dtype
        assert torch.equal(new[:, :-1], old)
    assert torch.equal(grown.weights[:-1], state.weights)
    assert torch.equal(grown.cusp.sticks[: RANK - 1], state.cusp.sticks[: RANK - 1])
    assert grown.cusp.shrinkage[-1] == HYPER.cusp.spike_var
    assert grown.cusp.sticks[-1] == 1
    assert 0 < grown.cusp.sticks[-2] < 1
    assert grown.cusp.shrinkage.dtype == grown.cusp.sticks.dtype == torch.float64


@pytest.mark.statistical
def test_new_components_follow_the_prior():
    """Three KS tests at 1e-5, seed fixed."""
    state, generator = tiny.random_state(*LAYOUT, 1, dtype=torch.float32), tiny.rng(5)
    grown = [cp.grow(state, HYPER, rng=generator) for _ in range(1500)]
    weights = torch.stack([g.weights[-1] for g in grown])
    assert stats.kstest(weights, stats.norm(scale=math.sqrt(HYPER.cusp.spike_var)).cdf).pvalue > 1e-5
    assert (
        stats.kstest([g.cusp.sticks[-2].item() for g in grown], stats.beta(1, HYPER.cusp.stick).cdf).pvalue
        > 1e-5
    )
    rows = torch.cat([g.left[1][:, -1] for g in grown])
    assert stats.kstest(rows, stats.norm.cdf).pvalue > 1e-5


@pytest.mark.parametrize("change", ["smaller", "larger"])
def test_the_sweep_goes_on_from_an_adapted_state(observation, change):
    state = tiny.random_state(*LAYOUT, RANK)
    if change == "smaller":
        state = state.select(torch.tensor([True, False, True, False, True]))
    else:
        state = cp.grow(state, HYPER, rng=tiny.rng())
    new, _ = sweep(state, observation, HYPER, block=2, rng=tiny.rng())
    assert new.rank == state.rank
    assert torch.isfinite(reconstruct(new)).all()


@pytest.mark.parametrize("kind", ["mask", "index"])
def test_select_keeps_components_and_on_which_side_they_are(kind):
    state = tiny.random_state(*LAYOUT, RANK, seed=2)
    keep = torch.tensor([True, False, True, True, False])
    chosen = state.select(keep if kind == "mask" else keep.nonzero().flatten())
    for old, new in zip((*state.left, *state.right), (*chosen.left, *chosen.right), strict=True):
        assert torch.equal(new, old[:, keep])
    assert torch.equal(chosen.weights, state.weights[keep])
    assert torch.equal(chosen.cusp.shrinkage, state.cusp.shrinkage[keep])
    assert torch.equal(chosen.in_slab, state.in_slab[keep])
    assert state.in_slab[keep].any()
    assert chosen.rank == 3


def test_adaptation_leaves_its_inputs_alone(observation):
    state = state_with([1e-9] * RANK, [False] * RANK, observation)
    held = tiny.tensors_of(state, observation)
    before = [(t._version, t.clone()) for t in held]
    assert adapt(state, observation, 1.0).rank == 1
    assert all(t._version == v and torch.equal(t, c) for t, (v, c) in zip(held, before, strict=True))
