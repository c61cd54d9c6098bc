"""What every estimator is: it holds some known pixels out before the run, and sums up the draws after it."""

from __future__ import annotations

from typing import Protocol

from ..problem import Problem, Restoration
from ..run.posterior import Posterior


class Estimator(Protocol):
    """Makes a Restoration of a Posterior. Like a method, it is built for one problem."""

    @property
    def shown(self) -> Problem:
        """What the method may see: the problem without what is held out."""
        ...

    def __call__(self, posterior: Posterior) -> Restoration:
        """Sum up the draws."""
        ...
