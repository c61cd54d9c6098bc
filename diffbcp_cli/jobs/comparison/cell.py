"""One cell of the grid of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from ...options import Given
from ..job import Job
from ..plan import Plan
from .damage import Damage
from .entries import Entry


@dataclass(frozen=True)
class Cell:
    """One kind of damage and one method: the plan of its photographs."""

    damage: Damage
    entry: Entry
    given: Given
    plan: Plan

    @property
    def name(self) -> str:
        """As messages call it."""
        return f"{self.damage.name}, {self.entry.name}"

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All photographs: those to be done, and those whose results are there."""
        found = (*self.plan.jobs, *(job for job, _ in self.plan.finished))
        return tuple(sorted(found, key=lambda job: job.name))
