"""Draw from Gaussians given by their precision, N(Q^-1 b, Q^-1), for many rows at once.

`draw_from_precision` factors Q: one batched Cholesky. Where Q is too large to form, perturb and solve: add noise of
covariance Q to b, then solve Q x = b with `conjugate_gradients`, which needs only products with Q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from ..errors import NumericalError
from ..transfer import double

TOLERANCE = 1e-4  # of the residual, relative to the right-hand side, in the preconditioner's norm
_MOST = 200  # iterations
_LOOK = 3  # iterations of a GPU between looks at the residual, each of which waits for it
_unseen: ContextVar[list[Tensor] | None] = ContextVar("unseen", default=None)


@contextmanager
def unseen() -> Iterator[list[Tensor]]:
    """Collect whether factorisations on a GPU failed, to look at all of them at once."""
    found: list[Tensor] = []
    token = _unseen.set(found)
    try:
        yield found
    finally:
        _unseen.reset(token)


def _failed(info: Tensor) -> bool:
    """Whether a factorisation failed; inside `unseen` that is left open on a GPU."""
    found = _unseen.get()
    if found is None or info.device.type == "cpu":
        return bool(info.any())
    found.append(info.any())
    return False


def draw_from_precision(
    precision: Tensor, linear: Tensor, noise: Tensor, which: Tensor | None = None, *, what: str
) -> Tensor:
    """Draw x ~ N(Q^-1 b, Q^-1) for a batch of precisions Q (n', S, S), b and standard normal noise (n, S).

    which (n,) says which Q each row has, when several share one. Q = C C^T gives x = C^-T (C^-1 b + e): mean
    and noise share the second solve. A float32 factor that breaks down is computed again in float64. If
    that fails too, the error names `what` was drawn.
    """
    factor, info = torch.linalg.cholesky_ex(precision)
    if _failed(info):
        factor = _cholesky_in_float64(precision, what)
    where, dtype = linear.device, linear.dtype
    linear, noise = linear.to(factor), noise.to(factor)
    if which is not None:
        factor = factor[which.to(factor.device)]
    half = torch.linalg.solve_triangular(factor, linear.unsqueeze(-1), upper=False) + noise.unsqueeze(-1)
    drawn: Tensor = torch.linalg.solve_triangular(factor.mT, half, upper=True).squeeze(-1)
    return drawn.to(where, dtype)


def _cholesky_in_float64(precision: Tensor, what: str) -> Tensor:
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(double(precision))
    if info.any():
        raise NumericalError(
            f"the precision of {what} is not positive definite",
            hint="this is a bug or an extreme input: report it with the run's JSON",
        )
    return factor


def conjugate_gradients(
    product: Callable[[Tensor], Tensor],
    linear: Tensor,
    inverse: Callable[[Tensor], Tensor],
    start: Tensor,
    *,
    tolerance: float = TOLERANCE,
    what: str,
) -> Tensor:
    """Solve Q x = b for all rows of b (n, S) at once, from `start` (n, S).

    product: x -> Q x. inverse: the preconditioner, r -> P^-1 r.
    """
    x, residual = start, linear - product(start)
    direction = z = inverse(residual)
    size = (residual * z).sum(1)  # (n,) |r|^2 in the norm of P^-1
    enough = tolerance**2 * (linear * inverse(linear)).sum(1)
    every = 1 if size.device.type == "cpu" else _LOOK
    for count in range(_MOST):
        if count % every == 0 and bool((size <= enough).all()):
            return x
        image = product(direction)
        step = size / (direction * image).sum(1).clamp_min(torch.finfo(size.dtype).tiny)
        x = x + step[:, None] * direction
        residual = residual - step[:, None] * image
        z = inverse(residual)
        before, size = size, (residual * z).sum(1)
        direction = z + (size / before.clamp_min(torch.finfo(size.dtype).tiny))[:, None] * direction
    raise NumericalError(
        f"the conjugate gradients of {what} did not converge in {_MOST} iterations",
        hint="draw smaller blocks: --block 25",
    )
