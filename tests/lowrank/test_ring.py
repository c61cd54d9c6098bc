"""Tensor trains and rings: X, the conditionals against the joint density, scale moves, rank adaptation, recovery."""

from __future__ import annotations

from dataclasses import replace

import pytest
import rings
import tiny
import torch

from diffbcp_cli.lowrank import cusp, ring, ring_draws, tr, tt
from diffbcp_cli.lowrank.likelihood import Coupling
from diffbcp_cli.lowrank.ring_sweep import adapt_ring, draw_gauge, grow_bond, sweep_ring

HYPER = rings.ProperHyper()
LAYOUTS = {"patch": ((2, 2, 3), (4,)), "reshape": ((3, 2), (2, 3))}
KINDS = {"train": (False, (2, 3, 2)), "ring": (True, (2, 3, 2, 2))}
both = pytest.mark.parametrize("kind", KINDS)
every_layout = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def ring_of(layout, kind, **more):
    closed, ranks = KINDS[kind]
    return rings.random_ring((*layout[0], *layout[1]), ranks, closed=closed, **more)


@both
@every_layout
def test_the_matrix_is_the_product_of_the_cores(layout, kind):
    state = ring_of(layout, kind)
    found = ring.reconstruct_ring(state, len(layout[0]))
    torch.testing.assert_close(found, rings.entries_of(state).reshape(found.shape))


# --- the conditionals --------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """Every Gaussian that the sweep draws by perturb-and-solve: P, b, and what came back."""
    calls, real = [], ring_draws.draw_linear

    def watched(seen, start, ridge, forward, adjoint, inverse, what, rng):
        q, count = seen.q.flatten(1), start.numel()
        basis = torch.eye(count, dtype=start.dtype).view(count, *start.shape)
        columns = [adjoint((forward(one) @ q.T * seen.precision) @ q) + ridge * one for one in basis]
        drawn = real(seen, start, ridge, forward, adjoint, inverse, what, rng)
        linear = adjoint(seen.target @ q).flatten()
        calls.append((torch.stack(columns).flatten(1), linear, drawn.flatten()))
        return drawn

    monkeypatch.setattr(ring_draws, "draw_linear", watched)
    return calls


