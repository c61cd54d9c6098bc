"""CP algebra on matrices: a group of modes is one axis, so a tensor is a (U, V) matrix."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


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
