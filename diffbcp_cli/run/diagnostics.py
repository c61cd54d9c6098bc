"""Did the chains reach the same place, how many draws are they worth, and by how much is the std off?

Draws are (chains, draws, ...), NumPy arrays or tensors; every function works on all trailing entries
(pixels, channels) at once and returns (...). R-hat and ESS follow Vehtari, Gelman, Simpson, Carpenter and
Bürkner (2021), *Rank-normalization, folding, and localization*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import UsageError

__all__ = ["conformal_factor", "effective_sample_size", "split_rhat", "tail_sample_size"]

Array: TypeAlias = NDArray[np.float64]
MIN_DRAWS = 4


def split_rhat(draws: NDArray[Any] | torch.Tensor, *, rank_normalized: bool = False) -> Array:
    """Potential scale reduction of the half chains; 1 when they agree. draws: (K, N, ...) -> (...).

    R = sqrt(((n - 1)/n W + B/n) / W), with B/n the variance of the half chains' means and W the mean of
    their variances. With rank_normalized: the larger of the R of the ranks as normal scores, and that of
    the folded draws |x - median|, which sees chains that differ in spread or have heavy tails. An entry
    that never changes has R = 1; chains that are stuck at different values have R = inf.
    """
    halves = _halves(_draws(draws))
    if not rank_normalized:
        return _rhat(halves)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_rhat(_normal_scores(halves)), _rhat(_normal_scores(folded)))


def effective_sample_size(
    draws: NDArray[Any] | torch.Tensor, *, split: bool = True, rank_normalized: bool = False
) -> Array:
    """Return how many independent draws the mean is worth. draws: (K, N, ...) -> (...).

    ESS = K N / tau, tau = -1 + 2 sum_t P_t with P_t = r_2t + r_2t+1 summed while positive (Geyer's initial
    positive sequence) and never rising; r_t = 1 - (W - mean over chains of the lag-t covariance) / var+, so
    chains that disagree count as autocorrelated. At most K N log10(K N); K N for an entry that never changes.
    Chains of fewer than some 20 tau draws cannot see their own slow moves: read their ESS as an upper bound.
    """
    chains = _draws(draws)
    total = chains.shape[0] * chains.shape[1]
    chains = _halves(chains) if split else chains
    chains = _normal_scores(chains) if rank_normalized else chains
    within, pooled = _variances(chains)
    n = chains.shape[1]
    centred = chains - chains.mean(axis=1, keepdims=True)
    still = pooled <= 0.0
    scale = np.where(still, 1.0, pooled)

    def correlation(lag: int) -> Array:
        products = centred[:, : n - lag] * centred[:, lag:]
        return np.asarray(1.0 - (within - products.sum(axis=1).mean(axis=0) / (n - 1)) / scale)

    summed = np.zeros(chains.shape[2:])
    previous = np.full(chains.shape[2:], np.inf)
    going = ~still
    for lag in range(0, n - 1, 2):
        even = np.ones_like(summed) if lag == 0 else correlation(lag)
        paired = np.minimum(even + correlation(lag + 1), previous)
        going = going & (paired > 0.0)
        if not going.any():
            break
        summed = summed + np.where(going, paired, 0.0)
        previous = np.where(going, paired, previous)
    tau = np.maximum(2.0 * summed - 1.0, 1.0 / math.log10(total))
    return np.asarray(np.where(still, float(total), total / tau), dtype=np.float64)


def tail_sample_size(draws: NDArray[Any] | torch.Tensor) -> Array:
    """How many independent draws the 5 % and 95 % quantiles are worth, the fewer of the two. (K, N, ...) -> (...)."""
    values = _draws(draws)
    limits = np.quantile(values, [0.05, 0.95], axis=(0, 1))
    return np.minimum(*(effective_sample_size((values <= limit).astype(np.float64)) for limit in limits))


def conformal_factor(standardized_errors: NDArray[Any] | torch.Tensor, levels: Sequence[float]) -> Array:
    """Factors on std that make mean +- z std cover as claimed. standardized_errors: (n,) -> (levels,).

    standardized_errors are (truth - mean)/std at n held-out entries. With q the ceil((n + 1) level)-th
    smallest of their sizes, mean +- q std covers a new entry with probability at least `level` (and at most
    level + 1/(n + 1)) if it is exchangeable with the held-out ones; the factor is q / z. It is infinite
    when n < level / (1 - level): so few entries cannot promise that level.
    """
    sizes = np.sort(np.abs(_numpy(standardized_errors).astype(np.float64).reshape(-1)))
    if np.isnan(sizes).any():
        raise UsageError("a standardised error is not a number")
    factors = []
    for level in levels:
        if not 0.0 < level < 1.0:
            raise UsageError(f"a level must be between 0 and 1, not {level}")
        place = math.ceil((sizes.size + 1) * level - 1e-9)
        quantile = float(sizes[place - 1]) if place <= sizes.size else math.inf
        factors.append(quantile / NormalDist().inv_cdf(0.5 + 0.5 * level))
    return np.array(factors)


def _numpy(x: NDArray[Any] | torch.Tensor) -> NDArray[Any]:
    return x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)


def _draws(x: NDArray[Any] | torch.Tensor) -> Array:
    draws = _numpy(x).astype(np.float64)
    if draws.ndim < 2 or draws.shape[0] < 1 or draws.shape[1] < MIN_DRAWS:
        raise UsageError(
            f"diagnostics need (chains, draws, ...) with {MIN_DRAWS} draws or more: {draws.shape}"
        )
    return draws


def _halves(draws: Array) -> Array:
    """(K, N, ...) -> (2 K, N // 2, ...); the middle draw of an odd chain is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _variances(chains: Array) -> tuple[Array, Array]:
    """Return W, the mean variance within chains, and var+ = (n - 1)/n W + B/n. (K, n, ...) -> (...)."""
    n = chains.shape[1]
    within = chains.var(axis=1, ddof=1).mean(axis=0)
    between = chains.mean(axis=1).var(axis=0, ddof=1) if len(chains) > 1 else np.zeros_like(within)
    return within, (n - 1) / n * within + between


def _rhat(chains: Array) -> Array:
    within, pooled = _variances(chains)
    still = np.isclose(within, 0.0, atol=1e-30)
    moving = np.sqrt(pooled / np.where(still, 1.0, within))
    stuck = np.where(np.isclose(pooled, 0.0, atol=1e-30), 1.0, np.inf)
    return np.asarray(np.where(still, stuck, moving), dtype=np.float64)


def _normal_scores(draws: Array) -> Array:
    """Ranks over all chains of each entry, as Phi^-1((rank - 3/8)/(S + 1/4)); ties share their mean rank."""
    flat = draws.reshape(draws.shape[0] * draws.shape[1], -1)  # (S, entries)
    count = len(flat)
    order = np.argsort(flat, axis=0, kind="stable")
    ordered = np.take_along_axis(flat, order, axis=0)
    position = np.arange(count)[:, None]
    starts = np.concatenate([np.ones((1, flat.shape[1]), dtype=bool), ordered[1:] != ordered[:-1]])
    first = np.maximum.accumulate(np.where(starts, position, 0), axis=0)
    ends = np.concatenate([starts[1:], np.ones((1, flat.shape[1]), dtype=bool)])
    last = np.minimum.accumulate(np.where(ends, position, count)[::-1], axis=0)[::-1]
    ranks = np.empty_like(flat)
    np.put_along_axis(ranks, order, 0.5 * (first + last) + 1.0, axis=0)
    scores = torch.special.ndtri(torch.from_numpy((ranks - 0.375) / (count + 0.25))).numpy()
    return np.asarray(scores, dtype=np.float64).reshape(draws.shape)