@both
@pytest.mark.parametrize("coupled", [False, True])
def test_cores_and_weights_have_the_joint_density_s_gradient_and_curvature(kind, coupled, asked):
    """In the order of the sweep: right cores, right bond, left cores, left bond, split, closing bond."""
    layout = LAYOUTS["reshape"]
    observation, state = tiny.random_observation(*layout, seed=3), ring_of(layout, kind)
    z = tiny.normal(*observation.values.shape, generator=tiny.rng(5))
    coupling = Coupling(0.8, z[None]) if coupled else None
    new, _ = sweep_ring(state, observation, HYPER, coupling=coupling, rng=tiny.rng(1))
    cores, weights = list(state.cores), list(state.weights)
    thetas = [one.shrinkage for one in state.cusps]
    order = [("core", 2), ("core", 3), ("bond", 2), ("core", 0), ("core", 1), ("bond", 0), ("bond", 1)]
    order += [("bond", 3)] if kind == "ring" else []
    assert len(asked) == len(order)
    for (what, n), (precision, linear, drawn) in zip(order, asked, strict=True):
        values = cores if what == "core" else weights

        def density(x, what=what, n=n, values=values):
            changed = [*values[:n], x.reshape(values[n].shape), *values[n + 1 :]]
            parts = (changed, weights) if what == "core" else (cores, changed)
            return rings.log_of_entries(*parts, thetas, 1.7, observation, z if coupled else None, 0.8**-0.5)

        at = torch.zeros(values[n].numel(), dtype=torch.float64)
        hessian = torch.autograd.functional.hessian(density, at)
        gradient = torch.autograd.functional.jacobian(density, at)
        if what == "core":  # drawn slice by slice: (I, R_{n-1} R_n)
            turn = torch.arange(len(at)).view(values[n].shape).movedim(1, 0).flatten()
            hessian, gradient = hessian[turn][:, turn], gradient[turn]
        torch.testing.assert_close(precision, -hessian, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(linear, gradient, rtol=1e-8, atol=1e-8)
        if what == "core":
            first, rows, last = cores[n].shape
            cores[n] = drawn.view(rows, first, last).movedim(0, 1)
        else:
            weights[n] = drawn
    assert new.ranks == state.ranks


@both
def test_the_preconditioner_is_the_exact_inverse_where_nothing_is_missing(kind, asked, monkeypatch):
    layout = LAYOUTS["patch"]
    observation = tiny.random_observation(*layout, share=2.0)
    observation = replace(observation, weight=torch.ones_like(observation.weight))
    observation = tiny.make_observation(
        observation.values, torch.ones_like(observation.values), observation.weight, *layout
    )
    steps = []
    real = ring_draws.conjugate_gradients

    def counted(product, linear, inverse, start, *, what):
        steps.append(float((inverse(product(start)) - start).norm() / start.norm()))
        return real(product, linear, inverse, start, what=what)

    monkeypatch.setattr(ring_draws, "conjugate_gradients", counted)
    sweep_ring(ring_of(layout, kind), observation, HYPER, rng=tiny.rng(1))
    assert steps
    assert max(steps) < 1e-8


@both
@every_layout
def test_the_gauge_step_leaves_x_alone_and_moves_every_bond(layout, kind):
    state = ring_of(layout, kind)
    moved, _ = draw_gauge(
        state, [w.double() for w in state.weights], ring.square_norms(state), rng=tiny.rng(2)
    )
    left = len(layout[0])
    torch.testing.assert_close(ring.reconstruct_ring(moved, left), ring.reconstruct_ring(state, left))
    assert all(not torch.equal(a, b) for a, b in zip(moved.weights, state.weights, strict=True))


def test_the_sweep_leaves_its_inputs_alone_and_is_fixed_by_its_seed():
    layout = LAYOUTS["patch"]
    observation, state = tiny.random_observation(*layout), ring_of(layout, "ring")
    held = tiny.tensors_of(state, observation)
    before = [(t._version, t.clone()) for t in held]
    one, two = (sweep_ring(state, observation, HYPER, rng=tiny.rng(4))[1] for _ in range(2))
    assert torch.equal(one, two)
    assert all(t._version == v and torch.equal(t, c) for t, (v, c) in zip(held, before, strict=True))


# --- rank adaptation ---------------------------------------------------------------------------------------


@both
@every_layout
def test_the_energy_of_a_bond_is_the_square_of_what_it_adds(layout, kind):
    state, left = ring_of(layout, kind), len(layout[0])
    observation = tiny.random_observation(*layout)
    even = replace(observation, weight=torch.full_like(observation.weight, 0.25))
    for bond, rank in enumerate(state.ranks):
        found = ring.bond_energy(state, bond, even)
        for r in range(rank):
            alone = ring.select_bond(state, bond, torch.tensor([r]))
            expected = 0.25 * ring.reconstruct_ring(alone, left).square().sum()
            torch.testing.assert_close(found[r], expected)


@both
def test_a_bond_grows_and_shrinks_on_both_sides(kind):
    layout = LAYOUTS["patch"]
    state = ring_of(layout, kind)
    for bond, rank in enumerate(state.ranks):
        wide = grow_bond(state, bond, HYPER, rng=tiny.rng())
        assert wide.ranks[bond] == rank + 1
        kept = ring.select_bond(wide, bond, torch.arange(rank))
        for one, other in zip([*kept.cores, *kept.weights], [*state.cores, *state.weights], strict=True):
            assert torch.equal(one, other)
        assert float(wide.weights[bond][-1].abs()) < 6 * HYPER.cusp.spike_var**0.5


def test_idle_components_go_and_no_bond_outgrows_its_neighbours():
    layout = LAYOUTS["patch"]
    observation, state = tiny.random_observation(*layout), ring_of(layout, "train")
    adapted = adapt_ring(state, observation, HYPER, floor=0.0, rng=tiny.rng())
    assert all(size <= ring.most(state, bond) for bond, size in enumerate(adapted.ranks))
    assert adapted.ranks[0] == 2  # as many as there are colours
    idle = replace(state, weights=tuple(1e-9 * w for w in state.weights))
    spike = tuple(replace(one, allocation=torch.ones_like(one.allocation)) for one in state.cusps)
    assert adapt_ring(replace(idle, cusps=spike), observation, HYPER, floor=1.0, rng=tiny.rng()).ranks == (
        1,
        1,
        1,
    )


TRUE = {"tt": (3, 2, 3), "tr": (3, 2, 3, 2)}
STARTS = {"over": (6, 6, 6, 5), "under": (2, 2, 2, 2)}


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("begin", STARTS)
@pytest.mark.parametrize("kind", TRUE)
def test_a_train_or_ring_is_recovered_from_too_many_and_too_few_components(kind, begin, seed):
    """Half of 8 x 9 x 10 x 7 entries, noise 0.05: bonds (3, 2, 3) or (3, 2, 3, 2), started at 6 or at 2."""
    sizes, module = (8, 9, 10, 7), {"tt": tt, "tr": tr}[kind]
    x, y = rings.low_rank_tensor(sizes, TRUE[kind], closed=kind == "tr", seed=seed)
    y, x = y.reshape(72, 70), x.reshape(72, 70)
    known = (torch.rand(x.shape, generator=tiny.rng(seed + 50)) < 0.5).float()
    observation = tiny.make_observation(y * known, known, torch.ones_like(y), sizes[:2], sizes[2:])
    ranks, rng = STARTS[begin][: len(TRUE[kind])], tiny.rng(seed + 100)
    hyper = ring.suited(observation, ranks)
    state, total, count = module.initial(observation, ranks, hyper, rng=rng), 0.0, 0
    for index in range(110):
        if 15 <= index < 85 and cusp.adaptation_due(index, rng=rng):
            state = adapt_ring(state, observation, hyper, floor=1.0, rng=rng)
        state, entries = sweep_ring(state, observation, hyper, rng=rng)
        if index >= 85:
            total, count = total + entries, count + 1
    missing = known == 0
    assert rings.rel((total / count)[missing], x[missing]) < 0.03
    assert 0.044 < state.noise_precision**-0.5 < 0.056
    assert all(size >= true for size, true in zip(state.ranks, TRUE[kind], strict=True))
