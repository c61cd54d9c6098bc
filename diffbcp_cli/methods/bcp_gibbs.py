"""Bayesian CP by Gibbs sampling: the low-rank chain of diffbcp with no prior.

Assumes: iid Gaussian noise, whose level is inferred, and patches that share few patterns.

The draws are exact, but the picture is no more than the tensor model: nothing holds it where little is known, and
nothing refines the mean of the draws.

Cost: that of the tensor model of diffbcp, which is half of its time or less.

Reference: the DiffBCP paper, its ablation without the diffusion prior.

Ours differs: in the sampler, as that of diffbcp does.
"""

from __future__ import annotations

from ..lowrank.cp import State
from ..lowrank.ring import RingState
from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from . import diffbcp
from .split_gibbs import SplitGibbs

STATE_CLASSES = diffbcp.STATE_CLASSES


def build(
    problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch
) -> SplitGibbs[State] | SplitGibbs[RingState]:
    """The sampler of a problem; a prior has nothing to do in it."""
    return diffbcp.split_gibbs(problem, None, options, watch)
