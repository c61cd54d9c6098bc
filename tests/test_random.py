"""Every draw against its exact distribution, with fixed seeds.

Each comparison with a distribution fails for p < 1e-5. There are about 30 of them, so a right generator
fails one of them with probability 3e-4 over the choice of seeds; the seeds are fixed.
"""

from __future__ import annotations

import re
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from diffbcp_cli import random

COUNT = 20_000
LEVEL = 1e-5


def rng(seed=0):
    return random.generator(seed)


def agrees(draws, cdf):
    return stats.kstest(np.asarray(draws, dtype=np.float64), cdf).pvalue > LEVEL


def full(value):
    return torch.full((COUNT,), value, dtype=torch.float64)


def test_normals():
    assert agrees(random.normal((COUNT,), rng=rng()), stats.norm.cdf)
    assert random.normal((2, 3), rng=rng()).dtype == torch.float32
    assert random.normal((2, 3), rng=rng(), dtype=torch.float64).dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normals_like_a_tensor_have_its_shape_and_dtype(dtype):
    x = torch.zeros(COUNT, 1, dtype=dtype)
    drawn = random.normal_like(x, rng=rng(8))
    assert (drawn.shape, drawn.dtype) == (x.shape, dtype)
    assert agrees(drawn[:, 0], stats.norm.cdf)
    assert torch.equal(drawn, random.normal((COUNT, 1), rng=rng(8), dtype=dtype))


def test_uniforms_lie_inside_the_open_interval():
    draws = random.uniform((COUNT,), rng=rng())
    assert agrees(draws, stats.uniform.cdf)
    assert draws.dtype == torch.float64


def test_the_smallest_and_the_largest_uniform_are_not_zero_and_one(monkeypatch):
    for extreme in (0.0, 1 - 2.0**-24):
        monkeypatch.setattr(torch, "rand", lambda size, value=extreme, **_: torch.full(size, value))
        assert 0 < float(random.uniform((1,), rng=rng())) < 1


def test_bernoullis_have_their_share():
    draws = random.bernoulli((COUNT,), 0.3, rng=rng(10))
    assert draws.dtype == torch.bool
    assert stats.binomtest(int(draws.sum()), COUNT, 0.3).pvalue > LEVEL
    assert not random.bernoulli((COUNT,), 0.0, rng=rng(10)).any()
    assert random.bernoulli((COUNT,), 1.0, rng=rng(10)).all()


def test_integers_are_equally_likely_and_below_their_bound():
    generator = rng(11)
    drawn = [random.integer(7, rng=generator) for _ in range(7000)]
    assert stats.chisquare(np.bincount(drawn, minlength=7)).pvalue > LEVEL
    assert len(np.bincount(drawn)) == 7


@pytest.mark.parametrize("shape", [0.05, 0.3, 0.5, 0.999, 1.0, 1.5, 4.0, 60.0, 5e4])
def test_gamma(shape):
    draws = random.gamma(full(shape), rng=rng(1))
    assert draws.dtype == torch.float64
    assert (draws > 0).all()
    assert agrees(draws.log(), lambda x: stats.gamma.cdf(np.exp(x), shape))


def test_gamma_takes_each_element_at_its_own_shape():
    shapes = torch.tensor([0.2, 1.0, 7.0, 300.0], dtype=torch.float64)
    draws = random.gamma(shapes.expand(COUNT, 4), rng=rng(2))
    for column, shape in zip(draws.T, shapes.tolist(), strict=True):
        assert agrees(column, stats.gamma(shape).cdf)


def test_gammas_drawn_together_are_independent():
    draws = random.gamma(torch.full((COUNT, 4), 0.7), rng=rng(3)).log()
    correlation = torch.corrcoef(draws.T)[~torch.eye(4, dtype=torch.bool)]
    assert correlation.abs().max() < 4.9 / COUNT**0.5  # 6 pairs, a false alarm once in 2e5


def test_a_scalar_gamma_is_a_scalar():
    assert random.gamma(torch.tensor(3.0), rng=rng()).shape == ()


@pytest.mark.parametrize(("a", "b"), [(1.0, 5.0), (0.5, 0.5), (30.0, 2.0), (201.0, 5.0)])
def test_beta(a, b):
    assert agrees(random.beta(full(a), full(b), rng=rng(4)), stats.beta(a, b).cdf)


