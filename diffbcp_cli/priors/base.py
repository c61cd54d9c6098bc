"""The Prior protocol: a denoiser of (x, sigma) for images of any size, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, cast

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from .precondition import Denoiser

if TYPE_CHECKING:
    from .reverse import Solver


class Prior(Protocol):
    """What the sampler asks of a prior."""

    @property
    def network(self) -> nn.Module:
        """The bare torch module."""
        ...

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x]: x (B, C, H, W) on [-1, 1], sigma a scalar or (B,)."""
        ...


class MaskedPrior(Prior, Protocol):
    """A prior that also knows what to make of missing entries."""

    def fill(self, x: Tensor, known: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x where known]: x and known, bool, (B, C, H, W), sigma a scalar or (B,).

        Where it is not known x holds a guess.
        """
        ...


def as_masked(prior: Prior) -> MaskedPrior | None:
    """The prior, if it takes a mask."""
    return cast(MaskedPrior, prior) if getattr(prior, "takes_mask", False) else None


class Watched:
    """A prior that says before each call how many pixels it is asked for."""

    def __init__(self, prior: Prior, before: Callable[[int], None]) -> None:
        self.prior = prior
        self.before = before

    @property
    def network(self) -> nn.Module:
        """The bare torch module."""
        return self.prior.network

    @property
    def takes_mask(self) -> bool:
        """Whether there is a `fill`."""
        return as_masked(self.prior) is not None

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x]: x (B, C, H, W) on [-1, 1], sigma a scalar or (B,)."""
        self.before(x[:, 0].numel())
        return self.prior.denoise(x, sigma)

    def fill(self, x: Tensor, known: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x where known]: x and known, bool, (B, C, H, W), sigma a scalar or (B,)."""
        self.before(x[:, 0].numel())
        masked = as_masked(self.prior)
        assert masked is not None
        return masked.fill(x, known, sigma)


class Drawing:
    """What every prior of ours can do beside `denoise`."""

    def sample(
        self: Prior, x: Tensor, rho: float, rng: Generator, *, solver: Solver = "second-order", calls: int = 4
    ) -> Tensor:
        """Draw x0 given x = x0 + rho eps, (B, C, H, W): the reverse process from noise level rho to 0."""
        from .reverse import sample

        return sample(self, x, rho, solver=solver, calls=calls, rng=rng).sample


class NetworkPrior(Drawing):
    """A preconditioned network as a prior: any H x W, grey or colour, the network in its own number type.

    denoiser: the preconditioned network; it gets `channels` channels and sides that are multiples of
    `multiple`. Images are padded by reflection at the right and bottom, and the result is cropped. A grey
    image goes in as equal channels, and the channels of the answer are averaged. takes_mask: whether the denoiser
    does.
    """

    def __init__(
        self,
        network: nn.Module,
        denoiser: Denoiser,
        *,
        channels: int = 3,
        multiple: int = 1,
        dtype: torch.dtype = torch.float32,
        takes_mask: bool = False,
    ) -> None:
        self.network = network.eval().requires_grad_(False).to(dtype)
        self.channels = channels
        self.multiple = multiple
        self.dtype = dtype
        self.takes_mask = takes_mask
        self._denoiser = denoiser

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x]: x (B, C, H, W) on [-1, 1], sigma a scalar or (B,)."""
        return self._call(x, sigma)

    def fill(self, x: Tensor, known: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x where known]: x and known, bool, (B, C, H, W), sigma a scalar or (B,)."""
        return self._call(x, sigma, known)

    @torch.no_grad()
    def _call(self, x: Tensor, sigma: Tensor | float, *mask: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        if channels not in (1, self.channels):
            raise ValueError(f"the prior takes 1 or {self.channels} channels, not {channels}")
        levels = torch.as_tensor(sigma, dtype=self.dtype, device=x.device).expand(batch)
        padded = [self._padded(x.to(self.dtype)), *(self._padded(known.to(self.dtype)) > 0 for known in mask)]
        result = self._denoiser(padded[0], levels, *padded[1:])[:, :, :height, :width].to(x.dtype)
        return result.mean(1, keepdim=True) if channels < self.channels else result.contiguous()

    def _padded(self, x: Tensor) -> Tensor:
        colour = x.expand(-1, self.channels, -1, -1)
        return pad_to_multiple(colour, self.multiple).contiguous(memory_format=torch.channels_last)


def pad_to_multiple(x: Tensor, multiple: int) -> Tensor:
    """Pad x (B, C, H, W) at the right and bottom to multiples; by reflection, over and over if it is tiny."""
    height, width = x.shape[-2:]
    down, right = -height % multiple, -width % multiple
    while down or right:
        take_down, take_right = min(down, x.shape[-2] - 1), min(right, x.shape[-1] - 1)
        if take_down + take_right == 0:  # one pixel wide: nothing to reflect
            return F.pad(x, (0, right, 0, down), mode="replicate")
        x = F.pad(x, (0, take_right, 0, take_down), mode="reflect")
        down, right = down - take_down, right - take_right
    return x


class GaussianPrior(Drawing):
    """x0 ~ N(mean, U diag(var) U^T) with the exact answer: what the tests measure everything against.

    mean, var: broadcast against (C, H, W). basis: U, orthonormal (n, n) with n = C H W, acting on flattened
    images; without it the pixels are independent with variances `var`.
    """

    def __init__(self, mean: Tensor, var: Tensor, *, basis: Tensor | None = None) -> None:
        self.mean = mean
        self.var = var
        self.basis = basis
        self.network: nn.Module = nn.Identity()

    def _rotate(self, x: Tensor, *, back: bool) -> Tensor:
        """U x when `back`, else U^T x, on flattened images (B, C, H, W)."""
        if self.basis is None:
            return x
        basis = self.basis.T if back else self.basis  # rows are images: x U computes U^T x
        return (x.flatten(1) @ basis).reshape(x.shape)

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """mean + U diag(var / (var + sigma^2)) U^T (x - mean): x (B, C, H, W), sigma a scalar or (B,)."""
        noise_var = torch.as_tensor(sigma, dtype=x.dtype, device=x.device).square().reshape(-1, 1, 1, 1)
        coordinates = self._rotate(x - self.mean, back=False)
        return self.mean + self._rotate(coordinates * (self.var / (self.var + noise_var)), back=True)

    def posterior_var(self, sigma: float) -> Tensor:
        """The variance of x0 given x0 + sigma eps, along each column of the basis."""
        return self.var * sigma**2 / (self.var + sigma**2)
