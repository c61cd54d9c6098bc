"""Estimators: what is reported, made of the draws."""

from __future__ import annotations

from ..options import Options, asks_to_refine, draws_by_langevin
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..units import Floats
from ..watch import Watch
from .base import Estimator
from .calibrate import Calibrated
from .hold_out import split
from .mean import PosteriorMean
from .refine import Refined

__all__ = ["Estimator", "build", "refines"]


def refines(prior: Prior | None, options: Options, height: int, width: int) -> bool:
    """Whether the prior refines the posterior mean: the options must ask for it, and the prior see every pixel."""
    return asks_to_refine(options) and prior is not None and not prior.traits.shrinks(height, width)


def build(
    problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch, *, values: Floats
) -> Estimator:
    """The estimator that the options ask for; values: the measured pixels (H, W, C) in [0, 1] units."""
    refining = refines(prior, options, *problem.y.shape[-2:])
    parts = split(
        problem,
        seeds,
        calibrates=options.calibrate and not problem.operator.complete,
        refines=refining,
        puts_back=draws_by_langevin(options) and not refining,
    )
    inner: Refined | PosteriorMean = PosteriorMean(parts.problem(problem), options)
    if prior is not None and refining:
        inner = Refined(problem, parts, prior, options, seeds, watch)
    return inner if parts.held is None else Calibrated(inner, values, parts.held)
