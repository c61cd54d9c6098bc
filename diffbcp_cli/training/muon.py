"""Muon: momentum for weight matrices whose every step moves all directions by the same amount."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

# the quintic of Jordan et al. (2024): five rounds bring all singular values to within 0.7 .. 1.2
_QUINTIC = (3.4445, -4.7750, 2.0315)
_ROUNDS = 5
_LIKE_ADAM = 0.2  # the usual rms of a step of AdamW, in units of its learning rate (Liu et al., 2025)


class Muon(torch.optim.Optimizer):
    """W <- W - lr 0.2 sqrt(max(m, n)) U V^T, where U S V^T is the momentum of the gradient, (m, n).

    A kernel (out, in, k, k) counts as a matrix (out, in k k). The factor gives steps the rms that AdamW's have,
    so that one learning rate serves both. dtype: of the matrix products.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        *,
        momentum: float = 0.95,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(list(parameters), {"lr": lr, "momentum": momentum})
        self.dtype = dtype

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Take one step along the gradients that are there."""
        for group in self.param_groups:
            lr, keep = group["lr"], group["momentum"]
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["momentum"] = torch.zeros_like(weight)
                momentum = state["momentum"].mul_(keep).add_(weight.grad)
                ahead = torch.add(weight.grad, momentum, alpha=keep)  # Nesterov's look ahead
                if not bool(ahead.any()):  # nothing has been learned about it
                    continue
                matrix = ahead.reshape(len(weight), -1)  # (m, n)
                step = orthogonal(matrix.to(self.dtype)).to(weight.dtype).reshape(weight.shape)
                weight.add_(step, alpha=-lr * _LIKE_ADAM * math.sqrt(max(matrix.shape)))


def orthogonal(matrix: Tensor) -> Tensor:
    """U V^T of a matrix U S V^T (m, n), nearly: its singular values end between 0.7 and 1.2."""
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if tall else matrix
    x = x / (x.norm() + 1e-7)
    a, b, c = _QUINTIC
    for _ in range(_ROUNDS):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x
