"""Geweke's joint test of the whole step, the prior's image included, and the step against closed forms.

A right sampler fails one comparison with probability 1e-4 (`geweke.FALSE_ALARM`, over all its quantities by
Bonferroni); the seeds are fixed. Planted mistakes must be found by the same comparison.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

import geweke
import numpy as np
import pytest
import sampling
import tiny
import torch
from scipy import stats

from diffbcp_cli.lowrank.cp import Hyper, reconstruct
from diffbcp_cli.lowrank.cp_sweep import sweep
from diffbcp_cli.lowrank.cusp import CuspPrior
from diffbcp_cli.lowrank.likelihood import Coupling, image_of, observe
from diffbcp_cli.lowrank.tensorize import tensorize
from diffbcp_cli.methods.low_rank import Settings
from diffbcp_cli.methods.split_gibbs import Adaptive, SplitState
from diffbcp_cli.priors import grids
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.priors.reverse import sample
from diffbcp_cli.run.diagnostics import effective_sample_size

pytestmark = pytest.mark.statistical


@pytest.fixture
def fine_grid(monkeypatch):
    """Let the reverse process go down to 2 % of rho, so that its draws are those of the posterior."""
    monkeypatch.setattr(grids, "power_grid", partial(grids.power_grid, last=0.02))


@dataclass(frozen=True)
class StepCase:
    """A tiny grey image, overlapping patches, and a Gaussian prior on Z.

    The entries j of pixel p have weights w_j that add up to W_p, with `once` to one. With xbar the fold average and
    S_p = sum_j w_j (x_j - xbar_p)^2 / W_p the joint is
        p(state) prod_p tau^{o_p (W_p - 1) / 2} exp(-(tau o_p W_p + rho^-2) S_p / 2)
                        N(y_p; xbar_p, 1/(tau W_p))^{o_p} N(z_p; xbar_p, rho^2) N(z_p; m_p, v).
    The power of tau belongs to its Gamma. Take the prior's mean m as data too, with a flat density: then y, z and m
    follow from the state one by one (m_p ~ N(z_p, v)), and the state is the prior's, kept with probability exp(-...),
    which never exceeds one.
    """

    size: tuple[int, int, int] = (1, 4, 3)
    patch: int = 3
    stride: int = 2
    rank: int = 3
    block: int = 3
    rho: float = 0.9
    var: float = 0.5
    calls: int = 25
    once: bool = True
    sweeps: int = 1

    def observation(self):
        shape = tensorize(self.size, "patch", patch=self.patch, stride=self.stride)
        return observe(torch.zeros(self.size), self.mask(), shape, once=self.once)

    def counts(self):
        """W (C, H, W)."""
        observation = self.observation()
        return observation.shape.fold(observation.weight).double().numpy()

    def mask(self):
        return torch.rand(self.size, generator=tiny.rng(4)) < 0.6

    def images(self, entries):
        """xbar (n, C, H, W) and S (n, C, H, W) of entries (n, U, V)."""
        observation = self.observation()
        units = torch.eye(entries[0].size).reshape(-1, *entries.shape[1:])
        average = torch.stack([image_of(unit, observation) for unit in units]).double().flatten(1).numpy()
        flat = entries.reshape(len(entries), -1)
        mean, square = flat @ average, flat**2 @ average
        return mean.reshape(-1, *self.size), (square - mean**2).reshape(-1, *self.size)

    def prior(self, rng):
        shape = self.observation().shape
        sizes = [*shape.left, *shape.right]
        counts, seen = self.counts(), self.mask().numpy()
        tau_shape = geweke.HYPER.noise.shape + 0.5 * float((seen * (counts - 1)).sum())
        number = geweke.PRIOR_DRAWS // 4
        draws = geweke.prior_draws(number, sizes, self.rank, geweke.HYPER, rng, tau_shape=tau_shape)
        image, scatter = self.images(draws.entries(len(shape.left)))
        stiffness = draws.noise_precision[:, None, None, None] * seen * counts + self.rho**-2
        keep = rng.random(len(image)) < np.exp(-0.5 * (stiffness * scatter).sum((1, 2, 3)))
        draws, image = draws.take(keep), image[keep]
        z = image + self.rho * rng.normal(size=image.shape)
        m = z + self.var**0.5 * rng.normal(size=image.shape)
        spread = 1 / np.sqrt(draws.noise_precision[:, None, None, None] * counts)
        y = image + rng.normal(size=image.shape) * spread
        return draws, self.quantities(draws, y, z, m)

    def quantities(self, draws, y, z, m):
        entries = draws.entries(3)
        image, scatter = self.images(entries)
        tau = draws.noise_precision
        return geweke.quantities(draws, entries) | {
            "misfit": tau * (self.counts() * self.mask().numpy() * (y - image) ** 2).sum((1, 2, 3)),
            "scatter": scatter.sum((1, 2, 3)),
            "|z - x|^2": ((z - image) ** 2).sum((1, 2, 3)),
            "|z - m|^2": ((z - m) ** 2).sum((1, 2, 3)),
            "|z|^2": (z**2).sum((1, 2, 3)),
            "z of one pixel": z[:, 0, 2, 1],
            "z x": (z * image).sum((1, 2, 3)),
        }

    def sampler(self, observation, prior):
        rule = Adaptive(strength=1.0, smallest=self.rho, largest=self.rho)
        settings = Settings(
            rank=self.rank, block=self.block, warm_up=0, hyper=geweke.HYPER, sweeps=self.sweeps
        )
        return sampling.sampler(observation, prior, settings, rule=rule, calls=self.calls)

    def chains(self, starts, steps, generator):
        """Successive-conditional draws: new m and y, then the step; name -> (K, N)."""
        observation, states, records = self.observation(), [], []
        spread = torch.from_numpy(self.counts()).float() ** -0.5
        for start in starts:
            image = image_of(reconstruct(start), observation)
            z = image + self.rho * torch.randn(image.shape, generator=generator)
            chain = SplitState(start, image, z, start.noise_precision, 0)
            for _ in range(steps):
                noise = torch.randn((2, *self.size), generator=generator)
                m = chain.prior_image + self.var**0.5 * noise[0]
                y = chain.image + chain.noise_precision**-0.5 * spread * noise[1]
                prior = GaussianPrior(m, torch.tensor(self.var))
                seen = replace(observation, values=observation.shape.unfold(y * self.mask()))
                chain, draw = self.sampler(seen, prior).step(chain, rng=generator)
                assert draw.numbers["rho"] == self.rho
                states.append(chain.model)
                records.append(torch.stack([y, draw.prior_image, m]).double().numpy())
        y, z, m = np.stack(records, 1)
        return geweke.in_chains(self.quantities(geweke.collect(states), y, z, m), len(starts))


SHIPPED = StepCase(once=False, sweeps=2)
"""The kernel that ships: each copy of a pixel counts, and large pictures take two sweeps for each call."""


@pytest.mark.parametrize("case", [StepCase(), SHIPPED], ids=["once", "replicated"])
def test_the_step_with_the_prior_image_keeps_the_joint_distribution(case, fine_grid):
    draws, prior = case.prior(np.random.default_rng(3))
    starts = [draws.state(i, 3) for i in range(geweke.CHAINS)]
    name, z, threshold = geweke.worst(prior, case.chains(starts, geweke.STEPS, tiny.rng(3)))
    assert abs(z) < threshold, (name, z)


def pull_by_the_wrong_power_of_rho(precision, entries):
    return Coupling(1 / precision, entries)


def prior_image_from_too_noisy_a_start(prior, x, rho, **options):
    return sample(prior, x, 2**0.5 * rho, **options)


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("cp_step.Coupling", pull_by_the_wrong_power_of_rho),
        ("split_gibbs.sample", prior_image_from_too_noisy_a_start),
    ],
)
def test_a_wrong_step_is_found_out(name, bug, fine_grid, monkeypatch):
    case = StepCase(rho=0.7)
    draws, prior = case.prior(np.random.default_rng(4))
    monkeypatch.setattr(f"diffbcp_cli.methods.{name}", bug)
    assert geweke.found(case, draws, prior, 3, tiny.rng(4))


def second_sweep_without_the_coupling(*args, coupling, calls=[], **options):  # noqa: B006
    calls.append(1)
    return sweep(*args, coupling=coupling if len(calls) % 2 else None, **options)


@pytest.mark.parametrize(
    ("place", "bug"),
    [
        ("diffbcp_cli.methods.cp_step.sweep", second_sweep_without_the_coupling),
        ("diffbcp_cli.methods.cp_step.Coupling", pull_by_the_wrong_power_of_rho),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_a_mistake_in_the_kernel_that_ships_is_found_out(place, bug, fine_grid, monkeypatch):
    case = replace(SHIPPED, rho=0.5)
    draws, prior = case.prior(np.random.default_rng(4))
    monkeypatch.setattr(place, bug)
    assert geweke.found(case, draws, prior, 3, tiny.rng(4))


# --- the step against closed forms -------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["second-order", "ancestral"])
def test_the_prior_image_given_the_fold_average_is_gaussian(solver, fine_grid):
    """Z | X has mean D(xbar, rho) and variance v rho^2 / (v + rho^2) at every pixel.

    Standardised over 3 x 40 x 36 pixels and 10 draws, mean and variance lie within 5 standard errors (a false
    alarm once in 10^6), with 2 % more for the finite grid.
    """
    size, rho = (3, 40, 36), 0.6
    generator = tiny.rng(6)
    mean, image = (torch.randn(size, generator=generator) for _ in range(2))
    var = 0.05 + torch.rand(size, generator=generator)
    prior = GaussianPrior(mean, var)
    observation = observe(image, torch.rand(size, generator=generator) < 0.5, tensorize(size, "patch"))
    rule, calls = Adaptive(strength=1.0, smallest=rho, largest=rho), 25 if solver == "second-order" else 150
    settings = Settings(rank=1, block=1, warm_up=0)
    sampler = sampling.sampler(observation, prior, settings, rule=rule, calls=calls, solver=solver)
    start = replace(sampler.init(rng=generator), image=image)
    exact = (prior.denoise(image[None], rho)[0], prior.posterior_var(rho).sqrt())
    scores = []
    for _ in range(10):
        _, draw = sampler.step(start, rng=generator)
        scores.append((draw.prior_image - exact[0]) / exact[1])
    scores = torch.stack(scores).flatten().double()
    assert abs(float(scores.mean())) < 5 / len(scores) ** 0.5 + 0.02
    assert abs(float(scores.var()) - 1) < 5 * (2 / len(scores)) ** 0.5 + 0.02


def scale_mixture(y, observed, m, *, tau, rho, var, spike_var):
    """Exact mean and variance of x and z, (4, V), when x_v = s b_v with s = lambda a1 a2 and b_v ~ N(0, 1).

    Given s all is Gaussian: x_v has precision 1/s^2 + tau o_v + 1/(var + rho^2), and s is summed out on a grid of
    log |s|, whose density is the convolution of three densities of the log of a half-normal.
    """
    step = 0.01
    t = np.arange(-25.0, 3.0, step)
    half_normal = 2 * stats.norm.pdf(np.exp(t)) * np.exp(t) * step
    density = np.convolve(np.convolve(half_normal, half_normal), half_normal)
    log_s = 3 * t[0] + step * np.arange(len(density)) + 0.5 * math.log(spike_var)
    keep = log_s > -40
    square, weight = np.exp(2 * log_s[keep])[:, None], density[keep]
    data_precision = tau * observed + 1 / (var + rho**2)  # (V,)
    linear = tau * observed * y + m / (var + rho**2)
    target = linear / data_precision
    evidence = stats.norm.logpdf(target, scale=np.sqrt(square + 1 / data_precision)).sum(1)
    weight = weight * np.exp(evidence - evidence.max())
    weight = (weight / weight.sum())[:, None]
    precision = 1 / square + data_precision
    mean = linear / precision
    x_mean = (weight * mean).sum(0)
    x_var = (weight * (1 / precision + mean**2)).sum(0) - x_mean**2
    gain = var / (var + rho**2)  # z | x ~ N(m + gain (x - m), gain rho^2)
    return np.stack([x_mean, x_var, m + gain * (x_mean - m), gain * rho**2 + gain**2 * x_var])


def test_the_chain_with_a_gaussian_prior_has_its_exact_mean_and_variance(fine_grid):
    """One component, known noise: mean and variance of X and Z at 4 entries, false alarms 1e-4 for all 16."""
    y = np.array([1.1, -0.4, 0.9, 0.0])
    m = np.array([0.5, -1.0, 1.2, 0.8])
    observed = np.array([1.0, 1.0, 0.0, 0.0])
    rho, var, noise_std = 0.6, 0.4, 0.7
    hyper = Hyper(cusp=CuspPrior(spike_var=1.5))
    shape = tiny.Plain((1, 1), (4,))
    observation = observe(
        torch.from_numpy(y).float().reshape(1, 1, 4),
        torch.from_numpy(observed).bool().reshape(1, 1, 4),
        shape,
    )
    prior = GaussianPrior(torch.from_numpy(m).float().reshape(1, 1, 4), torch.tensor(var))
    rule = Adaptive(strength=1.0, smallest=rho, largest=rho)
    settings = Settings(rank=1, block=1, warm_up=0, noise_std=noise_std, hyper=hyper)
    chain = sampling.steps(
        sampling.sampler(observation, prior, settings, rule=rule, calls=20), rng=tiny.rng(8)
    )
    draws = [draw for _, (_, draw) in zip(range(2600), chain, strict=False)][200:]
    x, z = (
        torch.stack([getattr(d, name).flatten() for d in draws]).double().numpy()
        for name in ("image", "prior_image")
    )
    exact = scale_mixture(y, observed, m, tau=noise_std**-2, rho=rho, var=var, spike_var=hyper.cusp.spike_var)
    scores = np.concatenate([x, (x - exact[0]) ** 2, z, (z - exact[2]) ** 2], 1)
    worth = np.minimum(effective_sample_size(scores[None]), len(scores))
    deviation = (scores.mean(0) - exact.flatten()) / np.sqrt(scores.var(0) / worth)
    assert np.abs(deviation).max() < stats.norm.isf(geweke.FALSE_ALARM / (2 * scores.shape[1])), deviation
