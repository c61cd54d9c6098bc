"""CP algebra on matrices: a group of modes is one axis, so a tensor is a (U, V) matrix."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import NumericalError


def khatri_rao(factors: Sequence[Tensor]) -> Tensor:
    """Multiply factor rows over a group of modes, [(I1, R), ..., (Im, R)] -> (I1 ... Im, R), last mode fastest."""
    rows = factors[0]
    for factor in factors[1:]:
        rows = (rows[:, None, :] * factor[None, :, :]).flatten(0, 1)
    return rows


def contract(values: Tensor, rows: Sequence[Tensor], keep: int | None) -> Tensor:
    """Multiply values over a group of modes with per-mode rows and sum every mode but `keep`.

    values (I1 ... Im, T), rows [(I1, T), ..., (Im, T)] -> (I_keep, T), or (1, T) when keep is None.
    """
    values = values.reshape([len(r) for r in rows] + [values.shape[-1]])
    for mode in reversed(range(len(rows))):
        if mode != keep:
            view = [1] * (values.ndim - 1) + [-1]
            view[mode] = len(rows[mode])
            values = (values * rows[mode].view(view)).sum(mode, keepdim=True)
    return values.reshape(-1, values.shape[-1])


def draw_from_precision(
    precision: Tensor, linear: Tensor, noise: Tensor, which: Tensor | None = None, *, what: str
) -> Tensor:
    """Draw x ~ N(Q^-1 b, Q^-1) for a batch of precisions Q (n', S, S), b and standard noise (n, S).

    which (n,) says which Q each row has, when several share one. Q = C C^T gives x = C^-T (C^-1 b + e): mean
    and noise share the second solve. A float32 factor that breaks down is computed again in float64; if
    that fails too, it is an error that says where.
    """
    factor, info = torch.linalg.cholesky_ex(precision)
    if info.any():
        factor, info = torch.linalg.cholesky_ex(precision.double())
        if info.any():
            raise NumericalError(
                f"the precision of {what} is not positive definite",
                hint="this is a bug or an extreme input: report it with the run's JSON",
            )
    if which is not None:
        factor = factor[which]
    half = torch.linalg.solve_triangular(factor, linear.to(factor.dtype).unsqueeze(-1), upper=False)
    half = half + noise.to(factor.dtype).unsqueeze(-1)
    drawn: Tensor = torch.linalg.solve_triangular(factor.mT, half, upper=True).squeeze(-1)
    return drawn.to(linear.dtype)