@pytest.mark.parametrize(("shape", "rate"), [(2.5, 2.0), (0.4, 7.0), (60.0, 1e-3)])
def test_inverse_gamma(shape, rate):
    draws = random.inverse_gamma(full(shape), full(rate), rng=rng(9))
    assert draws.dtype == torch.float64
    assert agrees(draws.log(), lambda x: stats.invgamma(shape, scale=rate).cdf(np.exp(x)))


@pytest.mark.parametrize("shift", [0.0, -900.0, 900.0])
def test_categorical_follows_its_weights_whatever_their_size(shift):
    probability = np.array([0.5, 0.3, 0.15, 0.04, 0.01])
    log_weight = torch.from_numpy(np.log(probability) + shift).expand(COUNT, 5)
    counts = torch.bincount(random.categorical(log_weight, rng=rng(5)), minlength=5).numpy()
    assert stats.chisquare(counts, COUNT * probability).pvalue > LEVEL


def test_categorical_never_takes_what_has_no_weight():
    log_weight = torch.tensor([-torch.inf, 0.0, -torch.inf]).expand(1000, 3)
    assert (random.categorical(log_weight, rng=rng()) == 1).all()


def test_categorical_rows_are_their_own():
    log_weight = torch.full((3, 3), -60.0).fill_diagonal_(0.0)[[2, 0, 1]]
    assert random.categorical(log_weight, rng=rng()).tolist() == [2, 0, 1]


def test_permutations_are_equally_likely():
    generator, orders = rng(6), list(permutations(range(3)))
    drawn = [orders.index(tuple(random.permutation(3, rng=generator).tolist())) for _ in range(3000)]
    assert stats.chisquare(np.bincount(drawn, minlength=6)).pvalue > LEVEL


DRAWS = {
    "normal": lambda g: random.normal((5,), rng=g),
    "normal_like": lambda g: random.normal_like(torch.zeros(5), rng=g),
    "uniform": lambda g: random.uniform((5,), rng=g),
    "uniform32": lambda g: random.uniform32((5,), rng=g),
    "bernoulli": lambda g: random.bernoulli((50,), 0.5, rng=g),
    "integer": lambda g: torch.tensor(random.integer(2**62, rng=g)),
    "gamma": lambda g: random.gamma(torch.full((5,), 0.4), rng=g),
    "beta": lambda g: random.beta(torch.ones(5), torch.ones(5), rng=g),
    "inverse_gamma": lambda g: random.inverse_gamma(torch.full((5,), 0.4), torch.ones(5), rng=g),
    "categorical": lambda g: random.categorical(torch.zeros(50, 9), rng=g),
    "permutation": lambda g: random.permutation(30, rng=g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_generator_fixes_the_draw_and_the_global_one_is_left_alone(name):
    draw = DRAWS[name]
    torch.manual_seed(1)
    first, generator = draw(rng(7)), rng(7)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert torch.equal(draw(generator), first)
    assert not torch.equal(draw(generator), first)
    assert not torch.equal(draw(rng(8)), first)
    assert torch.equal(torch.get_rng_state(), state)


TORCH_DRAW = re.compile(
    r"torch\.(?:rand\w*|normal|bernoulli|multinomial|poisson|Generator)\(|\.(?:normal|uniform|bernoulli)_\("
)


def test_nothing_else_in_the_package_draws_with_torch_or_makes_a_generator():
    package = Path(random.__file__).parent
    sources = {p.relative_to(package).as_posix(): p.read_text("utf-8") for p in package.rglob("*.py")}
    assert {path for path, source in sources.items() if TORCH_DRAW.search(source)} == {"random.py"}


@pytest.mark.parametrize(
    ("shape", "least"),
    [(3.0, 0.0), (3.0, 1.0), (3.0, 9.0), (50.0, 60.0), (50.0, 90.0), (0.7, 2.0), (1e5, 1.02e5)],
)
def test_gamma_above_a_bound_is_a_truncated_gamma(shape, least):
    rng = random.generator(5)
    found = [float(random.gamma_above(torch.tensor(shape).double(), least, rng=rng)) for _ in range(1500)]
    tail = stats.gamma.sf(least, shape)
    uniform = stats.gamma.sf(found, shape) / tail
    assert min(found) >= least
    assert stats.kstest(uniform, "uniform").pvalue > 1e-4
