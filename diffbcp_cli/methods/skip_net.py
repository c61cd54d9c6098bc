"""The network whose output is a picture: down and up through some scales with skip connections, no training set.

A unit is a convolution, batch norm and a leaky ReLU. At each scale the way leads down by a 3 x 3 unit of stride 2
and a second 3 x 3 unit, through the next scale, and up again by bilinear interpolation; beside it is a 1 x 1 unit to
a few channels. Both are joined, normalised, and pass a 3 x 3 and a 1 x 1 unit. A last 1 x 1 convolution makes the
output (Ulyanov, Vedaldi, Lempitsky 2018).

Parameters are a plain tuple of tensors, drawn from a generator and read in the order in which they are needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.nn import functional

from .. import random

SLOPE = 0.2  # of the leaky ReLU below zero
SKIPPED = 4  # channels of a skip connection
MOST_SCALES = 5
SMALLEST = 2  # side of the coarsest scale, which reflection at the border needs


@dataclass(frozen=True)
class SkipNet:
    """From (inputs, H, W) to (outputs, H, W). channels: of every unit but the skip connections. scales: how many."""

    inputs: int
    outputs: int
    channels: int
    scales: int

    def parameters(self, *, rng: Generator) -> tuple[Tensor, ...]:
        """Weights and biases uniform within 1 / sqrt(inputs of a pixel); gains 1, shifts 0."""
        found: list[Tensor] = []
        c = self.channels

        def convolution(out: int, given: int, side: int) -> None:
            bound = 1 / math.sqrt(given * side * side)
            for shape in ((out, given, side, side), (out,)):
                found.append(random.within(bound, shape, rng=rng))

        def norm(count: int) -> None:
            found.extend((torch.ones(count), torch.zeros(count)))

        def unit(out: int, given: int, side: int) -> None:
            convolution(out, given, side)
            norm(out)

        for depth in range(self.scales):
            given = c if depth else self.inputs
            unit(SKIPPED, given, 1)
            unit(c, given, 3)
            unit(c, c, 3)
        for _ in range(self.scales):
            norm(SKIPPED + c)
            unit(c, SKIPPED + c, 3)
            unit(c, c, 1)
        convolution(self.outputs, c if self.scales else self.inputs, 1)
        return tuple(found)

    def __call__(self, x: Tensor, parameters: tuple[Tensor, ...]) -> Tensor:
        """(inputs, H, W) -> (outputs, H, W)."""
        rest, x, skipped = iter(parameters), x[None], []
        for _ in range(self.scales):
            skipped.append(_unit(x, rest))
            x = _unit(_unit(x, rest, stride=2), rest)
        for beside in reversed(skipped):
            x = functional.interpolate(x, scale_factor=2, mode="bilinear")
            x = torch.cat([beside, _cropped(x, beside.shape[2], beside.shape[3])], 1)
            x = _unit(_unit(_norm(x, rest), rest), rest)
        return functional.conv2d(x, next(rest), next(rest))[0]


def scales_for(height: int, width: int) -> int:
    """As many scales as the picture has room for."""
    return max(0, min(MOST_SCALES, min(height, width).bit_length() - SMALLEST.bit_length()))


def _unit(x: Tensor, rest: Iterator[Tensor], stride: int = 1) -> Tensor:
    weight, bias = next(rest), next(rest)
    border = weight.shape[2] // 2
    if border:
        x = functional.pad(x, (border,) * 4, mode="reflect")
    return functional.leaky_relu(_norm(functional.conv2d(x, weight, bias, stride), rest), SLOPE)


def _norm(x: Tensor, rest: Iterator[Tensor]) -> Tensor:
    """Batch norm by the picture's own mean and variance."""
    return functional.batch_norm(x, None, None, next(rest), next(rest), training=True)


def _cropped(x: Tensor, height: int, width: int) -> Tensor:
    """The middle of x."""
    top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
    return x[:, :, top : top + height, left : left + width]
