"""The plain estimator: mean and standard deviation of the draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..options import Options
from ..problem import Problem, Restoration
from ..run.posterior import Posterior
from ..units import Floats, std_to_unit, to_unit


@dataclass(frozen=True)
class PosteriorMean:
    """Mean and standard deviation of the draws, and their noise."""

    shown: Problem
    options: Options

    def estimate(self, posterior: Posterior) -> tuple[Restoration, Callable[[], Floats]]:
        """The restoration, and its mean: there is nothing to be done again with the held-out pixels."""
        found = self(posterior)
        return found, lambda: found.mean

    def __call__(self, posterior: Posterior) -> Restoration:
        """Sum up the draws."""
        samples = np.stack([to_unit(sample) for sample in posterior.samples]) if posterior.samples else None
        return Restoration(
            mean=to_unit(posterior.image.mean),
            std=std_to_unit(posterior.std),
            noise=posterior.noise() or None,
            options=self.options,
            samples=samples,
            numbers={
                "estimator": "mean",
                "noise_source": "chain" if self.shown.noise_std is None else "given",
                "draws": posterior.image.count,
                "finish_level": None,
                "finish_weights": None,
                "calibration": None,
            },
        )
