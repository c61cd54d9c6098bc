"""Preconditioning: how a bare network becomes a denoiser D(x, sigma) = E[x0 | x0 + sigma eps = x].

`EDM` is for networks trained on x0 + sigma eps at any sigma, `VP` for networks that predict epsilon at a time step,
`Told` for denoisers of pictures on [0, 1] that are told their noise level, `Blind` for noise of any kind.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ..units import RANGE, values_to_signed, values_to_unit
from .grids import VPSchedule
from .interpolate import interpolate

Denoiser = Callable[..., Tensor]
"""x (B, C, H, W), sigma (B,), and known (B, C, H, W) if it takes a mask, to the posterior mean (B, C, H, W)."""

GUESS_STD = 0.2  # typical error of the interpolated guess at a missing entry, on [-1, 1]


class EDM:
    """D(x, sigma) = c_skip x + c_out F(c_in x, c_noise), with the coefficients of Karras et al. (2022).

    At every noise level, the input and the training target of F have variance one:
    c_skip = d^2 / (sigma^2 + d^2), c_out = sigma d / sqrt(sigma^2 + d^2), c_in = 1 / sqrt(sigma^2 + d^2),
    c_noise = ln(sigma) / 4, where d is the standard deviation of the data.

    A missing entry holds an interpolated guess (interpolate.py). Its coefficients are those of a noise level of
    at least GUESS_STD, and the network is told where such entries are.
    """

    def __init__(self, network: nn.Module, data_std: float = 0.5) -> None:
        self.network = network
        self.data_std = data_std

    def __call__(self, x: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """x (B, C, H, W), sigma (B,), known (B, C, H, W) bool or None for all -> the image (B, C, H, W)."""
        s = self._levels(sigma, known)
        total_var = s.square() + self.data_std**2
        c_skip = self.data_std**2 / total_var
        c_out = s * self.data_std / total_var.sqrt()
        mask = () if known is None else ((~known).to(x.dtype),)
        output: Tensor = self.network(x * total_var.rsqrt(), sigma.log() / 4, *mask)
        return c_skip * x + c_out * output

    def of_levels(self, noisy: Tensor, levels: Tensor) -> tuple[Tensor, Tensor]:
        """E[x0 | x0 + levels eps = noisy], with a noise level for each entry, and the weight of a loss on it.

        noisy, levels (B, C, H, W). Where a level is infinite, nothing is known, whatever the value of `noisy` is.
        Let r be the lowest level of an image and g = GUESS_STD. Each entry is mixed with a guess from its neighbours;
        its own weight is w = (r^2 + g^2) / (levels^2 + g^2). The level of the mix is the larger one of r and
        sqrt(w^2 levels^2 + (1 - w)^2 g^2). With equal levels this is `__call__`; with levels of r and
        infinity it is `__call__` with a mask.
        """
        lowest = levels.amin((1, 2, 3), keepdim=True)
        w = (lowest.square() + GUESS_STD**2) / (levels.square() + GUESS_STD**2)
        x = interpolate(noisy, w)
        noise = torch.where(w > 0, w * levels, 0)
        s = torch.maximum((noise.square() + ((1 - w) * GUESS_STD).square()).sqrt(), lowest)
        total_var = s.square() + self.data_std**2
        c_out = s * self.data_std / total_var.sqrt()
        output: Tensor = self.network(x * total_var.rsqrt(), lowest.flatten().log() / 4, 1 - w)
        return self.data_std**2 / total_var * x + c_out * output, 1 / c_out.square()

    def weight(self, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """1 / c_out^2: with this weight, the loss on D is a plain squared error on F at every noise level."""
        s = self._levels(sigma, known)
        return (s.square() + self.data_std**2) / (s * self.data_std).square()

    def _levels(self, sigma: Tensor, known: Tensor | None) -> Tensor:
        """The noise level of every entry; it broadcasts against (B, C, H, W)."""
        s = sigma.reshape(-1, 1, 1, 1)
        return s if known is None else torch.where(known, s, s.clamp_min(GUESS_STD))


class Blind:
    """A denoiser of noise of any kind: D(x) = c_skip x + c_out F(c_in x, c_noise), and how wrong it is.

    The coefficients are those of EDM at one level, USUAL. c_noise is that of the level that is told, or of UNKNOWN.
    The second half of the network's channels, G, gives the variance of what D leaves: c_out^2 exp(G).
    """

    USUAL, UNKNOWN = 0.1, 20.0  # noise levels on [-1, 1]

    def __init__(self, network: nn.Module, data_std: float = 0.5) -> None:
        self.network = network
        total = math.hypot(self.USUAL, data_std)
        self.c_in, self.c_skip, self.c_out = 1 / total, (data_std / total) ** 2, self.USUAL * data_std / total

    def __call__(self, x: Tensor, sigma: Tensor) -> Tensor:
        """x (B, C, H, W), sigma (B,) -> the picture without its noise (B, C, H, W)."""
        return self.with_variance(x, sigma)[0]

    def spread(self, x: Tensor, sigma: Tensor) -> Tensor:
        """The standard deviation of what is left, (B, C, H, W)."""
        return self.with_variance(x, sigma)[1].sqrt()

    def with_variance(self, x: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """The picture without its noise, and the variance of what is left."""
        change, log_var = self.network(self.c_in * x, sigma.log() / 4).chunk(2, 1)
        return self.c_skip * x + self.c_out * change, self.c_out**2 * log_var.clamp(-12, 6).exp()


class VP:
    """D(x, sigma) = x - sigma F(x / sqrt(1 + sigma^2), (steps - 1) t(sigma)), F an epsilon network.

    beta_start, beta_end: the first and the last beta of the discrete schedule of `steps` steps. Time is
    continuous: the networks embed it by sines and cosines, so they accept times between the training steps. A
    network with twice as many channels (learn_sigma) gives the variance in the second half, which is dropped.
    """

    def __init__(
        self, network: nn.Module, *, beta_start: float = 1e-4, beta_end: float = 0.02, steps: int = 1000
    ) -> None:
        self.network = network
        self.schedule = VPSchedule(beta_start * steps, (beta_end - beta_start) * steps)
        self.steps = steps

    def __call__(self, x: Tensor, sigma: Tensor) -> Tensor:
        """x (B, C, H, W), sigma (B,) -> the denoised image (B, C, H, W)."""
        s = sigma.reshape(-1, 1, 1, 1)
        time = (self.steps - 1) * self.schedule.time(sigma)
        output: Tensor = self.network(x * (1 + s.square()).rsqrt(), time)
        return x - s * output[:, : x.shape[1]]


class Told:
    """D(x, sigma) = (2 F((a x + 1) / 2, a sigma / 2) - 1) / a: F denoises pictures on [0, 1], and is told the level.

    highest: the largest level of its training, on [0, 1]. Up to it a = 1. Above it F would leave noise in, so
    contrast and noise are scaled down about grey until F knows the level: a = highest / level.
    """

    def __init__(self, network: nn.Module, highest: float) -> None:
        self.network = network
        self.highest = highest

    def __call__(self, x: Tensor, sigma: Tensor) -> Tensor:
        """x (B, C, H, W), sigma (B,) -> the denoised image (B, C, H, W)."""
        levels = sigma / RANGE
        scale = (self.highest / levels).clamp(max=1)
        a = scale.reshape(-1, 1, 1, 1)
        clean: Tensor = self.network(values_to_unit(a * x), scale * levels)
        return values_to_signed(clean) / a
