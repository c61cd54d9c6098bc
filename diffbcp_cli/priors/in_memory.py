"""A prior that does with less memory when the device has no more."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ..devices import is_out_of_memory, release_memory
from ..errors import MemoryLimitError
from .base import Ask, Prior, Wrapper
from .sizes import Tiled


class InMemory(Wrapper):
    """A prior that is asked again in smaller batches, then in smaller tiles, when memory runs out.

    say: told of it each time. Smaller tiles change the answer a little, smaller batches only its last bits.
    """

    def __init__(self, prior: Prior, say: Callable[[str], None]) -> None:
        super().__init__(prior)
        self.say = say

    def _answer(self, ask: Ask, images: tuple[Tensor, ...], sigma: Tensor | float) -> Tensor:
        while True:
            try:
                return ask(*images, sigma)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                less = _shrink(self.prior)
                if less is None:
                    raise MemoryLimitError(
                        "the network of the prior does not fit in the device's memory", hint="--device cpu"
                    ) from error
            self.say(f"out of memory: the network goes on with {less}")
            release_memory(images[0].device)


def _shrink(prior: Prior) -> str | None:
    """Make the tiles of a prior smaller, whatever is around them; None if it has none, or no smaller ones."""
    while isinstance(prior, Wrapper):
        if isinstance(prior, Tiled):
            return prior.shrink()
        prior = prior.prior
    return None
