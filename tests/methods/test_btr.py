"""The variational tensor ring: exact moments, a bound that grows, ranks, noise and uncertainty that are right."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
import rings
import tiny
import torch
from conftest import picture

from diffbcp_cli.jobs.session import restore
from diffbcp_cli.lowrank.binary import Binary
from diffbcp_cli.methods import btr
from diffbcp_cli.methods.bcp import Data
from diffbcp_cli.methods.btr import Btr, chain, core_powers, second_moment
from diffbcp_cli.options import resolve

SIZES, TRUE = (6, 7, 8), (2, 2, 2)


@dataclass(frozen=True)
class Same:
    """The layout of a tensor that is laid out already."""

    sizes: tuple[int, ...]

    def tensor(self, image):
        return image

    def picture(self, tensor):
        return tensor


def problem(seed=0, share=0.7):
    """A tensor of ring ranks 2, noise 0.05; what is known of it."""
    x, _ = rings.low_rank_tensor(SIZES, TRUE, closed=True, seed=seed)
    x, generator = x.double(), tiny.rng(seed + 1)
    y = x + 0.05 * torch.randn(SIZES, generator=generator, dtype=torch.float64)
    known = (torch.rand(SIZES, generator=generator) < share).double()
    return x, Data(y * known, known, 0.0, 1.0)


def run(method, sweeps):
    state, info = method.init(rng=tiny.rng(3)), None
    states = [state]
    for _ in range(sweeps):
        state, info = method.step(state, rng=tiny.rng(0))
        states.append(state)
    return states, info


def method_of(data, rank=4, sweeps=60):
    return Btr(data, Same(tuple(data.values.shape)), rank, sweeps, dtype=torch.float64)


@pytest.fixture(scope="module")
def found():
    x, data = problem()
    return x, data, *run(method_of(data), 60)


def test_the_bound_grows_at_every_sweep_of_fixed_ranks(found):
    bounds, states = found[2][-1].bounds, found[2]
    pairs = [(a, b) for a, b in pairwise(states[1:]) if a.ranks == b.ranks]
    assert len(pairs) > 40
    assert all(b.bounds[-1] >= a.bounds[-1] - 1e-9 * abs(bounds[0]) for a, b in pairs)


def test_the_published_factor_in_the_update_of_lam_lowers_the_bound(monkeypatch):
    """A quarter of the right one."""
    real = btr.bond_power
    monkeypatch.setattr(btr, "bond_power", lambda *arguments: real(*arguments) / 4)
    states, _ = run(method_of(problem()[1]), 40)
    pairs = pairwise(states[1:])
    assert any(b.bounds[-1] < a.bounds[-1] - 1e-6 for a, b in pairs if a.ranks == b.ranks)


def test_ranks_noise_and_missing_entries_are_found_with_their_uncertainty(found):
    x, data, states, info = found
    missing = data.known == 0
    assert states[-1].ranks == TRUE
    assert info.noise_std == pytest.approx(0.05, rel=0.2)
    assert rings.rel(info.image[missing], x[missing]) < 0.05
    ratio = ((info.image - x) / info.std)[missing].square().mean()
    assert 0.4 < float(ratio) < 2.0


def random_posterior(seed=0):
    """Means and covariances of a small ring."""
    generator, shapes = tiny.rng(seed), [(2, 3, 2), (2, 2, 3), (3, 2, 2)]
    means = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    halves = [torch.randn(i, p * q, p * q, generator=generator, dtype=torch.float64) for p, i, q in shapes]
    return means, [half @ half.mT for half in halves]


@pytest.mark.statistical
def test_second_moments_of_x_are_those_of_random_cores():
    """20,000 draws; each of 12 entries within 6 standard errors."""
    means, covariances = random_posterior()
    squares = [second_moment(*one) for one in zip(means, covariances, strict=True)]
    exact = torch.einsum("jss->j", chain(squares))
    generator, draws = tiny.rng(5), []
    for mean, covariance in zip(means, covariances, strict=True):
        p, i, q = mean.shape
        noise = torch.randn(20_000, i, p * q, 1, generator=generator, dtype=torch.float64)
        spread = (torch.linalg.cholesky(covariance) @ noise).view(-1, i, p, q).transpose(1, 2)
        draws.append(mean + spread)
    values = torch.einsum(rings.naive(draws, (), batch="z"), *draws).flatten(1).square()
    error = values.std(0) / len(values) ** 0.5
    assert float(((values.mean(0) - exact) / error).abs().max()) < 6


@pytest.mark.parametrize("n", range(3))
def test_what_a_core_sees_is_what_a_loop_over_the_entries_finds(n):
    means, covariances = random_posterior(1)
    sizes = (3, 2, 2)
    known = (torch.rand(sizes, generator=tiny.rng(1)) < 0.6).double()
    y = torch.randn(sizes, generator=tiny.rng(2), dtype=torch.float64) * known
    squares = [second_moment(*one) for one in zip(means, covariances, strict=True)]
    method = method_of(Data(y, known, 0.0, 1.0))
    gram, linear = method._design(n, means, squares, y, known)
    p, rows, q = means[n].shape
    expected_gram, expected = torch.zeros(rows, p * q, p * q), torch.zeros(rows, p * q)
    others = [(n + 1) % 3, (n + 2) % 3]
    for index in known.nonzero().tolist():
        b = means[others[0]][:, index[others[0]]] @ means[others[1]][:, index[others[1]]]  # (q, p)
        m = squares[others[0]][:, index[others[0]]] @ squares[others[1]][:, index[others[1]]]  # (qq', pp')
        expected[index[n]] += y[tuple(index)] * b.T.flatten()
        expected_gram[index[n]] += m.view(q, q, p, p).permute(2, 0, 3, 1).reshape(p * q, p * q)
    torch.testing.assert_close(gram, expected_gram.double(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(linear, expected.double(), rtol=1e-5, atol=1e-5)


def test_idle_components_go_with_everything_that_is_theirs():
    states, _ = run(method_of(problem()[1]), 2)
    state = states[-1]
    assert state.ranks == (4, 4, 4)
    means = list(state.means)
    means[1] = means[1].clone()
    means[1][..., 2] *= 1e-9
    means[2] = means[2].clone()
    means[2][2] *= 1e-9
    smaller = btr.pruned(replace(state, means=tuple(means)))
    assert smaller.ranks == (4, 3, 4)
    keep = torch.tensor([True, True, False, True])
    assert torch.equal(
        core_powers(smaller.means[1], smaller.covariances[1]),
        core_powers(means[1], state.covariances[1])[:, keep],
    )
    assert torch.equal(
        core_powers(smaller.means[2], smaller.covariances[2]),
        core_powers(means[2], state.covariances[2])[keep],
    )


@pytest.mark.parametrize("size", [(3, 16, 16), (1, 20, 33), (3, 64, 17)])
def test_the_layout_goes_back_and_is_coarse_first(size):
    layout, image = Binary(*size), torch.randn(size, generator=tiny.rng(0))
    tensor = layout.tensor(image)
    assert tensor.shape == layout.sizes
    assert torch.equal(layout.picture(tensor), image)
    step = torch.zeros(1, 16, 16)
    step[:, 8:, :8] = 1.0  # the lower left quarter: row bit 1, column bit 0
    laid = Binary(1, 16, 16).tensor(step)
    assert laid[2].min() == 1
    assert laid[[0, 1, 3]].max() == 0


def test_a_picture_is_restored_with_its_uncertainty():
    pixels = picture(32, 40).astype(np.float32)
    observed = np.random.default_rng(1).random(pixels.shape) < 0.5
    cfg = resolve({"method": "btr", "rank": 4, "iterations": 12, "device": "cpu"})
    found = restore(pixels, observed, cfg, prior=None)
    assert found.std is not None
    grey = np.full_like(pixels, pixels[observed].mean())
    missing = ~observed
    assert np.square(found.mean - pixels)[missing].mean() < 0.3 * np.square(grey - pixels)[missing].mean()
