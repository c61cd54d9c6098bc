"""Draw from Gaussians given by their precision, N(Q^-1 b, Q^-1), for many rows at once.

`draw_from_precision` factors Q: one batched Cholesky. Where Q is too large to form, perturb and solve: add noise of
covariance Q to b, then solve Q x = b with `conjugate_gradients`, which needs only products with Q.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Generator, Tensor

from ..errors import NumericalError
from ..transfer import double, fetch

T = TypeVar("T")
Searches = dict[str, int]
"""How many iterations conjugate gradients needed the last time, by what they draw."""
TOLERANCE = 1e-4  # of the residual, relative to the right-hand side, in the preconditioner's norm
_MOST = 200  # iterations
_LOOK = 3  # iterations of a GPU between looks at the residual, each of which waits for it
_SPARE = 2  # iterations beyond those that were needed the last time, if none looks


@dataclass(frozen=True)
class Unseen:
    """What is left open on a GPU: whether factorisations and searches failed, and how long those were.

    planned: iterations of the searches that are not looked at.
    """

    planned: Searches = field(default_factory=dict)
    failed: list[Tensor] = field(default_factory=list)
    needed: dict[str, list[Tensor]] = field(default_factory=dict)


_unseen: ContextVar[Unseen | None] = ContextVar("unseen", default=None)


@contextmanager
def unseen(planned: Searches | None = None) -> Iterator[Unseen]:
    """Collect whether factorisations and searches on a GPU failed, to look at all of them at once."""
    found = Unseen({} if planned is None else planned)
    token = _unseen.set(found)
    try:
        yield found
    finally:
        _unseen.reset(token)


def on_trust(
    draw: Callable[[], tuple[T, Sequence[Tensor]]], searches: Searches, *, rng: Generator
) -> tuple[T, list[Tensor]]:
    """Draw, and fetch what the host must know of it in one copy; if something failed, draw again and look at each.

    draw: returns what it drew, and what the host must know. searches: of the last time, and then of this one; they
    change no draw. The numbers come back in float64.
    """
    before = rng.get_state()
    with unseen(searches) as left_open:
        drawn, numbers = draw()
    flags = [torch.stack(left_open.failed)] if left_open.failed else []
    needed = [torch.stack(counts).amax() for counts in left_open.needed.values()]
    found = fetch(*numbers, *needed, *flags)
    count = len(numbers)
    if flags and bool(found[-1].any()):
        rng.set_state(before)
        searches.clear()
        drawn, numbers = draw()
        return drawn, fetch(*numbers)
    searches.update((what, int(most)) for what, most in zip(left_open.needed, found[count:], strict=False))
    return drawn, found[:count]


def _failed(info: Tensor) -> bool:
    """Whether a factorisation failed; inside `unseen` that is left open on a GPU."""
    found = _unseen.get()
    if found is None or info.device.type == "cpu":
        return bool(info.any())
    found.failed.append(info.any())
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
        factor = cholesky(double(precision), what)
    where, dtype = linear.device, linear.dtype
    linear, noise = linear.to(factor), noise.to(factor)
    if which is not None:
        factor = factor[which.to(factor.device)]
    half = torch.linalg.solve_triangular(factor, linear.unsqueeze(-1), upper=False) + noise.unsqueeze(-1)
    drawn: Tensor = torch.linalg.solve_triangular(factor.mT, half, upper=True).squeeze(-1)
    return drawn.to(where, dtype)


def cholesky(precision: Tensor, what: str) -> Tensor:
    """The Cholesky factor of precisions (..., S, S); the error names `what` is drawn with it."""
    factor: Tensor
    factor, info = torch.linalg.cholesky_ex(precision)
    if _failed(info):
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

    product: x -> Q x. inverse: the preconditioner, r -> P^-1 r. On a GPU x stays when all rows are there, so it does
    not matter when that is looked at; inside `unseen`, as many iterations as the last time are taken without a look.
    """
    on_gpu = start.device.type != "cpu"
    left_open = _unseen.get() if on_gpu else None
    planned = None if left_open is None else left_open.planned.get(what)
    x, residual = start, linear - product(start)
    direction = z = inverse(residual)
    size = (residual * z).sum(1)  # (n,) |r|^2 in the norm of P^-1
    enough = tolerance**2 * (linear * inverse(linear)).sum(1)
    tiny, moves, every = torch.finfo(size.dtype).tiny, list[Tensor](), _LOOK if on_gpu else 1
    for count in range(_MOST if planned is None else planned + _SPARE):
        more = ~(size <= enough).all()
        if planned is None and count % every == 0 and not bool(more):
            return _needed(x, what, moves)
        moves.append(more)
        image = product(direction)
        step = size / (direction * image).sum(1).clamp_min(tiny)
        step = step * more if on_gpu else step
        x = x + step[:, None] * direction
        residual = residual - step[:, None] * image
        z = inverse(residual)
        before, size = size, (residual * z).sum(1)
        direction = z + (size / before.clamp_min(tiny))[:, None] * direction
    if left_open is not None and planned is not None:
        left_open.failed.append(~(size <= enough).all())
        return _needed(x, what, moves)
    raise NumericalError(
        f"the conjugate gradients of {what} did not converge in {_MOST} iterations",
        hint="draw smaller blocks: --block 25",
    )


def _needed(x: Tensor, what: str, moves: list[Tensor]) -> Tensor:
    """x, after it has been noted in how many iterations something moved."""
    left_open = _unseen.get() if x.device.type != "cpu" else None
    if left_open is not None:
        count = torch.stack(moves).sum() if moves else x.new_zeros(())
        left_open.needed.setdefault(what, []).append(count.to(x.dtype))
    return x
