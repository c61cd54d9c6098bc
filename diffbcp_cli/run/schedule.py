"""As many iterations as `--time-budget` allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from .. import random
from ..devices import synchronize
from ..methods.base import Method
from ..options import Options
from ..problem import Problem
from ..watch import Watch

FEWEST_ITERATIONS = 5  # that a time budget will choose
TIMED_STEPS = 4  # the first two pay for starting up


def within_budget(
    problem: Problem,
    options: Options,
    build: Callable[[Options], Method[Any]],
    watch: Watch,
    *,
    after: Callable[[], float],
) -> tuple[Options, Method[Any]]:
    """Choose iterations and burn-in that fit the time budget, from the measured cost of a few steps.

    The steps that are timed belong to a chain of their own, so the result is what the chosen numbers of iterations
    would have given without a budget. after: measures the seconds that follow the last draw.
    """
    if options.time_budget is None:
        return options, build(options)
    started = time.perf_counter()
    method = build(options)
    if method.length is not None and method.length < TIMED_STEPS:
        return options, method
    cost = _seconds_per_step(method, problem)
    spent = after() + time.perf_counter() - started
    affordable = int((options.time_budget - spent) / cost / options.chains)
    iterations = min(options.iterations, max(FEWEST_ITERATIONS, affordable))
    burn_in = min(iterations - 1, round(iterations * options.burn_in / options.iterations))
    watch.note(
        f"{cost:.2f} s per iteration: {iterations} iterations, {burn_in} of them burn-in, "
        f"for a budget of {options.time_budget:g} s"
        + (" (it is too short and will be overrun)" if affordable < iterations else "")
    )
    chosen = replace(options, time_budget=None, iterations=iterations, burn_in=burn_in)
    return chosen, method.planned(burn_in=burn_in) if method.length is None else build(chosen)


def _seconds_per_step(method: Method[Any], problem: Problem) -> float:
    """Time some steps at full cost; the first two are left out."""
    method, rng = method.without_warm_up(), random.generator(0, problem.device)
    state, times = method.init(rng=rng), []
    for _ in range(TIMED_STEPS):
        state, _ = method.step(state, rng=rng)
        synchronize(problem.device)
        times.append(time.perf_counter())
    return (times[-1] - times[1]) / (TIMED_STEPS - 2)
