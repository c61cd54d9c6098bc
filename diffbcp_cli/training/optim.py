"""The optimizers: Muon for the inner convolutions, AdamW for everything else."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from ..priors.networks.natural import Natural
from .settings import TrainSettings

FILLER = "filler."
"""How the names of the filler's parameters begin."""

# the quintic of Jordan et al. (2024): five iterations bring every singular value into 0.7 to 1.2
_QUINTIC = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5
_ADAM_RMS = 0.2  # the usual rms of an AdamW update, in units of its learning rate (Liu et al., 2025)


class Muon(torch.optim.Optimizer):
    """W <- (1 - lr decay) W - lr 0.2 sqrt(max(m, n)) U V^T, U S V^T the momentum of the gradient, (m, n).

    A convolution's weight (out, in, k, k) is taken as a matrix (out, in k k). The factor gives the update the rms of
    an AdamW update, so one learning rate serves both. All updates have the same size: without decay the weights can
    grow, and then each update counts for less.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        lr: float,
        *,
        momentum: float = 0.95,
        decay: float = 0.0,
    ) -> None:
        super().__init__(list(parameters), {"lr": lr, "momentum": momentum, "decay": decay})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update every parameter from its gradient."""
        for group in self.param_groups:
            lr, keep = group["lr"], group["momentum"]
            for weight in group["params"]:
                state = self.state[weight]
                if not state:
                    state["momentum"] = torch.zeros_like(weight)
                momentum = state["momentum"].mul_(keep).add_(weight.grad)
                ahead = torch.add(weight.grad, momentum, alpha=keep)  # Nesterov momentum
                moves = _moves(ahead)
                if moves is None:
                    continue
                matrix = ahead.reshape(len(weight), -1)  # (m, n)
                step = orthogonal(matrix).reshape(weight.shape)
                weight.mul_(1 - lr * group["decay"] * moves)
                weight.add_(step, alpha=-lr * _ADAM_RMS * math.sqrt(max(matrix.shape)))


def _moves(ahead: Tensor) -> Tensor | float | None:
    """1 if there is a gradient, else None: there is no direction to normalize. On a GPU 1 or 0, without a look at it.

    The update of a gradient of zeros is zero, so only the decay must know.
    """
    if ahead.device.type == "cpu":
        return 1.0 if bool(ahead.any()) else None
    return ahead.any().to(ahead.dtype)


def orthogonal(matrix: Tensor) -> Tensor:
    """U V^T of a matrix U S V^T (m, n), approximately: singular values end between 0.7 and 1.2.

    The iteration is x <- (a + b G + c G^2) x with G = x x^T. Every factor is a polynomial of the first G, so they
    are collected in one small matrix, and x is multiplied once.
    """
    tall = matrix.shape[0] > matrix.shape[1]
    x: Tensor = matrix.T if tall else matrix
    x = x / (torch.linalg.vector_norm(x) + 1e-7)
    a, b, c = _QUINTIC
    gram = x @ x.T  # (m, m), m <= n
    unit = torch.eye(len(gram), dtype=gram.dtype, device=gram.device)
    collected = unit
    for _ in range(_ITERATIONS):
        factor = a * unit + (b * gram + c * gram @ gram)
        collected = factor @ collected
        gram = factor @ gram @ factor
    x = collected @ x
    return x.T if tall else x


def make_optimizers(network: Natural, settings: TrainSettings) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the inner convolutions; AdamW for the first and last one, biases and the noise embedding."""
    inner: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in network.named_parameters():
        is_inner = parameter.ndim == 4 and not name.removeprefix(FILLER).startswith(("enter", "leave"))
        (inner if is_inner else rest).append(parameter)
    rate = settings.learning_rate
    return (
        Muon(inner, lr=rate, decay=settings.weight_decay),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.99), weight_decay=0.0),
    )
