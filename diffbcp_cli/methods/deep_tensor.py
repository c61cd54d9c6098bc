"""DeepTensor: a low-rank product whose spatial factor is the output of an untrained network (Saragadam et al. 2022).

Assumes: a mask; the noise level is not used. What the network is slow to learn counts as noise.

The picture on [0, 1] is x = sum_r v_cr u_r: u (r, H, W) is what a convolutional network with skip connections makes
of r trainable pictures with fresh noise added, v (C, r) is free. All of them are fitted by Adam, from a random
start, to the least mean (x - y)^2 over known entries. Of these, 2 % are held out. The result is the running mean of
x over about 100 iterations, at the iteration at which it was nearest to what is held out.

Cost: a forward and a backward pass of the network an iteration, which grows with the square of --deep-channels. Half
an hour and more on a processor with 128 channels. A GPU is of use.

Reference: Saragadam, Balestriero, Veeraraghavan, Baraniuk, DeepTensor: Low-Rank Tensor Decomposition with Deep
Network Priors, 2022.

Ours differs: the published code has neither masks nor colour pictures, and its network for the spectral factor needs
more than three bands, so v is free; r is 10; the published code returns the iterate of least training loss, which
fits noise. With r of 3 or more nothing limits the rank of a colour picture: it is a deep image prior with mixed
colours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

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
from .skip_net import SkipNet, scales_for

RANK = 10
RATE = 1e-3
INPUT_MOST, INPUT_NOISE = (
    0.1,
    1 / 30,
)  # of the pictures that the network takes: their range, and the fresh noise
AVERAGE = 0.99  # what of the running mean is kept
HELD_OUT = 0.02  # of the known entries
PATIENCE = 500  # iterations without a better mean after which the path stands still


@dataclass(frozen=True)
class DeepTensorState:
    """The fit, the running mean of its pictures, and the best such mean, (C, H, W) on [0, 1].

    error: root mean square of the best on what is held out. waited: iterations since.
    """

    fit: Fit
    mean: Tensor
    best: Tensor
    error: float = math.inf
    waited: int = 0


STATE_CLASSES = (DeepTensorState, Fit)


@dataclass(frozen=True)
class DeepTensor:
    """Adam, one update a step.

    target: (C, H, W) on [0, 1]. shown, held_out: which entries are fitted, and which ones judge the mean.
    """

    target: Tensor
    shown: Tensor
    held_out: Tensor
    net: SkipNet
    length: int
    patience: int = PATIENCE
    kind: Kind = "path"

    def init(self, *, rng: Generator) -> DeepTensorState:
        """Random factors; v ~ N(0, 1/r). The fit holds v, the pictures for the network, and its parameters."""
        channels, height, width = self.target.shape
        rank = self.net.outputs
        v = random.normal((channels, rank), rng=rng) / math.sqrt(rank)
        inputs = INPUT_MOST * random.uniform32((self.net.inputs, height, width), rng=rng)
        start = [one.to(self.target.device) for one in (v, inputs, *self.net.parameters(rng=rng))]
        zeros = torch.zeros_like(self.target)
        return DeepTensorState(adam.begin(start), zeros, zeros)

    def step(self, state: DeepTensorState, *, rng: Generator) -> tuple[DeepTensorState, Info]:
        """One update, unless a better mean has been waited for too long."""
        if state.waited < self.patience:
            state = self._update(state, rng)
        return state, Info(values_to_signed(state.best), None, numbers={"held_out": state.error})

    def _update(self, state: DeepTensorState, rng: Generator) -> DeepTensorState:
        noise = INPUT_NOISE * random.normal_like(state.fit.parameters[1], rng=rng)

        def loss(parameters: Tensors) -> tuple[Tensor, Tensor]:
            image = self.picture(parameters, noise)
            return ((image - self.target) * self.shown).square().sum() / self.shown.sum(), image

        _, image, gradients = adam.descend(loss, state.fit.parameters)
        first = state.fit.updates == 0
        mean = image if first else torch.lerp(image, state.mean, AVERAGE)
        error = float((mean - self.target)[self.held_out].square().mean().sqrt())
        after = replace(state, fit=adam.update(state.fit, gradients, rate=RATE), mean=mean)
        if error < state.error:
            return replace(after, best=mean, error=error, waited=0)
        return replace(after, waited=state.waited + 1)

    def picture(self, parameters: Tensors, noise: Tensor) -> Tensor:
        """x = v u, (C, H, W) on [0, 1]; noise: like the network's input."""
        v, inputs, *weights = parameters
        u = self.net(inputs + noise, tuple(weights))
        return torch.einsum("cr,rhw->chw", v, u)

    def planned(self, *, burn_in: int) -> DeepTensor:
        """The same method: only its last step counts."""
        return self

    def without_warm_up(self) -> DeepTensor:
        """The same method: every step costs the same."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> DeepTensor:
    """The method for a problem; what is held out is drawn by the photograph's own generator."""
    known = problem.known
    places = known.flatten().nonzero().flatten()
    rng = seeds.generator("held out", problem.device)
    chosen = places[random.permutation(len(places), rng=rng)[: math.ceil(HELD_OUT * len(places))]]
    flat = torch.zeros(known.numel(), dtype=torch.bool, device=known.device)
    flat[chosen] = True
    held_out = flat.reshape(known.shape)
    net = SkipNet(RANK, RANK, options.deep_channels, scales_for(*known.shape[1:]))
    return DeepTensor(values_to_unit(problem.y), known & ~held_out, held_out, net, options.iterations)
