"""A preconditioned network as a prior."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .base import Traits
from .precondition import Blind, Denoiser
from .sizes import as_levels


class NetworkPrior:
    """A preconditioned network as a prior: any H x W, grey or colour, the network in its own number type.

    denoiser: the preconditioned network. It gets `traits.channels` channels and sides that are multiples of
    `multiple`. Images are padded by reflection at the right and bottom, and the result is cropped. A grey
    image is given as equal channels, and the channels of the result are averaged. The weights are frozen;
    gradients flow to the image.
    """

    def __init__(
        self,
        network: nn.Module,
        denoiser: Denoiser,
        traits: Traits,
        *,
        multiple: int = 1,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if traits.channels is None:
            raise ValueError("a network takes a fixed number of channels: set traits.channels")
        self.network = network.eval().requires_grad_(False).to(dtype)
        self.traits = traits
        self.channels = traits.channels
        self.multiple = multiple
        self.dtype = dtype
        self._denoiser = denoiser

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x]: x (B, C, H, W) on [-1, 1], sigma a scalar or (B,)."""
        return self._call(x, sigma)

    def fill(self, x: Tensor, known: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x where known]: x and known, bool, (B, C, H, W), sigma a scalar or (B,)."""
        return self._call(x, sigma, known)

    def spread(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """The standard deviation of what `denoise(x, sigma)` leaves, (B, C, H, W)."""
        if not isinstance(self._denoiser, Blind):
            raise ValueError("this network does not say how wrong it is")
        return self._call(x, sigma, ask=self._denoiser.spread)

    def _call(self, x: Tensor, sigma: Tensor | float, *mask: Tensor, ask: Denoiser | None = None) -> Tensor:
        _, channels, height, width = x.shape
        if channels not in (1, self.channels):
            raise ValueError(f"the prior takes 1 or {self.channels} channels, not {channels}")
        levels = as_levels(sigma, x.to(self.dtype))
        padded = [self._padded(x.to(self.dtype)), *(self._padded(known.to(self.dtype)) > 0 for known in mask)]
        result = (ask or self._denoiser)(padded[0], levels, *padded[1:])[:, :, :height, :width].to(x.dtype)
        return result.mean(1, keepdim=True) if channels < self.channels else result.contiguous()

    def _padded(self, x: Tensor) -> Tensor:
        colour = x.expand(-1, self.channels, -1, -1)
        return pad_to_multiple(colour, self.multiple).contiguous(memory_format=torch.channels_last)


def pad_to_multiple(x: Tensor, multiple: int) -> Tensor:
    """Pad x (B, C, H, W) at the right and bottom to multiples, by reflection, repeatedly if x is tiny."""
    height, width = x.shape[-2:]
    down, right = -height % multiple, -width % multiple
    while down or right:
        take_down, take_right = min(down, x.shape[-2] - 1), min(right, x.shape[-1] - 1)
        if take_down + take_right == 0:  # one pixel wide: nothing to reflect
            return F.pad(x, (0, right, 0, down), mode="replicate")
        x = F.pad(x, (0, take_right, 0, take_down), mode="reflect")
        down, right = down - take_down, right - take_right
    return x
