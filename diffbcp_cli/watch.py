"""How the outside takes part in a run: it hears what happens and may ask for a stop.

`Watch` itself is silence. The command line draws a bar, a worker process sends messages through its pipe, a
notebook does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from .units import Floats


@dataclass(frozen=True)
class Progress:
    """How far a run is. stage: "sampling" or "refining". numbers: what the latest step found, in [0, 1] units."""

    stage: str
    done: float
    total: float
    numbers: Mapping[str, float] = field(default_factory=dict)


class Watch:
    """The silent watch; subclasses override what they want to hear."""

    def note(self, text: str) -> None:
        """Hear something in passing."""

    def warn(self, text: str) -> None:
        """Hear something that the user should look at."""

    def progress(self, progress: Progress) -> None:
        """Hear how far the run is."""

    def drew(self, image: Tensor) -> None:
        """See the latest draw (C, H, W) on [-1, 1], of the picture or of one window of it."""

    def pieced(self, picture: Callable[[], Floats]) -> None:
        """Hear that a window is done; picture() is the whole one (H, W, C) in [0, 1] with the windows so far."""

    def cancelled(self) -> bool:
        """Whether the run should end with what it has drawn so far; asked after each step."""
        return False
