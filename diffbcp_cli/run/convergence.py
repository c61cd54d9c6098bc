"""Have the chains converged? R-hat and effective sample sizes of what a run keeps of its draws.

All are of the ranks of the draws (Vehtari et al. 2021), so heavy tails do not blind them, and R-hat sees chains that
differ in spread. Beside the noise level, the brightness and the contrast there are random projections of the picture:
sums of its pixels, each cell of an 8 x 8 grid with a random sign. They see what moves slowly over a region, by less
than the spread of its pixels. R-hat and ESS are those of the worst projection.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import random
from .diagnostics import MIN_DRAWS, effective_sample_size, split_rhat, tail_sample_size
from .posterior import Posterior, probe_var

PROJECTIONS, CELLS = 8, 8  # how many; cells of one sign along each side
FUNCTIONALS = ("noise_std", "brightness", "contrast")
MAX_RHAT = 1.2  # for a pixel; on short chains chance alone gives 1.1
PIXEL_SHARE = 0.8  # of the pixels must be below it


@dataclass(frozen=True)
class Convergence:
    """R-hat and ESS, bulk and tail. Maps are (h, w), one value per probed pixel; None if there are too few draws."""

    chains: int
    draws: int
    rhat: dict[str, float]
    ess: dict[str, float]
    ess_tail: dict[str, float]
    rhat_map: NDArray[np.float32] | None
    ess_map: NDArray[np.float32] | None

    @property
    def pixels_converged(self) -> float:
        """Share of the probed pixels whose R-hat is small."""
        return 0.0 if self.rhat_map is None else float((self.rhat_map < MAX_RHAT).mean())

    @property
    def converged(self) -> bool:
        """Whether enough pixels agree between (half) chains."""
        return self.pixels_converged >= PIXEL_SHARE

    def as_dict(self) -> dict[str, Any]:
        """As stored in JSON; a number that is not finite is left out as null."""
        found: dict[str, Any] = {
            "chains": self.chains,
            "draws": self.draws,
            "converged": self.converged,
            "max_rhat": MAX_RHAT,
            "pixels_converged": self.pixels_converged,
            "rhat": {name: _finite(value) for name, value in self.rhat.items()},
            "ess": {name: _finite(value) for name, value in self.ess.items()},
            "ess_tail": {name: _finite(value) for name, value in self.ess_tail.items()},
        }
        if self.rhat_map is not None and self.ess_map is not None:
            found["rhat"]["pixel_median"] = _finite(np.median(self.rhat_map))
            found["rhat"]["pixel_95"] = _finite(np.quantile(self.rhat_map, 0.95))
            found["ess"]["pixel_median"] = _finite(np.median(self.ess_map))
            found["ess"]["pixel_5"] = _finite(np.quantile(self.ess_map, 0.05))
        return found

    def warning(self) -> str | None:
        """One sentence for the user when the chains have not converged."""
        if self.converged:
            return None
        if self.rhat_map is None:
            return f"{self.draws} draws are too few to tell whether the chain has converged"
        return (
            f"not converged: only {100 * self.pixels_converged:.0f} % of the pixels have R-hat below {MAX_RHAT}; "
            "more --iterations, or --until-converged"
        )


def convergence(posterior: Posterior) -> Convergence:
    """Judge the draws after burn-in, as many of each chain as all have."""
    probes = posterior.grid()
    count, draws = len(posterior.traces), 0 if probes is None else probes.shape[1]
    if probes is None or draws < MIN_DRAWS:
        return Convergence(count, draws, {}, {}, {}, None, None)
    burn_in = posterior.burn_in
    rhat, ess, tail = {}, {}, {}
    for name, values in _functionals(posterior, probes, burn_in, draws):
        rhat[name] = float(split_rhat(values, rank_normalized=True).max())
        ess[name] = float(effective_sample_size(values, rank_normalized=True).min())
        tail[name] = float(tail_sample_size(values).min())
    ess_map = effective_sample_size(probes).astype(np.float32)
    if posterior.stated.count:
        rhat_map = rhat_of_means(probes, probe_var(posterior.std).numpy())
    else:
        rhat_map = split_rhat(probes, rank_normalized=True)
    return Convergence(count, draws, rhat, ess, tail, rhat_map.astype(np.float32), ess_map)


def _functionals(
    posterior: Posterior, probes: NDArray[np.float32], burn_in: int, draws: int
) -> Iterator[tuple[str, NDArray[Any]]]:
    """Numbers of the draws by name, (chains, draws) or (chains, draws, n)."""
    for name in (name for name in FUNCTIONALS if name in posterior.traces[0]):
        yield name, np.array([trace[name][burn_in : burn_in + draws] for trace in posterior.traces])
    rows, columns = (np.arange(length) * CELLS // length for length in probes.shape[2:])
    signs = random.normal((CELLS, CELLS, PROJECTIONS), rng=random.generator(0)).sign().numpy()
    yield "projections", np.tensordot(probes - probes[:1, :1], signs[rows][:, columns], 2)


def rhat_of_means(means: NDArray[Any], variance: NDArray[Any]) -> NDArray[Any]:
    """R-hat of conditional means: sqrt(1 + B / V), B the variance of the half chains' means, V that of the picture.

    Draws would fluctuate with V, conditional means fluctuate less. means: (chains, draws, h, w), variance: (h, w).
    """
    half = means.shape[1] // 2
    of_halves = np.concatenate([means[:, :half].mean(1), means[:, -half:].mean(1)])
    return np.asarray(np.sqrt(1 + of_halves.var(axis=0, ddof=1) / np.maximum(variance, 1e-12)))


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if np.isfinite(number) else None
