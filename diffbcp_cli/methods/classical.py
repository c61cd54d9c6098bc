"""Classical methods, each one call: Telea, Navier-Stokes, biharmonic, non-local means and BM3D.

Assumes: a mask. `telea`, `navier-stokes` and `biharmonic`: data without noise, which they keep in known pixels.
`nlm` and `bm3d`: Gaussian noise of known level; what is missing is filled by Telea's method before.

They are paths of one step, and know of no uncertainty. A mask may differ between the colours, so gaps are filled one
channel at a time.

Cost: under a second for 256 x 256 with OpenCV; some seconds with BM3D; with `biharmonic` a sparse linear system of
as many unknowns as pixels are missing. No network.

Reference: Telea, An Image Inpainting Technique Based on the Fast Marching Method, Journal of Graphics Tools, 2004;
Bertalmio, Bertozzi, Sapiro, Navier-Stokes, Fluid Dynamics, and Image and Video Inpainting, CVPR 2001; Damelin,
Hoang, On Surface Completion and Image Inpainting by Biharmonic Functions, 2018; Buades, Coll, Morel, A Non-Local
Algorithm for Image Denoising, CVPR 2005; Dabov, Foi, Katkovnik, Egiazarian, Image Denoising by Sparse 3-D
Transform-Domain Collaborative Filtering, IEEE Transactions on Image Processing, 2007.

Ours differs: the algorithms are those of OpenCV, scikit-image and the package bm3d, as they are. OpenCV's non-local
means works on 8-bit levels. Each colour has its own mask and is filled by itself; one of which nothing is known gets
the mean of the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
from numpy.typing import NDArray
from torch import Generator, Tensor

from ..errors import UsageError
from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..units import Bools, Floats, level_to_unit, to_signed, to_unit
from ..watch import Watch
from .base import Info, Kind

LEVELS = 255  # OpenCV's constants are made for pictures on this scale
NLM_PATCH, NLM_SEARCH = 5, 21  # sides of a patch and of the window that similar ones are looked for in
OPPONENT = np.array([[1, 1, 1], [1, 0, -2], [1, -1, 1]])  # (RGB, opponent colours), up to scale

Restore = Callable[[Floats, Bools], Floats]
"""Restores pixels from those that are known, all (H, W, C), on [0, 1]."""


@dataclass(frozen=True)
class ClassicalState:
    """The picture (C, H, W) on [-1, 1] once it is restored."""

    image: Tensor | None = None


STATE_CLASSES = (ClassicalState,)


@dataclass(frozen=True)
class Classical:
    """A method of one step without any randomness."""

    problem: Problem
    restore: Restore
    kind: Kind = "path"
    length: int | None = 1

    def init(self, *, rng: Generator) -> ClassicalState:
        """Nothing is restored yet."""
        return ClassicalState()

    def step(self, state: ClassicalState, *, rng: Generator) -> tuple[ClassicalState, Info]:
        """Restore the picture."""
        problem = self.problem
        known: Bools = problem.known.permute(1, 2, 0).cpu().numpy()
        image = to_signed(self.restore(to_unit(problem.y), known), problem.device)
        return ClassicalState(image), Info(image, problem.noise_std)

    def planned(self, *, burn_in: int) -> Classical:
        """The same method: it has one step."""
        return self

    def without_warm_up(self) -> Classical:
        """The same method: every step costs the same."""
        return self

    def with_less_memory(self) -> None:
        """There are no batches to make smaller."""


def by_channel(fill: Restore, pixels: Floats, known: Bools) -> Floats:
    """Fill each channel by itself; fill: takes (H, W). One of which nothing is known has the mean of all the rest."""
    filled = pixels.copy()
    for channel in range(pixels.shape[2]):
        one = known[..., channel]
        if not one.any():
            filled[..., channel] = pixels[known].mean()
        elif not one.all():
            found = fill(np.ascontiguousarray(pixels[..., channel]), np.ascontiguousarray(one))
            filled[..., channel] = np.where(one, pixels[..., channel], found)
    return filled


def inpaint_cv2(flag: int, radius: float, pixels: Floats, known: Bools) -> Floats:
    """Telea's or the Navier-Stokes method for one channel (H, W)."""
    found = cv2.inpaint(pixels * LEVELS, (~known).astype(np.uint8), radius, flag)
    return np.asarray(found / LEVELS, np.float32)


def fill_telea(radius: float, pixels: Floats, known: Bools) -> Floats:
    """Fill the gaps of all channels (H, W, C) by Telea's method."""
    return by_channel(partial(inpaint_cv2, cv2.INPAINT_TELEA, radius), pixels, known)


def inpaint_biharmonic(pixels: Floats, known: Bools) -> Floats:
    """Solve laplace^2 x = 0 on what is missing of one channel (H, W)."""
    try:
        from skimage.restoration import inpaint_biharmonic as solve
    except ImportError as error:
        raise UsageError(
            "--method biharmonic needs scikit-image", hint="pip install 'diffbcp[biharmonic]'"
        ) from error
    found: NDArray[np.float64] = solve(pixels.astype(np.float64), ~known)
    return found.astype(np.float32)


def non_local_means(h: float, pixels: Floats) -> Floats:
    """Average similar 5 x 5 patches, with weights exp(-d^2 / h^2); all channels (H, W, C) have the same weights.

    OpenCV works on 8-bit levels, so the result has 256 of them. h: on [0, 1].
    """
    levels = np.rint(pixels.clip(0, 1) * LEVELS).astype(np.uint8)
    found = cv2.fastNlMeansDenoising(levels, None, h * LEVELS, NLM_PATCH, NLM_SEARCH)
    smooth: Floats = found.reshape(pixels.shape).astype(np.float32) / LEVELS
    return smooth


def bm3d(noise_std: float, pixels: Floats) -> Floats:
    """Block matching and 3-D filtering; colours share the matching of the luminance, if there are any."""
    try:
        import bm3d as package
    except ImportError as error:
        raise UsageError(
            "--method bm3d needs the package bm3d, whose licence is for non-commercial use",
            hint="pip install 'diffbcp[bm3d]'",
        ) from error
    values = pixels.astype(np.float64)
    if pixels.shape[2] == 3 and np.ptp(values @ OPPONENT, axis=(0, 1)).all():
        return np.asarray(package.bm3d_rgb(values, noise_std), np.float32)
    # the package divides by the range of each opponent colour, which is 0 for a grey picture
    channels = [package.bm3d(values[..., channel], noise_std) for channel in range(pixels.shape[2])]
    return np.stack([np.asarray(one, np.float32).reshape(pixels.shape[:2]) for one in channels], 2)


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Classical:
    """The classical method that the options name."""
    name, radius = options.method, options.inpaint_radius
    telea = partial(fill_telea, radius)
    if name == "telea":
        return Classical(problem, telea)
    if name == "navier-stokes":
        return Classical(problem, partial(by_channel, partial(inpaint_cv2, cv2.INPAINT_NS, radius)))
    if name == "biharmonic":
        return Classical(problem, partial(by_channel, inpaint_biharmonic))
    if problem.noise_std is None:
        raise ValueError(f"{name} needs the noise level of the data")
    std = level_to_unit(problem.noise_std)
    if name == "bm3d":
        watch.note("BM3D by Tampere University: free for non-commercial use only")
        clean: Callable[[Floats], Floats] = partial(bm3d, std)
    else:
        clean = partial(non_local_means, options.nlm_strength * std)
    return Classical(problem, lambda pixels, known: clean(telea(pixels, known)))
