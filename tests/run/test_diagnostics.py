"""R-hat, effective sample size and conformal factors against known answers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import signal, stats

from diffbcp_cli.errors import UsageError
from diffbcp_cli.run import diagnostics


def autoregressive(phi: float, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    """Stationary AR(1) chains along axis 1, with unit variance."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal(shape) * math.sqrt(1.0 - phi**2)
    noise[:, 0] = rng.standard_normal(noise[:, 0].shape)
    return signal.lfilter([1.0], [1.0, -phi], noise, axis=1)


def test_rhat_by_hand():
    draws = np.array([[1.0, 3.0, 2.0, 4.0], [1.0, 3.0, 2.0, 4.0]])  # halves: means 2, 3, 2, 3; variances 2
    expected = math.sqrt((0.5 * 2.0 + 1.0 / 3.0) / 2.0)
    assert diagnostics.split_rhat(draws) == pytest.approx(expected)


@pytest.mark.parametrize("rank_normalized", [False, True])
def test_rhat_is_near_one_for_good_chains_and_large_for_shifted_or_drifting_ones(rank_normalized):
    good = np.random.default_rng(0).standard_normal((4, 200, 30))
    rhat = diagnostics.split_rhat(good, rank_normalized=rank_normalized)
    assert rhat.shape == (30,)
    assert rhat.max() < 1.03
    shifted = good + np.array([0.0, 0.0, 0.0, 3.0])[:, None, None]
    assert diagnostics.split_rhat(shifted, rank_normalized=rank_normalized).min() > 1.3
    drifting = good[:1] + np.linspace(0.0, 6.0, 200)[None, :, None]  # one chain is enough: its halves differ
    assert diagnostics.split_rhat(drifting, rank_normalized=rank_normalized).min() > 1.3


def test_only_the_rank_normalized_rhat_sees_chains_of_different_spread():
    good = np.random.default_rng(0).standard_normal((4, 400))
    good[0] *= 5.0
    assert diagnostics.split_rhat(good) < 1.05
    assert diagnostics.split_rhat(good, rank_normalized=True) > 1.1


def test_constant_entries_have_converged_and_stuck_chains_have_not():
    draws = np.zeros((2, 10, 2))
    draws[1, :, 1] = 1.0
    assert diagnostics.split_rhat(draws).tolist() == [1.0, math.inf]
    ess = diagnostics.effective_sample_size(draws)
    assert ess[0] == 20.0
    assert ess[1] < 5.0


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9, -0.5])
def test_ess_of_an_autoregressive_chain_is_its_known_value(phi):
    chains = autoregressive(phi, (4, 4000, 24))
    expected = 16_000 * (1.0 - phi) / (1.0 + phi)
    got = diagnostics.effective_sample_size(chains)
    assert got.shape == (24,)
    assert got.mean() == pytest.approx(expected, rel=0.07)


def test_ess_predicts_the_spread_of_the_means_of_single_chains():
    chains = autoregressive(0.7, (1, 600, 2000), seed=3)
    ess = diagnostics.effective_sample_size(chains, split=False)
    spread = chains.mean(axis=(0, 1)).var()
    assert np.median(ess) == pytest.approx(1.0 / spread, rel=0.12)


def plain_ess(chains: np.ndarray) -> float:
    """The same definition for one entry, lag by lag with scalars. chains: (K, n), not split."""
    k, n = chains.shape
    within = np.mean([chain.var(ddof=1) for chain in chains])
    pooled = (n - 1) / n * within + (chains.mean(axis=1).var(ddof=1) if k > 1 else 0.0)
    r = []
    for lag in range(n):
        covariances = []
        for chain in chains:
            centred = chain - chain.mean()
            covariances.append(sum(centred[t] * centred[t + lag] for t in range(n - lag)) / (n - 1))
        r.append(1.0 - (within - np.mean(covariances)) / pooled)
    r[0] = 1.0
    pairs = []
    for t in range(0, n - 1, 2):
        both = r[t] + r[t + 1]
        if both <= 0.0:
            break
        pairs.append(min([both, *pairs]))
    return k * n / max(2.0 * sum(pairs) - 1.0, 1.0 / math.log10(k * n))


