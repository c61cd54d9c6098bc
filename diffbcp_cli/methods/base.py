"""What every method is: a start and a step.

A method is built for one problem, so that whatever costs once (the Grams of the mask, learned atoms) is paid once. It
is a pure function from then on: `step` takes a state and returns the next one, and leaves its inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self, TypeVar

from torch import Generator, Tensor

from ..options import Options
from ..priors.base import Prior
from ..problem import Problem
from ..random import Seeds
from ..watch import Watch

S = TypeVar("S")
Kind = Literal["chain", "path"]


@dataclass(frozen=True)
class Info:
    """What one step drew, images (C, H, W) on [-1, 1].

    image: the draw that counts. prior_image: the draw of the prior's image, if the method has one. noise_std: on
    the same scale, None if the method knows of no noise. numbers: what else the trace shows, by name. std: the
    standard deviation of the picture given what is known, if the method states one; for a draw it stays None.
    draw: a whole draw of the picture, if `image` is not one but a conditional mean. predicted: (2, C, H, W) mean and
    std of the picture before the entries `Problem.later` were used, at the end of burn-in. change: since the last
    image, root mean square, a number () that is still on the device.
    """

    image: Tensor
    noise_std: float | None
    prior_image: Tensor | None = None
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    std: Tensor | None = None
    draw: Tensor | None = None
    predicted: Tensor | None = None
    change: Tensor | None = None


class Method(Protocol[S]):
    """Draws pictures given a problem.

    kind: "chain" if every state after burn-in is a draw, "path" if only the last one is.
    """

    @property
    def kind(self) -> Kind:
        """Whether every state is a draw."""
        ...

    @property
    def length(self) -> int | None:
        """How many steps a path has; None for a chain, which has as many as it is asked for."""
        ...

    def init(self, *, rng: Generator) -> S:
        """The state before the first step."""
        ...

    def step(self, state: S, *, rng: Generator) -> tuple[S, Info]:
        """The next state, and what it drew."""
        ...

    def planned(self, *, burn_in: int) -> Self:
        """The same method for another burn-in; what was prepared is kept."""
        ...

    def without_warm_up(self) -> Self:
        """The same method with a step that costs from the third on what a late one costs, to be timed."""
        ...

    def with_less_memory(self) -> Self | None:
        """The same method with smaller batches and the same draws; None if they cannot be smaller."""
        ...


Build = Callable[[Problem, Prior | None, Options, Seeds, Watch], Method[object]]
"""Build a method for a problem; seeds: for what is random in the preparation."""
