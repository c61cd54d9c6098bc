"""As many iterations as --time-budget allows."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch

from ..estimators.completion import calls_after
from ..lowrank.cp import State
from ..methods.split_gibbs import SplitGibbs, make_generator
from ..options import RunConfig
from ..priors.base import Prior
from .kernel import sampler_of, tensors_of
from .outcome import Bools, Control, Floats, damaged

FEWEST_ITERATIONS = 5  # that a time budget will choose


def within_budget(
    pixels: Floats,
    shown: Bools,
    cfg: RunConfig,
    prior: Prior | None,
    device: torch.device,
    control: Control,
    *,
    finishes: bool,
) -> tuple[RunConfig, State | None]:
    """Choose iterations and burn-in that fit the time budget, from the measured cost of a few steps.

    The steps that are timed belong to a chain of their own, so the result is what the chosen numbers of
    iterations would have given without a budget. Atoms that were learned for them are returned, to be used again.
    A run that goes on from a checkpoint keeps its numbers.
    """
    if cfg.time_budget is None:
        return cfg, None
    if control.start is not None:
        try:
            return replace(cfg, time_budget=None, **control.start[1]["planned"]), None
        except (KeyError, TypeError) as error:
            raise damaged() from error
    started = time.perf_counter()
    sampler = sampler_of(pixels, shown, cfg, prior, device, note=control.note)
    cost = _seconds_per_step(sampler, device)
    if prior is not None and finishes:
        started -= _seconds_to_finish(prior, pixels, cfg.finish, device)
    left = cfg.time_budget - (time.perf_counter() - started)
    affordable = int(left / cost / cfg.chains)
    iterations = min(cfg.iterations, max(FEWEST_ITERATIONS, affordable))
    burn_in = min(iterations - 1, round(iterations * cfg.burn_in / cfg.iterations))
    control.note(
        f"{cost:.2f} s per iteration: {iterations} iterations, {burn_in} of them burn-in, "
        f"for a budget of {cfg.time_budget:g} s"
        + (" (it is too short and will be overrun)" if affordable < iterations else "")
    )
    return replace(cfg, time_budget=None, iterations=iterations, burn_in=burn_in), sampler.atoms


def _seconds_per_step(sampler: SplitGibbs, device: torch.device) -> float:
    """Time two steps, with the prior if there is one; the two before them pay for starting up."""
    sampler.settings = replace(sampler.settings, warm_up=2)
    times: list[float] = []
    for _ in sampler.run(rng=make_generator(0, device)):
        times.append(time.perf_counter())
        if len(times) == 4:
            break
    return (times[3] - times[1]) / 2


@torch.no_grad()
def _seconds_to_finish(prior: Prior, pixels: Floats, calls: int, device: torch.device) -> float:
    """What the prior will take after the chains, from the time of one call."""
    started = time.perf_counter()
    prior.denoise(tensors_of(pixels, np.ones(pixels.shape, bool), device)[0][None], 0.1)
    return (time.perf_counter() - started) * calls_after(calls, pixels[..., 0].size)
