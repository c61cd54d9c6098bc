"""Adam without a hidden state: for methods that fit a model to one picture, each step one update.

A fit is a frozen dataclass of tensors, so a run resumes to the same bits. Gradients are taken inside any `no_grad`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FIRST_DECAY, SECOND_DECAY, TINY = 0.9, 0.999, 1e-8

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True)
class Fit:
    """Parameters, and running means of their gradients and of the squared ones, of the same shapes; updates done."""

    parameters: Tensors
    first: Tensors
    second: Tensors
    updates: int = 0


def begin(parameters: Sequence[Tensor]) -> Fit:
    """A fit before its first update."""
    zeros = tuple(torch.zeros_like(one) for one in parameters)
    return Fit(tuple(parameters), zeros, zeros)


def update(fit: Fit, gradients: Sequence[Tensor], *, rate: float, weight_decay: float = 0.0) -> Fit:
    """p - rate m / (sqrt(v) + tiny), with m and v without their bias towards zero; Kingma and Ba 2015.

    weight_decay: times p is added to the gradient of p.
    """
    updates = fit.updates + 1
    scale, root = rate / (1 - FIRST_DECAY**updates), math.sqrt(1 - SECOND_DECAY**updates)
    after: list[Tensors] = []
    for p, g, m, v in zip(fit.parameters, gradients, fit.first, fit.second, strict=True):
        g = g + weight_decay * p if weight_decay else g
        m = torch.lerp(m, g, 1 - FIRST_DECAY)
        v = torch.addcmul(SECOND_DECAY * v, g, g, value=1 - SECOND_DECAY)
        after.append((torch.addcdiv(p, m, (v.sqrt() / root).add_(TINY), value=-scale), m, v))
    parameters, first, second = zip(*after, strict=True)
    return Fit(parameters, first, second, updates)


def descend(loss: Callable[[Tensors], tuple[Tensor, Tensor]], at: Tensors) -> tuple[Tensor, Tensor, Tensors]:
    """The loss at some parameters and what it was computed from, both detached, and its gradients."""
    with torch.enable_grad():
        leaves = tuple(one.detach().requires_grad_() for one in at)
        value, image = loss(leaves)
        gradients = torch.autograd.grad(value, leaves)
    return value.detach(), image.detach(), gradients
