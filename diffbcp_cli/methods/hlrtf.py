"""HLRTF: slices that are products of two factors, mixed by a small network, fitted to one picture (Luo et al. 2022).

Assumes: a mask; the noise level is not used.

The picture on [0, 1] is x_hw = H2 phi(H1 t_hw) with t_k = A_k B_k for k = 1 .. K: A_k (H, r), B_k (r, W), H1 (K, K),
H2 (C, K), phi a leaky ReLU. A, B, H1 and H2 are fitted by Adam from a random start, to the least of sum_known (x -
y)^2 / (C H W) + gamma (|D A|_1 + |D B|_1 + |D H2|_1), where D takes differences of neighbouring rows of A and H2,
columns of B. The differences carry a row of which nothing is known from its neighbours.

Cost: 2 K r H W multiplications and as many additions an iteration, three times over for the gradient. No network.

Reference: Luo, Zhao, Meng, Jiang, HLRTF: Hierarchical Low-Rank Tensor Factorization for Inverse Problems in
Multi-Dimensional Imaging, CVPR 2022.

Ours differs: the mask is given, not taken from the pixels that are zero; known pixels come out restored, not pasted
back; r = W / 10 and gamma = 1e-6 instead of W / 5 and 1e-9, 1000 iterations instead of 4000, since the published
settings are for data without noise.

Chosen: on the middle 128 x 128 of two photographs, noise 0.025. Gamma 1e-6 gives 24.94 dB and 1e-5 gives 23.29
(astronaut, 70 % missing); 21.00 and 20.71 (china, stripes). 500, 1000, 2000 iterations give 25.01, 24.94, 24.67 dB
(astronaut).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Generator, Tensor
from torch.nn import functional

from .. import random
from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..units import values_to_signed, values_to_unit
from ..watch import Watch
from . import adam
from .adam import Fit, Tensors
from .base import Info, Kind

SLICES_PER_CHANNEL = 10  # K over C
RATE, WEIGHT_DECAY = 3e-3, 1e-7
SLOPE = 0.01  # of the leaky ReLU below zero

STATE_CLASSES = (Fit,)


def picture(parameters: Tensors, slope: float = SLOPE) -> Tensor:
    """H2 phi(H1 (A B)), (C, H, W) on [0, 1]: A (K, H, r), B (K, r, W), H1 (K, K), H2 (C, K)."""
    a, b, h1, h2 = parameters
    mixed = h1 @ (a @ b).flatten(1)  # (K, HW)
    image: Tensor = h2 @ functional.leaky_relu(mixed, slope)
    return image.reshape(-1, a.shape[1], b.shape[2])


def roughness(parameters: Tensors) -> Tensor:
    """The absolute differences of neighbours: rows of A, columns of B, rows of H2."""
    a, b, _, h2 = parameters
    return a.diff(dim=1).abs().sum() + b.diff(dim=2).abs().sum() + h2.diff(dim=0).abs().sum()


@dataclass(frozen=True)
class Hlrtf:
    """Adam, one update a step. target: (C, H, W) on [0, 1]. slices: K. rank: r."""

    target: Tensor
    known: Tensor
    slices: int
    rank: int
    gamma: float
    length: int
    slope: float = SLOPE
    kind: Kind = "path"

    def init(self, *, rng: Generator) -> Fit:
        """A and B are uniform within 1 / sqrt(K), and so are H1 and H2, of linear layers with K inputs."""
        channels, height, width = self.target.shape
        k, r = self.slices, self.rank
        shapes = ((k, height, r), (k, r, width), (k, k), (channels, k))
        draws = (random.within(1 / math.sqrt(k), shape, rng=rng) for shape in shapes)
        return adam.begin([draw.to(self.target.device) for draw in draws])

    def step(self, state: Fit, *, rng: Generator) -> tuple[Fit, Info]:
        """One update; the picture shown is that before it."""
        loss, image, gradients = adam.descend(self.loss, state.parameters)
        after = adam.update(state, gradients, rate=RATE, weight_decay=WEIGHT_DECAY)
        return after, Info(values_to_signed(image), None, numbers={"loss": float(loss)})

    def loss(self, parameters: Tensors) -> tuple[Tensor, Tensor]:
        """The loss and the picture."""
        image = picture(parameters, self.slope)
        misfit = ((image - self.target) * self.known).square().mean()
        return misfit + self.gamma * roughness(parameters), image

    def planned(self, *, burn_in: int) -> Hlrtf:
        """The same method: only its last step counts."""
        return self

    def without_warm_up(self) -> Hlrtf:
        """The same method: every step costs the same."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Hlrtf:
    """The method for a problem; r is a share of the width."""
    channels, _, width = problem.y.shape
    return Hlrtf(
        values_to_unit(problem.y),
        problem.known,
        SLICES_PER_CHANNEL * channels,
        max(1, width // options.hlrtf_shrink),
        options.hlrtf_gamma,
        options.iterations,
    )