@pytest.mark.parametrize("phi", [0.8, 0.0, -0.9])
def test_ess_of_short_chains_equals_the_plain_definition(phi):
    chains = autoregressive(phi, (3, 14, 40), seed=9)
    got = diagnostics.effective_sample_size(chains, split=False)
    assert got == pytest.approx([plain_ess(chains[:, :, entry]) for entry in range(40)])


def test_ess_falls_when_chains_disagree():
    chains = np.random.default_rng(1).standard_normal((4, 100))
    assert diagnostics.effective_sample_size(chains) > 200
    assert diagnostics.effective_sample_size(chains + np.arange(4)[:, None]) < 20


def test_all_pixels_at_once_equal_one_at_a_time():
    chains = autoregressive(0.6, (2, 31, 3, 4), seed=5)
    for function in (diagnostics.split_rhat, diagnostics.effective_sample_size):
        for rank_normalized in (False, True):
            together = function(chains, rank_normalized=rank_normalized)
            assert together.shape == (3, 4)
            alone = function(chains[:, :, 1, 2], rank_normalized=rank_normalized)
            assert together[1, 2] == pytest.approx(float(alone))
            tensor = function(torch.from_numpy(chains), rank_normalized=rank_normalized)
            assert np.array_equal(tensor, together)


def test_normal_scores_equal_scipys_ranks():
    draws = np.random.default_rng(0).integers(0, 5, (2, 8, 3)).astype(float)  # many ties
    ranks = stats.rankdata(draws.reshape(16, 3), axis=0)
    expected = stats.norm.ppf((ranks - 0.375) / 16.25).reshape(draws.shape)
    assert diagnostics._normal_scores(draws) == pytest.approx(expected)


def test_too_few_draws_are_refused():
    with pytest.raises(UsageError, match="4 draws or more"):
        diagnostics.split_rhat(np.zeros((2, 3)))


def test_conformal_factor_by_hand():
    sizes = np.arange(1.0, 20.0) * np.where(np.arange(19) % 2, 1.0, -1.0)  # 1..19 with signs: (n + 1) = 20
    z90, z95 = stats.norm.ppf([0.95, 0.975])
    got = diagnostics.conformal_factor(sizes, [0.9, 0.95, 0.96])
    assert got[:2] == pytest.approx([18.0 / z90, 19.0 / z95])
    assert got[2] == math.inf


def test_conformal_factor_is_one_for_a_calibrated_std_and_undoes_a_wrong_one():
    errors = np.random.default_rng(0).standard_normal(50_000)
    levels = [0.5, 0.9, 0.95]
    assert diagnostics.conformal_factor(errors, levels) == pytest.approx([1.0] * 3, abs=0.02)
    assert diagnostics.conformal_factor(torch.from_numpy(2.5 * errors), [0.9]) == pytest.approx(
        [2.5], rel=0.02
    )


@pytest.mark.statistical
def test_conformal_intervals_cover_what_they_claim_even_from_few_entries_of_another_shape():
    """Coverage over 4,000 repeats: within 4 standard errors of [0.9, 0.9 + 1/21] (false alarms < 1e-4)."""
    rng = np.random.default_rng(2)
    z = stats.norm.ppf(0.95)
    held_out = rng.standard_t(3, (4000, 20))
    factors = np.array([diagnostics.conformal_factor(row, [0.9])[0] for row in held_out])
    covered = (np.abs(rng.standard_t(3, 4000)) <= factors * z).mean()
    slack = 4.0 * math.sqrt(0.09 / 4000)
    assert 0.9 - slack < covered < 0.9 + 1.0 / 21.0 + slack


def test_conformal_factor_refuses_what_is_not_a_level_or_a_number():
    with pytest.raises(UsageError, match="between 0 and 1"):
        diagnostics.conformal_factor(np.ones(10), [1.0])
    with pytest.raises(UsageError, match="not a number"):
        diagnostics.conformal_factor(np.array([1.0, math.nan]), [0.5])


def test_the_tail_size_is_that_of_independent_draws_and_falls_where_tails_stick():
    rng = np.random.default_rng(3)
    free = rng.standard_normal((4, 500))
    assert diagnostics.tail_sample_size(free) > 1000
    scale = np.repeat(np.exp(rng.standard_normal((4, 20))), 25, axis=1)  # volatile for 25 draws at a time
    sticky = scale * free
    assert diagnostics.effective_sample_size(sticky) > 1000
    assert diagnostics.tail_sample_size(sticky) < 700
