"""What fixes an image step of low rank, whatever the decomposition."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..lowrank.cp import Hyper
from ..lowrank.cp_sweep import MEMORY_BUDGET
from ..lowrank.cusp import CuspPrior
from ..options import Options

BATCHES_IN_BUDGET = 16  # one batch of Gram matrices takes this part of --memory-budget
SMALLEST_BUDGET = 2**20  # bytes for a batch: smaller ones do not help
GROWING = 20  # steps before the first component may be dropped, at most


@dataclass(frozen=True)
class Settings:
    """What fixes the low-rank step. Noise levels are on [-1, 1]."""

    rank: int = 200
    block: int = 25
    sweeps: int = 1  # over the tensor model in each step
    burn_in: int = 40
    adapt_floor: float | None = None  # None or 0: the rank stays as it is
    noise_std: float | None = None  # None: inferred
    warm_up: int | None = None  # steps before the prior's first call; None: a third of burn-in, at most 10
    hyper: Hyper = field(default_factory=Hyper)
    budget: int = MEMORY_BUDGET

    @property
    def first_call(self) -> int:
        """Sweeps before the prior's first call."""
        return min(10, max(1, self.burn_in // 3)) if self.warm_up is None else self.warm_up

    def adapts(self, index: int) -> bool:
        """Whether the rank may change at this step: during burn-in only."""
        return bool(self.adapt_floor) and 0 < index < self.burn_in

    def may_drop(self, index: int) -> bool:
        """Whether components may be dropped at this step: at first they are still growing."""
        return index >= min(self.burn_in // 2, GROWING)


def settings_of(options: Options, noise_std: float | None) -> Settings:
    """The low-rank step that the options ask for; noise_std: on [-1, 1], None if it is to be inferred."""
    cusp = options.shrinkage == "cusp"
    return Settings(
        rank=options.rank,
        block=options.block,
        burn_in=options.burn_in,
        hyper=Hyper(cusp=CuspPrior(shrinks=cusp)),
        adapt_floor=options.adapt_floor if options.adapt_rank and cusp else None,
        noise_std=noise_std,
        sweeps=options.sweeps,
        budget=options.memory_budget // BATCHES_IN_BUDGET,
    )
