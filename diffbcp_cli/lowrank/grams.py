"""Masked Gram matrices: H_g = sum_k m_gk q_k q_k^T for every row g of a weight matrix at once.

The weights are m = tau w o + coupling c. Entry weights w, observed entries o and the weights c of an entry in the
coupling of its pixel are fixed; the two scalars change at every step. A `GramPlan` prepares what is fixed, once:

- many rows have the same weights (nothing is missing): one Gram for each distinct row (`shared`);
- few entries observed: gather them into padded batches and multiply (`gather`);
- few entries missing: the Gram of all entries less that of the missing ones (`complement`);
- in between: one matrix product with the pairwise products of the columns of q (`dense`).

A Gram is symmetric; "packed" means its lower triangle, row by row, T = S (S + 1) / 2 numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

Strategy = Literal["shared", "gather", "complement", "dense"]

_GATHER_BELOW = 0.12  # share of entries to gather above which one dense product is faster (measured on CPUs)


@dataclass(frozen=True)
class GramPlan:
    """How to form the Grams of the G rows of (w, o, c), all (G, K).

    base, base_of:      (B, K) distinct rows of c, and which of them each row of `value` has.
    whole, whole_of:    (W, K) distinct rows of w, and which of them each row has; `complement` only.
    value:              (G', K) w o, distinct rows only for `shared`; (G, 0) where columns are gathered.
    value_of, ordered:  (G,) which row of `value` each row has, and the rows sorted by it; `shared` only.
    ends:               where the rows of each row of `value` begin and end in `ordered`; `shared` only.
    index, root:        (G, n) gathered columns and the square root of their weights, zero on padding.
    """

    strategy: Strategy
    base: Tensor
    base_of: Tensor
    value: Tensor
    value_of: Tensor | None = None
    ordered: Tensor | None = None
    ends: tuple[int, ...] = ()
    index: Tensor | None = None
    root: Tensor | None = None
    whole: Tensor | None = None
    whole_of: Tensor | None = None

    def to(self, device: torch.device) -> GramPlan:
        """The same plan on a device."""
        values = {part.name: getattr(self, part.name) for part in fields(self)}
        moved = {name: part.to(device) for name, part in values.items() if isinstance(part, Tensor)}
        return GramPlan(**{**values, **moved})


def plan(
    weight: Tensor, observed: Tensor, strategy: Strategy | None = None, *, pull: Tensor | None = None
) -> GramPlan:
    """Prepare the Grams of the rows of weight, observed (G, K); choose the strategy by its cost.

    pull: the weights c in the coupling, those of the entries if not given. All of it is computed on the host: not
    every device sorts rows as rows.
    """
    pull = weight if pull is None else pull
    return _plan(weight.cpu(), observed.cpu(), pull.cpu(), strategy).to(weight.device)


def _plan(weight: Tensor, observed: Tensor, pull: Tensor, strategy: Strategy | None) -> GramPlan:
    base, base_of = torch.unique(pull, dim=0, return_inverse=True)
    value = weight * observed
    distinct, distinct_of = torch.unique(torch.cat([value, pull], 1), dim=0, return_inverse=True)
    if strategy is None:
        strategy = _cheapest(value, weight, len(distinct))
    if strategy == "shared":
        distinct_base = torch.empty(len(distinct), dtype=torch.long)
        distinct_base[distinct_of] = base_of
        rows = distinct[:, : weight.shape[1]].contiguous()
        counts = torch.bincount(distinct_of, minlength=len(distinct)).tolist()
        ordered, ends = distinct_of.argsort(stable=True), tuple(accumulate(counts, initial=0))
        return GramPlan(strategy, base, distinct_base, rows, distinct_of, ordered, ends)
    if strategy == "dense":
        return GramPlan(strategy, base, base_of, value)
    if strategy == "gather":
        index, root = _gather_index(value)
        return GramPlan(strategy, base, base_of, value[:, :0].clone(), index=index, root=root)
    index, root = _gather_index(weight - value)
    whole, of = torch.unique(weight, dim=0, return_inverse=True)
    none = value[:, :0].clone()
    return GramPlan(strategy, base, base_of, none, index=index, root=root, whole=whole, whole_of=of)


def _cheapest(value: Tensor, weight: Tensor, distinct: int) -> Strategy:
    if distinct * 4 <= len(weight):
        return "shared"
    kept = int((value != 0).sum(1).max())
    missing = int((weight != value).sum(1).max())
    if kept <= _GATHER_BELOW * weight.shape[1]:
        return "gather"
    return "complement" if missing <= _GATHER_BELOW * weight.shape[1] else "dense"


def _gather_index(value: Tensor) -> tuple[Tensor, Tensor]:
    """Columns with weight in each row, padded to the longest row, and the square root of the weights."""
    used = value != 0
    longest = max(1, int(used.sum(1).max()))
    index = used.to(torch.int8).argsort(dim=1, descending=True, stable=True)[:, :longest].contiguous()
    return index, value.gather(1, index).sqrt()


@dataclass(frozen=True)
class Grams:
    """The Grams of a plan at the current tau and coupling; at most `budget` bytes of them at a time."""

    plan: GramPlan
    tau: float
    coupling: float
    budget: int

    def packed(self, q: Tensor) -> Tensor:
        """H_g = sum_k (tau w o + coupling c)_gk q_k q_k^T for all rows, packed, q (K, S) -> (G, T)."""
        common = self._common(q)
        parts = [self._part(q, part, common, packed=True) for part in self._parts(q)]
        values = torch.cat(parts) if len(parts) > 1 else parts[0]
        return values if self.plan.value_of is None else values[self.plan.value_of]

    def batches(self, q: Tensor) -> Iterator[tuple[Tensor | slice, Tensor, Tensor | None]]:
        """The same, a batch at a time: rows (n,), Grams (n', S, S), which Gram each row has (None: n' = n)."""
        plan, common = self.plan, self._common(q)
        for part in self._parts(q):
            gram = self._part(q, part, common, packed=False)
            if plan.value_of is None or plan.ordered is None:
                yield part, gram, None
            else:
                rows = plan.ordered[plan.ends[part.start] : plan.ends[part.stop]]
                yield rows, gram, plan.value_of[rows] - part.start

    def _parts(self, q: Tensor) -> Iterator[slice]:
        size, rows = q.shape[1], len(self.plan.value)
        gathered = self.plan.index.shape[1] if self.plan.index is not None else 0
        step = max(1, self.budget // (q.element_size() * size * (2 * size + gathered)))
        return (slice(start, min(start + step, rows)) for start in range(0, rows, step))

    def _common(self, q: Tensor) -> list[tuple[Tensor, Tensor]]:
        """What rows share where columns are gathered: scaled packed Grams, and which of them each row has."""
        plan, found = self.plan, []
        if plan.index is not None and self.coupling:
            found.append((self.coupling * dense(plan.base, q, self.budget), plan.base_of))
        if plan.whole is not None and plan.whole_of is not None:
            found.append((self.tau * dense(plan.whole, q, self.budget), plan.whole_of))
        return found

    def _part(self, q: Tensor, part: slice, common: list[tuple[Tensor, Tensor]], *, packed: bool) -> Tensor:
        plan, size = self.plan, q.shape[1]
        if plan.index is None or plan.root is None:
            weights = self.tau * plan.value[part]
            if self.coupling:
                weights = weights + self.coupling * plan.base[plan.base_of[part]]
            gram = dense(weights, q, self.budget)
            return gram if packed else unpack(gram, size)
        picked = q[plan.index[part]] * plan.root[part].unsqueeze(-1)  # (n, longest, S)
        gram = torch.bmm(picked.mT, picked)
        if packed:
            gram = pack(gram)
        gram.mul_(self.tau if plan.strategy == "gather" else -self.tau)
        for shared, of in common:
            gram = gram + (shared if packed else unpack(shared, size))[of[part]]
        return gram


@lru_cache(maxsize=32)
def _triangle(size: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and columns of the lower triangle, and where each entry of the square is in it, (size size,)."""
    low, high = torch.tril_indices(size, size)
    where = torch.empty(size, size, dtype=torch.long)
    where[low, high] = where[high, low] = torch.arange(len(low))
    return low.to(device), high.to(device), where.flatten().to(device)


def dense(weights: Tensor, q: Tensor, budget: int) -> Tensor:
    """sum_k weights_gk q_k q_k^T, packed: weights (G, K), q (K, S) -> (G, T), one matrix product."""
    low, high, _ = _triangle(q.shape[1], q.device)
    columns = q.T.contiguous()
    step = max(1, budget // (q.element_size() * len(low)))
    total = weights.new_zeros(len(weights), len(low))
    for start in range(0, len(q), step):
        some = columns[:, start : start + step]
        total.addmm_(weights[:, start : start + step], (some[low] * some[high]).T)
    return total


def pack(gram: Tensor) -> Tensor:
    """Lower triangles, (n, S, S) -> (n, T)."""
    low, high, _ = _triangle(gram.shape[-1], gram.device)
    return gram[:, low, high]


def unpack(packed: Tensor, size: int) -> Tensor:
    """Symmetric matrices from their lower triangles, (n, T) -> (n, S, S)."""
    return packed.index_select(1, _triangle(size, packed.device)[2]).view(-1, size, size)


def packed_squares(rows: Tensor) -> Tensor:
    """Packed outer products k k^T of the rows k, (n, S) -> (n, T)."""
    low, high, _ = _triangle(rows.shape[1], rows.device)
    return rows[:, low] * rows[:, high]
