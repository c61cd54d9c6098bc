"""A picture as a tensor of many short modes: a bit of the row and one of the column in each, and the colours."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class Binary:
    """(C, H, W) <-> (4, ..., 4, C): coarsest bits first; a side with fewer bits has none in the first modes.

    Sides are padded to powers of two.
    """

    channels: int
    height: int
    width: int

    @property
    def bits(self) -> tuple[int, int]:
        """Bits of the row and of the column."""
        return math.ceil(math.log2(self.height)), math.ceil(math.log2(self.width))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The modes."""
        down, across = self.bits
        levels = max(down, across)
        found = [(2 if k < down else 1) * (2 if k < across else 1) for k in reversed(range(levels))]
        return (*found, self.channels)

    def tensor(self, image: Tensor) -> Tensor:
        """Lay a picture out; padding is zero."""
        down, across = self.bits
        padded = functional.pad(image, (0, 2**across - self.width, 0, 2**down - self.height))
        return padded.reshape(-1, *[2] * (down + across)).permute(*self._order(), 0).reshape(self.sizes)

    def picture(self, tensor: Tensor) -> Tensor:
        """The way back, padding cut off."""
        down, across = self.bits
        order = [*self._order(), 0]
        turned = tensor.reshape(*[2] * (down + across), self.channels)
        back = [order.index(axis) for axis in range(len(order))]
        image = turned.permute(back).reshape(self.channels, 2**down, 2**across)
        return image[:, : self.height, : self.width]

    def _order(self) -> list[int]:
        """The axes of (C, row bits, column bits) in the order of the modes, without the colours."""
        down, across = self.bits
        order: list[int] = []
        for k in reversed(range(max(down, across))):
            order += [1 + down - 1 - k] if k < down else []
            order += [1 + down + across - 1 - k] if k < across else []
        return order
