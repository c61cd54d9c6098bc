"""The sweep as a function: pure, fixed by its seed, the same in any number of chunks, and honest when it fails."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from typing import get_args

import pytest
import tiny
import torch

from diffbcp_cli.errors import NumericalError
from diffbcp_cli.lowrank import cp_blocks, likelihood
from diffbcp_cli.lowrank.cp import reconstruct
from diffbcp_cli.lowrank.cp_sweep import sweep
from diffbcp_cli.lowrank.grams import Strategy
from diffbcp_cli.lowrank.likelihood import Coupling

LAYOUTS = {"patch": ((3, 4, 4), (20,)), "reshape": ((4, 5), (5, 4, 3))}
RANK = 6
HYPER = tiny.PROPER


@pytest.fixture(params=LAYOUTS)
def layout(request):
    return LAYOUTS[request.param]


def problem(layout, dtype=torch.float32, **options):
    observation = tiny.random_observation(*layout, dtype=dtype, **options)
    state = tiny.random_state(*layout, RANK, dtype=dtype)
    z = tiny.normal(*observation.values.shape, generator=tiny.rng(9), dtype=dtype)
    return state, observation, Coupling(0.8, z[None])


def run(state, observation, coupling=None, *, seed=0, block=RANK, **options):
    """The new state; the image is of no use where padding, of weight zero, is not cut off."""
    return sweep(state, observation, HYPER, coupling=coupling, block=block, rng=tiny.rng(seed), **options)[0]


def same(one, two):
    return all(torch.equal(a, b) for a, b in zip(tiny.tensors_of(one), tiny.tensors_of(two), strict=True))


def close(one, two, tolerance):
    for a, b in zip(tiny.tensors_of(one), tiny.tensors_of(two), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, check_dtype=False)


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("block", [1, RANK])
def test_inputs_are_left_alone(layout, block, coupled):
    state, observation, coupling = problem(layout)
    held = tiny.tensors_of(state, observation, coupling)
    assert len(held) > 15
    versions, values = [t._version for t in held], [t.clone() for t in held]
    new = run(state, observation, coupling if coupled else None, block=block)
    assert [t._version for t in held] == versions
    assert all(torch.equal(a, b) for a, b in zip(held, values, strict=True))
    addresses = {t.data_ptr() for t in held}
    assert not addresses & {t.data_ptr() for t in tiny.tensors_of(new)}


def test_the_seed_fixes_the_sweep_and_the_global_generator_does_not(layout):
    state, observation, coupling = problem(layout)
    torch.manual_seed(1)
    one = run(state, observation, coupling, seed=4)
    torch.manual_seed(2)
    before = torch.get_rng_state()
    assert same(run(state, observation, coupling, seed=4), one)
    assert torch.equal(torch.get_rng_state(), before)
    assert not same(run(state, observation, coupling, seed=5), one)


def test_everything_is_drawn_and_keeps_its_shape_type_and_range(layout):
    state, observation, coupling = problem(layout)
    new = run(state, observation, coupling)
    for name in ("left", "right", "weights", "cusp"):
        old_parts, new_parts = tiny.tensors_of(getattr(state, name)), tiny.tensors_of(getattr(new, name))
        for a, b in zip(old_parts, new_parts, strict=True):
            assert (a.shape, a.dtype) == (b.shape, b.dtype), name
            assert not torch.equal(a, b), name
    assert new.noise_precision not in (state.noise_precision, 0.0)
    assert ((new.cusp.allocation >= 1) & (new.cusp.allocation <= RANK)).all()
    assert ((new.cusp.sticks > 0) & (new.cusp.sticks <= 1)).all()
    assert new.cusp.sticks[-1] == 1
    assert (new.cusp.shrinkage[~new.in_slab] == HYPER.cusp.spike_var).all()


def test_the_image_is_the_new_reconstruction_folded(layout):
    state, observation, _ = problem(layout, dtype=torch.float64)
    new, image = sweep(state, observation, HYPER, block=2, rng=tiny.rng())
    inside = observation.weight > 0
    torch.testing.assert_close(image[0][inside], reconstruct(new)[inside], rtol=1e-9, atol=1e-9)


def test_the_noise_is_drawn_from_the_misfit_of_the_new_factors(layout, monkeypatch):
    state, observation, _ = problem(layout, dtype=torch.float64)
    seen, real = [], likelihood.draw_noise_precision

    def watched(square, count, prior, *, rng):
        seen.append((square, count))
        return real(square, count, prior, rng=rng)

    monkeypatch.setattr(likelihood, "draw_noise_precision", watched)
    x = reconstruct(run(state, observation, block=2))
    counted = observation.weight * observation.observed
    expected = (counted * (observation.values - x) ** 2).sum(), counted.sum()
    assert seen == [pytest.approx(tuple(map(float, expected)), rel=1e-9)]


@pytest.mark.parametrize("block", [1, 2, RANK])
def test_float32_follows_float64(layout, block):
    exact = run(*problem(layout, dtype=torch.float64), block=block)
    rough = run(*problem(layout), block=block)
    assert rough.weights.dtype == torch.float32
    assert exact.weights.dtype == torch.float64
    close(rough, exact, 2e-3)
    assert rough.noise_precision == pytest.approx(exact.noise_precision, rel=1e-4)


@pytest.mark.parametrize("strategy", get_args(Strategy))
@pytest.mark.parametrize("budget", [1, 5000])
def test_chunks_change_nothing(layout, strategy, budget):
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 1e-3)):
        state, observation, coupling = problem(layout, dtype=dtype, strategy=strategy)
        whole = run(state, observation, coupling)
        chunked = run(state, observation, coupling, budget=budget)
        close(chunked, whole, tolerance)


@pytest.mark.parametrize("coupled", [False, True])
@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_the_way_of_the_grams_changes_nothing(layout, share, coupled):
    results = []
    for strategy in get_args(Strategy):
        state, observation, coupling = problem(layout, dtype=torch.float64, share=share, strategy=strategy)
        results.append(run(state, observation, coupling if coupled else None))
    for other in results[1:]:
        close(other, results[0], 1e-8)


def test_missing_values_and_padding_do_not_matter(layout):
    state, observation, coupling = problem(layout)
    missing, padding = observation.observed == 0, observation.weight == 0
    assert (missing & ~padding).any()
    assert padding.any()
    noise = 100 * torch.randn(missing.shape, generator=tiny.rng(3))
    other = replace(observation, values=torch.where(missing, noise, observation.values))
    assert same(run(state, other), run(state, observation))
    pulled = Coupling(coupling.precision, torch.where(padding, noise, coupling.image))
    assert same(run(state, observation, pulled), run(state, observation, coupling))


def test_a_strong_coupling_pulls_the_reconstruction_to_its_target():
    layout = LAYOUTS["patch"]
    state, observation, _ = problem(layout, share=0.0)
    truth = tiny.random_state(*layout, 2, seed=7, dtype=torch.float32)
    target = reconstruct(truth)
    target = target / target.std()
    generator = tiny.rng()
    for _ in range(60):
        state, image = sweep(
            state, observation, HYPER, coupling=Coupling(1e4, target[None]), block=RANK, rng=generator
        )
    inside = observation.weight > 0
    assert (image[0] - target)[inside].abs().mean() < 0.05 * target[inside].abs().mean()


@pytest.mark.parametrize("rank", [1, 2, 5, 7, 61])
@pytest.mark.parametrize("block", [1, 2, 3, 50])
def test_every_component_is_drawn_once_in_blocks_of_nearly_one_size(rank, block, monkeypatch):
    layout, dealt = ((1, 2), (3,)), []
    real = cp_blocks.draw_components

    def watched(*arguments, blocks, **options):
        dealt.append([b.tolist() for b in blocks])
        return real(*arguments, blocks=blocks, **options)

    monkeypatch.setattr(cp_blocks, "draw_components", watched)
    state = tiny.random_state(*layout, rank)
    for seed, shuffle in ((0, True), (1, True), (0, False)):
        options = {"block": block, "shuffle": shuffle}
        sweep(state, tiny.random_observation(*layout), HYPER, rng=tiny.rng(seed), **options)
    for blocks in dealt:
        assert sorted(chain(*blocks)) == list(range(rank))
        sizes = [len(b) for b in blocks]
        assert max(sizes) - min(sizes) <= 1
        assert max(sizes) <= 1.5 * block + 1
    assert [*chain(*dealt[2])] == list(range(rank))  # in order when not shuffled
    assert rank < 7 or dealt[0] != dealt[1]


def broken(layout, where):
    """A problem whose Grams are far below zero on one side."""
    state, observation, _ = problem(layout, strategy="dense")
    name = f"{where}_plan"
    bad = replace(getattr(observation, name), value=-1e3 * torch.ones_like(getattr(observation, name).value))
    return state, replace(observation, **{name: bad})


@pytest.mark.parametrize(
    ("layout_name", "where", "words"),
    [
        ("patch", "right", "the right factor"),
        ("patch", "left", "mode 0 of the left group"),
        ("reshape", "right", "mode 0 of the right group"),
    ],
)
def test_a_precision_that_breaks_down_names_the_mode(layout_name, where, words):
    state, observation = broken(LAYOUTS[layout_name], where)
    with pytest.raises(NumericalError, match=words):
        run(state, observation)


def test_weights_that_break_down_are_named():
    state, observation, _ = problem(LAYOUTS["patch"])
    wrong = replace(state.cusp, shrinkage=torch.full_like(state.cusp.shrinkage, -1e-9))
    state = replace(state, cusp=wrong)
    with pytest.raises(NumericalError, match="the weights"):
        run(state, observation)
