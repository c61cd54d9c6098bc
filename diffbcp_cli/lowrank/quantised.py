"""Quantised tensor trains: pictures of side 2^L with one core for each bit of the coordinates.

Core k (r_{k-1}, 4, r_k) is indexed by 2 rowbit_k + columnbit_k, bit 1 being the most significant; r_0 = C carries
the colours, r_L = 1. So the first cores say where, coarsely, and the last ones what is fine.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Generator, Tensor

from .. import random
from ..transfer import double

Cores = tuple[Tensor, ...]

# Carrying a bit, from the left to the right: states 0 in = out, 1 in = out + 1, 2 in = out and all bits are ones.
# The entries are (left, right, out, in).
_CARRY = ((0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (1, 1, 1, 0), (2, 2, 1, 1))
_LEFT = (1.0, 0.0, 1.0)  # which states a bit string begins in
_NEW_BIT = (
    (1.0, 0.5),
    (0.0, 0.5),
    (0.0, 0.5),
)  # (state, new bit): w(2x) = v(x), w(2x+1) = (v(x) + v(x+1)) / 2


def ranks(channels: int, bits: int, most: int) -> tuple[int, ...]:
    """r_0 .. r_L: no more than `most`, nor than what either side of the bond can span."""
    inner = (min(channels * 4**k, 4 ** (bits - k), most) for k in range(1, bits))
    return (channels, *inner, 1)


def normal_cores(channels: int, bits: int, most: int, *, rng: Generator) -> Cores:
    """Normal cores of one standard deviation, so that every entry of the picture has variance 1."""
    sizes = ranks(channels, bits, most)
    std = math.prod(sizes[1:]) ** (-0.5 / bits)
    return tuple(std * random.normal((r, 4, q), rng=rng) for r, q in pairwise(sizes))


def picture(cores: Cores) -> Tensor:
    """The picture (C, 2^L, 2^L): both halves of the train multiplied out, then with each other."""
    half = (len(cores) + 1) // 2
    left, right = cores[0], cores[-1]
    for core in cores[1:half]:
        left = torch.tensordot(left.flatten(1, -2), core, 1)
    for core in reversed(cores[half:-1]):
        right = torch.tensordot(core, right.flatten(1), 1)
    channels, rank = cores[0].shape[0], cores[half - 1].shape[-1]
    if half == len(cores):
        return _unfold(left.reshape(channels, -1), len(cores))
    return _unfold((left.reshape(-1, rank) @ right.reshape(rank, -1)).reshape(channels, -1), len(cores))


def _unfold(values: Tensor, bits: int) -> Tensor:
    """(C, 4^L), bits of rows and columns in turn, to (C, 2^L, 2^L)."""
    rows, columns = range(1, 2 * bits, 2), range(2, 2 * bits + 1, 2)
    split = values.reshape(-1, *[2] * (2 * bits)).permute(0, *rows, *columns)
    return split.reshape(-1, 2**bits, 2**bits)


def prolong(cores: Cores, most: int) -> Cores:
    """The picture at twice the side, each new row and column halfway between its neighbours; ranks at most `most`.

    The last row and the last column are copied. Before rounding all ranks are 9 times what they were.
    """
    carry, left, new = _operator(cores[0])
    first, *rest = (
        torch.einsum("lrab,pbq->lparq", carry, core).flatten(3).flatten(0, 1)  # ((l, p), 4, (r, q))
        for core in cores
    )
    first = torch.tensordot(left, first.reshape(len(left), cores[0].shape[0], 4, -1), 1)
    return rounded((first, *rest, new[:, :, None]), most)


def _operator(like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows and columns at once: the carry (9, 9, 4, 4), the states at the left (9,), those of the new bit (9, 4)."""
    one = torch.zeros(3, 3, 2, 2, dtype=like.dtype)
    for index in _CARRY:
        one[index] = 1
    left, new = (torch.tensor(values, dtype=like.dtype) for values in (_LEFT, _NEW_BIT))
    carry, states, bit = (torch.kron(part, part).to(like.device) for part in (one, left, new))
    return carry, states, bit


def rounded(cores: Cores, most: int) -> Cores:
    """The best train of lower ranks, bond by bond: orthogonal from the right, then cut by SVD from the left."""
    work = [double(core) for core in cores]
    for k in range(len(work) - 1, 0, -1):
        q, r = torch.linalg.qr(work[k].flatten(1).mT)  # core = r' q'
        work[k] = q.mT.reshape(len(q.mT), 4, -1)
        work[k - 1] = work[k - 1] @ r.mT
    sizes = ranks(work[0].shape[0], len(work), most)
    for k in range(len(work) - 1):
        u, s, vh = torch.linalg.svd(work[k].flatten(0, 1), full_matrices=False)
        keep = min(sizes[k + 1], len(s))
        work[k] = u[:, :keep].reshape(-1, 4, keep)
        work[k + 1] = torch.tensordot(s[:keep, None] * vh[:keep], work[k + 1], 1)
    return balanced(tuple(core.to(cores[0]).contiguous() for core in work))


def balanced(cores: Cores) -> Cores:
    """The same picture from cores whose entries all have one root mean square, which suits Adam."""
    sizes = [float(core.square().mean().sqrt()) for core in cores]
    if 0.0 in sizes:
        return cores
    each = math.exp(sum(math.log(size) for size in sizes) / len(sizes))
    return tuple(core * (each / size) for core, size in zip(cores, sizes, strict=True))
