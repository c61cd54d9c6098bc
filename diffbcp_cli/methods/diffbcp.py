"""DiffBCP: the posterior of the picture under a diffusion prior, or under a low-rank tensor that the prior holds.

Assumes: Gaussian noise of unknown level and a mask, whose entries may differ between the colours. Any prior.

--sampler langevin, the default, draws from p(z) prod_known N(y; z, sigma^2), the prior p given by its network, by
Langevin dynamics (methods/langevin.py). Mean, std and noise are those of this one density.

--sampler split-gibbs is the paper's method. The picture is cut into overlapping patches, and their tensor is
sum_r lambda_r a_r o b_r o c_r o d_r plus noise of precision tau. A shrinkage prior (CUSP) on the weights lambda
settles the rank. A copy Z of the picture, held to it by a coupling rho = sqrt(c / tau), is drawn from the prior by
reverse diffusion from level rho. Both are drawn in turn. The result is the mean of the draws, refined by the prior
(--estimator refined). Without a prior (--prior none) it is Bayesian CP by Gibbs sampling. Any option of the low-rank
model or of the coupling chooses this sampler.

Cost: langevin: two network calls an iteration, four in every fifth one, 52 iterations. split-gibbs: in each of 100
iterations one Gram matrix of the size of the rank for every patch, and --calls network calls; then those of --finish.

Reference: Bayesian Tensor Decomposition with Diffusion Model Prior, ICML 2026.

Ours differs: langevin has no tensor model. In split-gibbs, conditionals that are printed with theta in place of
1 / theta, and draws of the published code that are no Gibbs steps, are put right; c, rho, the solver and the estimate
are other ones by default. docs/explanation/model.md lists every difference.
"""

from __future__ import annotations

from typing import Any, Literal

from ..lowrank import cusp
from ..lowrank.cp import State
from ..lowrank.ring import RingState
from ..lowrank.tensorize import tensorize
from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch
from . import langevin
from .base import Method
from .cp_step import cp_step
from .low_rank import settings_of
from .ring_step import ring_step
from .split_gibbs import Adaptive, SplitGibbs, SplitState

STATE_CLASSES = (SplitState, State, RingState, cusp.Cusp, *langevin.STATE_CLASSES)


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Method[Any]:
    """The sampler of a problem."""
    if prior is None or options.sampler == "split-gibbs":
        return split_gibbs(problem, prior, options, watch)
    return langevin.build(problem, prior, options, seeds, watch)


def split_gibbs(
    problem: Problem, prior: Prior | None, options: Options, watch: Watch
) -> SplitGibbs[State] | SplitGibbs[RingState]:
    """The paper's sampler of a problem, without its prior if there is none."""
    rule = Adaptive(options.coupling, options.rho_min, options.rho_max)
    settings = settings_of(options, problem.noise_std)
    kind: Literal["patch", "reshape"] = "reshape" if options.tensorize == "reshape" else "patch"
    channels, height, width = problem.y.shape
    shape = tensorize((channels, height, width), kind, patch=options.patch_size, stride=options.stride)
    if options.decomposition == "cp":
        cp = cp_step(problem, shape, settings, options, watch)
        return SplitGibbs(cp, prior, rule, options.solver, options.calls, settled=options.burn_in)
    closed, once = options.decomposition == "tr", options.patch_weights == "once"
    ring = ring_step(problem, shape, settings, once=once, closed=closed)
    return SplitGibbs(ring, prior, rule, options.solver, options.calls, settled=options.burn_in)
