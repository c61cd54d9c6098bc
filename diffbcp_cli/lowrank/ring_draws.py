"""Draws of the cores and weights of a tensor ring, from their exact conditionals.

Given all else, X is linear in a core, and in the weights of a bond: X = F(x) Q^T, with F(x) a group's rows and Q
those of the other group. With m_j = w_j (tau o_j + rho^-2) and the target t_j = w_j (tau o_j y_j + rho^-2 z_j), the
conditional is N(P^-1 b, P^-1) with P = diag(ridge) + sum_j m_j f_j f_j^T, b = sum_j t_j f_j.

A product with P for all of x is two matrix products around the mask, whatever the size of the core. So x is drawn by
perturb-and-solve, with conjugate gradients, as `cp_cg` does for CP. The only core of a group has a conditional for
each of its rows, and is drawn as the only factor of a group of CP: in blocks, by Cholesky.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import fetch, send
from .cp_blocks import draw_only
from .grams import Grams
from .ring import RingState, Side
from .solve import cholesky, conjugate_gradients

Map = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Seen:
    """What a group sees: m and t, both (G, K) with G its rows, and the rows q (K, s, e) of the other group."""

    precision: Tensor
    target: Tensor
    q: Tensor

    @property
    def gram(self) -> Tensor:
        """sum_k q_k q_k^T, (s, e, s, e)."""
        flat = self.q.flatten(1)
        return (flat.T @ flat).view(*self.q.shape[1:], *self.q.shape[1:])


def draw_linear(
    seen: Seen,
    start: Tensor,
    ridge: Tensor,
    forward: Map,
    adjoint: Map,
    inverse: Map,
    what: str,
    rng: Generator,
) -> Tensor:
    """Draw x (n, S) ~ N(P^-1 b, P^-1), the search starting at `start`.

    ridge: (S,) the prior's precision. forward: F, (n, S) -> (G, s e). adjoint: its transpose. inverse: an
    approximation of P^-1.
    """
    q = seen.q.flatten(1)
    noise = random.normal(tuple(seen.precision.shape), rng=rng).to(q).mul_(seen.precision.sqrt())
    linear = adjoint(noise.add_(seen.target) @ q)
    linear = linear + ridge.sqrt() * random.normal(tuple(start.shape), rng=rng).to(q)

    def product(x: Tensor) -> Tensor:
        entries = (forward(x) @ q.T).mul_(seen.precision)
        return adjoint(entries @ q) + ridge * x

    return conjugate_gradients(product, linear, inverse, start, what=what)


def draw_core(side: Side, n: int, seen: Seen, what: str, rng: Generator) -> Tensor:
    """Draw core n of a group, (R_{n-1}, I_n, R_n); each of its I_n slices has a conditional of its own."""
    core, before, after = side.cores[n], side.before(n), side.after(n)
    first, rows, last = core.shape
    (j, s, _), (k, _, e) = before.shape, after.shape

    def forward(x: Tensor) -> Tensor:
        inner = torch.einsum("jsp,ipq->jisq", before, x.view(rows, first, last))
        return torch.einsum("jisq,kqe->jikse", inner, after).reshape(-1, s * e)

    def adjoint(g: Tensor) -> Tensor:
        inner = torch.einsum("jikse,kqe->jisq", g.view(j, rows, k, s, e), after)
        return torch.einsum("jisq,jsp->ipq", inner, before).reshape(rows, first * last)

    means = seen.precision.view(j, rows, k, -1).mean((0, 2, 3))
    inverse = _core_preconditioner(before, after, seen.gram, means)
    start = core.movedim(1, 0).reshape(rows, -1)
    drawn = draw_linear(seen, start, core.new_ones(first * last), forward, adjoint, inverse, what, rng)
    return drawn.view(rows, first, last).movedim(0, 1).contiguous()


def _core_preconditioner(before: Tensor, after: Tensor, gram: Tensor, means: Tensor) -> Map:
    """The map r (I, p q) -> (1 + mean(m_i) G)^-1 r, with G the Gram of all entries; one basis for all rows.

    G is a Kronecker product if the group starts with a bond of size 1, as that of a train does. The host
    decomposes: a GPU is slow at it, and would be waited for as well.
    """
    beyond = torch.einsum("kqstf,krf->qsrt", torch.einsum("kqe,setf->kqstf", after, gram), after).double()
    own = torch.einsum("jsp,jto->spto", before, before).double()
    if own.shape[0] == 1 and beyond.shape[1] == 1:
        parts = [torch.linalg.eigh(gram) for gram in fetch(own[0, :, 0], beyond[:, 0, :, 0])]
        values = torch.outer(parts[0][0], parts[1][0]).flatten()
        turns = [send(vectors.to(before.dtype), before.device) for _, vectors in parts]
        size = len(turns[0]), len(turns[1])

        def turn(r: Tensor, back: bool) -> Tensor:
            one, other = (t if back else t.mT for t in turns)
            turned: Tensor = (one @ r.view(-1, *size) @ other.mT).flatten(1)
            return turned

    else:
        dense = torch.einsum("spto,qsrt->pqor", own, beyond).flatten(2).flatten(0, 1)
        values, vectors = torch.linalg.eigh(*fetch(dense))
        basis = send(vectors.to(before.dtype), before.device)

        def turn(r: Tensor, back: bool) -> Tensor:
            turned: Tensor = r @ (basis.T if back else basis)
            return turned

    values = send(values, before.device)
    scale = (1 / (1 + means.double()[:, None] * values.clamp_min(0))).to(before)
    return lambda r: turn(turn(r, False) * scale, True)


def draw_only_core(
    side: Side, seen: Seen, grams: Grams, block: Sequence[Tensor], entries: Tensor, rng: Generator
) -> tuple[Tensor, Tensor]:
    """Draw the only core of a group, block by block of its columns s e, given X (G, K): the core, and X then."""
    core = side.cores[0]
    s, rows, e = core.shape
    flat, q = core.movedim(1, 0).reshape(rows, -1).clone(), seen.q.flatten(1)
    for chosen in block:
        members = send(chosen, q.device)
        some = q[:, members].contiguous()
        rest = entries - flat[:, members] @ some.T
        pulled = (seen.target - seen.precision * rest) @ some
        noise = random.normal(tuple(pulled.shape), rng=rng).to(q)
        drawn = draw_only(some.new_ones(len(members)), pulled, some, grams, noise, "patch core")
        flat[:, members] = drawn
        entries = rest + drawn @ some.T
    return flat.view(rows, s, e).movedim(0, 1).contiguous(), entries


def draw_bond(
    before: Tensor, after: Tensor, seen: Seen, state: RingState, bond: int, rng: Generator
) -> Tensor:
    """Draw the weights of a bond inside a group, or at its end, (R,).

    before (j, s, r), after (k, r, e): the rows of the group before and after it, without its weights.
    """
    start, theta, what = state.weights[bond], state.cusps[bond].shrinkage, f"the weights of bond {bond + 1}"
    (j, s, _), (k, _, e) = before.shape, after.shape

    def forward(x: Tensor) -> Tensor:
        return torch.einsum("jsr,kre->jkse", before * x, after).reshape(j * k, s * e)

    def adjoint(g: Tensor) -> Tensor:
        inner = torch.einsum("jkse,kre->jsr", g.view(j, k, s, e), after)
        return (inner * before).sum((0, 1))[None]

    beyond = torch.einsum("kqstf,krf->qsrt", torch.einsum("kqe,setf->kqstf", after, seen.gram), after)
    own = torch.einsum("jsp,jto->spto", before, before)
    gram = torch.einsum("spto,psot->po", own.double(), beyond.double())
    ridge = send((1 / theta).to(gram.dtype), gram.device)
    half = cholesky(seen.precision.mean() * gram + torch.diag(ridge), what)

    def inverse(x: Tensor) -> Tensor:
        return torch.cholesky_solve(x.mT.double(), half).mT.to(x)

    return draw_linear(seen, start[None], ridge.to(start), forward, adjoint, inverse, what, rng)[0]
