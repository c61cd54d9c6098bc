"""From an array of pixels to its restoration."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from .bcp.state import observe
from .bcp.tensorize import tensorize
from .config import RunConfig
from .coupling import CouplingRule
from .devices import pick_device
from .diffusion.prior import Prior
from .errors import InputError
from .sampler import Draw, Settings, SplitGibbs, make_generator
from .summary import Moments
from .weights import Download, LoadedPrior, load_prior

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Wrap = Callable[[Iterable[Draw], int], Iterable[Draw]]

SMALLEST_SIDE = 16


@dataclass
class Trace:
    """What happened at each step; noise in [0, 1] units."""

    noise_std: list[float] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    active_rank: list[int] = field(default_factory=list)
    rho: list[float | None] = field(default_factory=list)
    change: list[float | None] = field(default_factory=list)

    def add(self, draw: Draw) -> None:
        """Record one step."""
        self.noise_std.append(draw.noise_std / 2)
        self.rank.append(draw.rank)
        self.active_rank.append(draw.active_rank)
        self.rho.append(draw.rho)
        self.change.append(draw.change / 2 if math.isfinite(draw.change) else None)


@dataclass(frozen=True)
class Outcome:
    """A restoration, arrays (H, W, C) in [0, 1] units.

    mean, std: over the draws after burn-in. prior_mean: the same of the prior's image, if there is a prior.
    samples: (n, H, W, C) every `thin`-th draw, only if asked for. finished: False after an interruption.
    """

    mean: Floats
    std: Floats
    prior_mean: Floats | None
    samples: Floats | None
    trace: Trace
    draws: int
    seconds: float
    finished: bool

    def noise(self, burn_in: int) -> dict[str, float]:
        """The inferred noise std with its 90 % interval, in [0, 1] units."""
        kept = np.asarray(self.trace.noise_std[burn_in:] or self.trace.noise_std)
        low, high = np.quantile(kept, [0.05, 0.95])
        return {"std": float(kept.mean()), "lower": float(low), "upper": float(high)}


def plain(draws: Iterable[Draw], total: int) -> Iterable[Draw]:
    """Wrap a run with nothing."""
    return draws


def open_prior(
    cfg: RunConfig, *, announce: Callable[[Download], None] | None = None, bars: bool = False
) -> LoadedPrior | None:
    """Load the prior that a run asks for, None for `none`; announce and bars as in `load_prior`."""
    if cfg.prior == "none":
        return None
    return load_prior(
        cfg.prior,
        device=cfg.device,
        precision=cfg.precision,
        scale=cfg.prior_scale,
        compile=cfg.compile,
        announce=announce,
        bars=bars,
    )


def seed_of(seed: int, name: str) -> int:
    """A seed of one image's own, from the run's seed and the image's relative path."""
    digest = hashlib.sha256(f"{seed}:{name}".encode("utf-8", "surrogateescape")).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def settings_of(cfg: RunConfig) -> Settings:
    """The Markov kernel that the options ask for."""
    return Settings(
        rank=cfg.rank,
        block=cfg.block,
        burn_in=cfg.burn_in,
        adapt_floor=cfg.adapt_floor if cfg.adapt_rank else None,
        noise_std=None if cfg.sigma is None else 2 * cfg.sigma,
        warm_up=min(10, max(1, cfg.burn_in // 3)),
        rule=CouplingRule(cfg.coupling, cfg.rho_min, cfg.rho_max),
        solver=cfg.solver,
        calls=cfg.calls,
    )


def restore(
    pixels: Floats,
    observed: Bools,
    cfg: RunConfig,
    *,
    prior: Prior | None,
    name: str = "",
    wrap: Wrap = plain,
) -> Outcome:
    """Restore pixels (H, W, C) on [0, 1] from the observed ones, (H, W, C) bool; see `Outcome`.

    name: the image's relative path, which with the seed fixes every draw. wrap: stands around the iterator
    of draws and is told how many there will be. Ctrl-C ends the run with what has been drawn so far.
    """
    started = time.perf_counter()
    device = pick_device(cfg.device)
    sampler = _sampler(pixels, observed, cfg, prior, device)
    rng = make_generator(seed_of(cfg.seed, name), device)
    draws = (draw for _, draw in sampler.run(rng=rng))
    image, prior_image, trace, samples = Moments(), Moments(), Trace(), []
    finished, kept = True, set(cfg.kept()) if "samples" in cfg.save else set()
    last: Draw | None = None
    try:
        for draw in wrap(_take(draws, cfg.iterations), cfg.iterations):
            trace.add(draw)
            last = draw
            if draw.step >= cfg.burn_in:
                image.add(draw.image)
                if draw.prior_image is not None:
                    prior_image.add(draw.prior_image)
            if draw.step in kept:
                samples.append(_pixels(draw.image))
    except KeyboardInterrupt:
        finished = False
        if last is None:
            raise
    if image.count == 0 and last is not None:
        image.add(last.image)  # interrupted during burn-in: the latest draw is all there is
    mean, std = _pixels(image.mean), _pixels(image.std, scale_only=True)
    if cfg.observed == "keep":
        mean, std = np.where(observed, pixels, mean), np.where(observed, np.float32(0), std)
    return Outcome(
        mean=mean,
        std=std,
        prior_mean=_pixels(prior_image.mean) if prior_image.count else None,
        samples=np.stack(samples) if samples else None,
        trace=trace,
        draws=image.count,
        seconds=time.perf_counter() - started,
        finished=finished,
    )


def _take(draws: Iterator[Draw], count: int) -> Iterator[Draw]:
    """The first `count` draws; one more is never computed."""
    for _ in range(count):
        yield next(draws)


def _sampler(
    pixels: Floats, observed: Bools, cfg: RunConfig, prior: Prior | None, device: torch.device
) -> SplitGibbs:
    height, width, channels = pixels.shape
    if min(height, width) < SMALLEST_SIDE:
        raise InputError(
            f"the image is {width}x{height}, and the smallest that can be restored is "
            f"{SMALLEST_SIDE}x{SMALLEST_SIDE}"
        )
    known = torch.from_numpy(observed.transpose(2, 0, 1).copy()).to(device)
    clean = np.where(observed, pixels, np.float32(0.5))
    image = torch.from_numpy(np.ascontiguousarray(clean.transpose(2, 0, 1))).to(device) * 2 - 1
    kind: Literal["patch", "reshape"] = "reshape" if cfg.tensorize == "reshape" else "patch"
    shape = tensorize((channels, height, width), kind, patch=cfg.patch_size, stride=cfg.stride)
    observation = observe(image, known, shape, once=cfg.patch_weights == "once")
    return SplitGibbs(observation, prior, settings_of(cfg))


def _pixels(image: torch.Tensor, *, scale_only: bool = False) -> Floats:
    """(C, H, W) on [-1, 1] to (H, W, C) on [0, 1]; a spread is only halved."""
    values = image.permute(1, 2, 0).float().cpu().numpy() / 2
    return np.ascontiguousarray(values if scale_only else values + np.float32(0.5))
