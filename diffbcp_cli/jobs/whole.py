"""One picture, restored in one piece: its problem, its method, the run, and its estimator."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from .. import tree
from ..devices import pick_device, synchronize
from ..errors import UsageError
from ..estimators import Estimator, refines
from ..estimators import build as build_estimator
from ..estimators.mean import PosteriorMean
from ..estimators.noise import noise_before
from ..estimators.refine import calls_after, with_noise
from ..methods import Method, builder
from ..operators.mask import masked_problem
from ..options import Options
from ..priors.base import Prior
from ..priors.in_memory import InMemory
from ..problem import Problem, Restoration
from ..random import Seeds
from ..run.convergence import Convergence
from ..run.loop import Chains, Checkpoints, Snapshot, film_steps, kept_steps, run
from ..run.schedule import within_budget
from ..run.together import Together
from ..units import Bools, Floats, level_to_signed, to_unit
from ..watch import Watch
from .factors import Factors, factors_of


@dataclass
class Whole:
    """One picture, restored by chains over all of it."""

    pixels: Floats
    observed: Bools
    options: Options
    prior: Prior | None
    name: str
    watch: Watch
    checkpoints: Checkpoints

    def __post_init__(self) -> None:
        """State the problem, and take the plan of a run that goes on."""
        self.started = time.perf_counter()
        start = self.checkpoints.start
        if start is not None and not isinstance(start, Snapshot):
            raise tree.damaged()
        if start is not None and self.options.time_budget is not None:
            iterations, burn_in = (int(start.planned[name]) for name in ("iterations", "burn_in"))
            self.options = replace(self.options, time_budget=None, iterations=iterations, burn_in=burn_in)
        self.earlier = 0.0 if start is None else float(start.seconds)
        self.device = pick_device(self.options.device)
        if self.prior is not None:
            self.prior = InMemory(self.prior, self.watch.note)
            if self.options.chains > 1 and self.device.type != "cpu":
                self.prior = Together(self.prior, self.watch.note)
        self.seeds = Seeds(self.options.seed, self.name)
        sigma = self.options.sigma
        self.problem = masked_problem(
            self.pixels,
            self.observed,
            noise_std=None if sigma is None else level_to_signed(sigma),
            name=self.name,
            device=self.device,
        )
        self.noise = noise_before(self.problem, self.prior, self.options, self.seeds)
        if self.noise is not None:
            self.problem = replace(self.problem, noise_std=self.noise.std)

    @property
    def seconds(self) -> float:
        """Spent so far, with what came before an interruption."""
        return self.earlier + time.perf_counter() - self.started

    def restore(self) -> Restoration:
        """Build, draw, and sum up."""
        estimator = self._estimator()
        method = self._method(estimator.shown)
        options = self.options
        chains = Chains(
            method,
            self.seeds,
            options.chains,
            options.burn_in,
            kept_steps(options),
            self.device,
            self.watch,
            film=film_steps(options),
            together=self.prior.all_of
            if isinstance(self.prior, Together) and method.kind == "chain"
            else None,
        )
        if self.checkpoints.start is not None:
            chains.resume(self.checkpoints.start)
        finished, judged = run(
            chains, options, self.watch, save=self._saving(chains), every=self.checkpoints.every
        )
        chains.posterior.close()
        restored = self._sum_up(estimator, chains, finished)
        restored = self._with_diagnostics(restored, chains, judged)
        return restored if method.length is None else self._of_path(restored, chains)

    def _of_path(self, restored: Restoration, chains: Chains) -> Restoration:
        """A path gives one draw a chain: no convergence to judge, and no spread without a second chain.

        Some methods state the standard deviation of their result themselves.
        """
        if chains.posterior.image.count < 2 and not chains.posterior.stated.count:
            self.watch.note(f"{self.options.method} gives no uncertainty from one run, so no std is written")
            restored = replace(restored, std=None)
        return replace(restored, warnings=())

    def _method(self, shown: Problem) -> Method[Any]:
        """The method, with as many iterations as the time budget allows."""

        def build(options: Options) -> Method[Any]:
            return builder(options.method)(shown, self.prior, options, self.seeds, self.watch)

        self.options, method = within_budget(
            shown, self.options, build, self.watch, after=lambda: self._seconds_after(shown)
        )
        if method.length is not None:
            self.options = for_path(self.options, method.length)
        return method

    @torch.no_grad()
    def _seconds_after(self, shown: Problem) -> float:
        """What the prior will take after the chains, from the time of one call."""
        height, width = shown.y.shape[-2:]
        if self.prior is None or not refines(self.prior, self.options, height, width):
            return 0.0
        started = time.perf_counter()
        self.prior.denoise(shown.y[None], 0.1)
        synchronize(self.device)
        return (time.perf_counter() - started) * calls_after(self.options.finish, height * width)

    def _estimator(self) -> Estimator:
        return build_estimator(
            self.problem, self.prior, self.options, self.seeds, self.watch, values=self.pixels
        )

    def _saving(self, chains: Chains) -> Callable[[], None] | None:
        save = self.checkpoints.save
        if save is None:
            return None
        planned = {"iterations": self.options.iterations, "burn_in": self.options.burn_in}
        return lambda: save(chains.snapshot(planned=planned, seconds=self.seconds))

    def _sum_up(self, estimator: Estimator, chains: Chains, finished: bool) -> Restoration:
        """The estimator's word; after an interruption, the plain mean of what has been drawn."""
        if finished:
            try:
                return replace(estimator(chains.posterior), options=self.options)
            except KeyboardInterrupt:
                save = self._saving(chains)
                if save is not None:
                    save()
        plain = PosteriorMean(self.problem, self.options)(chains.posterior)
        return replace(plain, finished=False)

    def _with_diagnostics(self, restored: Restoration, chains: Chains, judged: Convergence) -> Restoration:
        posterior, warning = chains.posterior, judged.warning()
        if self.noise is not None:
            restored = with_noise(restored, self.noise)
        maps = {"rhat": judged.rhat_map, "ess": judged.ess_map}
        found = {name: values for name, values in maps.items() if values is not None}
        if "prior" in self.options.save and posterior.prior_image.count:
            found["prior"] = to_unit(posterior.prior_image.mean)
        trace, numbers = posterior.traces[0], {**restored.numbers, "diagnostics": judged.as_dict()}
        if "rank" in trace:
            counts = {"last": "rank", "active": "active_rank", **EFFECTIVE_RANKS}
            numbers["rank"] = {key: trace[name][-1] for key, name in counts.items() if name in trace}
            numbers["tensor_noise"] = posterior.noise()
        return replace(
            restored,
            states=self._factors(chains),
            owners=tuple(posterior.owners),
            frames=torch.stack(posterior.frames).numpy() if posterior.frames else None,
            traces=tuple(posterior.traces),
            maps={**restored.maps, **found},
            numbers=numbers,
            warnings=() if warning is None else (warning,),
            seconds=self.seconds,
        )

    def _factors(self, chains: Chains) -> tuple[Factors, ...]:
        """The tensors of the low-rank model at the last step of each chain, if asked for."""
        if "factors" not in self.options.save:
            return ()
        if "rank" not in chains.posterior.traces[0]:
            self.watch.warn(f"{self.options.method} has no tensor model here, so no factors are saved")
            return ()
        return tuple(factors_of(state, tuple(self.problem.y.shape)) for state in chains.states())


EFFECTIVE_RANKS = {"effective": "effective_rank", "contributing": "contributing_rank"}


def for_path(options: Options, length: int) -> Options:
    """The options of a method that goes one way: it has as many steps as it needs, and the last one counts."""
    if options.calibrate:
        raise UsageError(f"--calibrate needs a method whose draws have a spread, not {options.method}")
    return replace(
        options, iterations=length, burn_in=length - 1, thin=1, until_converged=False, time_budget=None
    )
