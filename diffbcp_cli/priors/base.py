"""The Prior protocol: a denoiser of (x, sigma), and what it says about itself.

This module needs no torch, so that priors can be listed and named quickly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeGuard, runtime_checkable

from ..errors import ModelError, UsageError

if TYPE_CHECKING:
    from torch import Tensor

Ask = Callable[..., "Tensor"]
"""`denoise` or `fill` of a prior: the images, then sigma, to an image."""


@dataclass(frozen=True)
class Traits:
    """What a caller needs to know about a prior before it calls it. The defaults hold for any denoiser.

    channels: of the images it was trained on; None if any number will do. Grey images are always taken.
    takes_mask: it has `fill`.
    rotations: 4 if it was trained on images in all quarter turns, otherwise 1.
    native_size: the side of the images it was trained on; None if it was trained for any size.
    shrinks_to: a larger image is seen as a copy with this side; None if every pixel is seen.
    any_noise: the noise may be of any kind; it has `spread`, and takes noise of unknown level.
    """

    channels: int | None = None
    takes_mask: bool = False
    rotations: int = 1
    native_size: int | None = None
    shrinks_to: int | None = None
    any_noise: bool = False

    def shrinks(self, height: int, width: int) -> bool:
        """Whether the prior sees an image of this size only as a smaller copy, without its detail."""
        return self.shrinks_to is not None and max(height, width) > self.shrinks_to


class Denoises(Protocol):
    """The least that can serve as a prior; see `as_prior`."""

    def denoise(self, x: Tensor, sigma: Tensor | float, /) -> Tensor:
        """E[x0 | x0 + sigma eps = x]: x (B, C, H, W) on [-1, 1], sigma a scalar or (B,)."""
        ...


@runtime_checkable
class Prior(Denoises, Protocol):
    """A denoiser that states its traits. `denoise` is differentiable; the caller decides on no_grad."""

    @property
    def traits(self) -> Traits:
        """What a caller needs to know."""
        ...


class MaskedPrior(Prior, Protocol):
    """A prior that also takes a mask of missing entries: `traits.takes_mask` is True."""

    def fill(self, x: Tensor, known: Tensor, sigma: Tensor | float, /) -> Tensor:
        """E[x0 | x0 + sigma eps = x where known]: x and known, bool, (B, C, H, W), sigma a scalar or (B,).

        Where an entry is not known, x holds a guess.
        """
        ...


class BlindPrior(Prior, Protocol):
    """A prior for noise of any kind and of unknown level: `traits.any_noise` is True."""

    def spread(self, x: Tensor, sigma: Tensor | float, /) -> Tensor:
        """The standard deviation of what `denoise(x, sigma)` leaves, (B, C, H, W)."""
        ...


def knows_spread(prior: Prior) -> TypeGuard[BlindPrior]:
    """Whether the prior says how wrong it is, in a form that the type checker understands."""
    return prior.traits.any_noise


def can_fill(prior: Prior) -> TypeGuard[MaskedPrior]:
    """Whether the prior takes a mask, in a form that the type checker understands."""
    return prior.traits.takes_mask


def as_prior(model: Prior | Denoises) -> Prior:
    """Return the model as a prior. One that states no traits gets the default ones."""
    if isinstance(model, Prior):
        return model
    try:
        return _Adapted(model)
    except AttributeError:
        raise UsageError(
            f"{type(model).__name__} is no prior: it has no method denoise(x, sigma)",
            hint="give the name of a prior, a folder, a Hub id, or an object with that method",
        ) from None


class _Adapted:
    """A model with `denoise` alone."""

    def __init__(self, model: Denoises) -> None:
        self.denoise = model.denoise
        self.traits = Traits()


class Wrapper:
    """A prior around another one. Subclasses override `_answer`, through which both calls go.

    traits: those of the inner prior unless given.
    """

    def __init__(self, prior: Prior, traits: Traits | None = None) -> None:
        self.prior = prior
        self.traits = prior.traits if traits is None else traits

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x]: x (B, C, H, W) on [-1, 1], sigma a scalar or (B,)."""
        return self._answer(self.prior.denoise, (x,), sigma)

    def fill(self, x: Tensor, known: Tensor, sigma: Tensor | float) -> Tensor:
        """E[x0 | x0 + sigma eps = x where known]: x and known, bool, (B, C, H, W), sigma a scalar or (B,)."""
        if not (self.traits.takes_mask and can_fill(self.prior)):
            raise ModelError("this prior does not take a mask")
        return self._answer(self.prior.fill, (x, known), sigma)

    def spread(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """The standard deviation of what `denoise(x, sigma)` leaves, (B, C, H, W)."""
        if not (self.traits.any_noise and knows_spread(self.prior)):
            raise ModelError("this prior does not say how wrong it is")
        return self._answer(self.prior.spread, (x,), sigma)

    def _answer(self, ask: Ask, images: tuple[Tensor, ...], sigma: Tensor | float) -> Tensor:
        """Call the inner prior by ask(*images, sigma), images (B, C, H, W) each, and return (B, C, H, W)."""
        return ask(*images, sigma)


class Watched(Wrapper):
    """A prior that reports before each call how many pixels it is asked for."""

    def __init__(self, prior: Prior, before: Callable[[int], None]) -> None:
        super().__init__(prior)
        self.before = before

    def _answer(self, ask: Ask, images: tuple[Tensor, ...], sigma: Tensor | float) -> Tensor:
        self.before(images[0][:, 0].numel())
        return ask(*images, sigma)
