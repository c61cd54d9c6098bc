"""What the GPU of a Mac can do: operations that came late to it are tried on a few numbers."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

_SIDE = 12


@cache
def lacking() -> str | None:
    """What the GPU cannot do with this torch, None if it can do all that is needed.

    What it computes must agree with the processor.
    """
    x = torch.linspace(0.5, 2.0, _SIDE * _SIDE).reshape(_SIDE, _SIDE)
    for name, operation in TRIED.items():
        try:
            found = operation(x.to("mps")).cpu()
        except (RuntimeError, TypeError):  # among them NotImplementedError
            return f"it has no {name} in torch {torch.__version__}"
        if not torch.allclose(found, operation(x), rtol=1e-3, atol=1e-3):
            return f"its {name} are wrong in torch {torch.__version__}"
    return None


def _cholesky(x: Tensor) -> Tensor:
    factor, info = torch.linalg.cholesky_ex((x @ x.T + torch.eye(_SIDE, device=x.device))[None])
    solved: Tensor = torch.linalg.solve_triangular(factor.mT, x[None, :, :1], upper=True) + info
    return solved


def _patches(x: Tensor) -> Tensor:
    entries = functional.unfold(x[None, None], 4, stride=2)
    return functional.fold(entries, (_SIDE, _SIDE), 4, stride=2)


def _sums(x: Tensor) -> Tensor:
    places = torch.arange(_SIDE, device=x.device) % 3
    return torch.zeros_like(x).index_add_(0, places, x)


def _convolutions(x: Tensor) -> Tensor:
    image = x[None, None].contiguous(memory_format=torch.channels_last)
    return functional.conv2d(image, x[None, None, :3, :3], padding=1)


def _means(x: Tensor) -> Tensor:
    odd = x[None, None, 1:, 1:]
    means = functional.avg_pool2d(odd, 2, ceil_mode=True)
    return functional.interpolate(means, scale_factor=2, mode="bilinear", align_corners=False)


def _sizes(x: Tensor) -> Tensor:
    image = x[None, None]
    smaller = functional.interpolate(image, size=(7, 5), mode="bicubic", antialias=True, align_corners=False)
    return smaller.mean() + functional.pad(image, (0, 3, 2, 0), mode="reflect")


def _shuffled(x: Tensor) -> Tensor:
    parts = functional.pixel_unshuffle(x[None, None], 2).contiguous(memory_format=torch.channels_last)
    return functional.pixel_shuffle(torch.rot90(parts, 1, (-2, -1)), 2)


TRIED = {
    "Cholesky factors": _cholesky,
    "patches of a picture": _patches,
    "sums by index": _sums,
    "convolutions": _convolutions,
    "means of odd sides": _means,
    "other sizes": _sizes,
    "shuffled pixels": _shuffled,
}
