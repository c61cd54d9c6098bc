"""From options and pixels to the sampler that draws, and its tensors back to pixels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ..lowrank.cp import State
from ..lowrank.likelihood import observe
from ..lowrank.stream import observe_in_chunks, observe_some
from ..lowrank.tensorize import Patches, tensorize
from ..methods.coupling import CouplingRule
from ..methods.split_gibbs import Settings, SplitGibbs, learn_atoms, make_generator
from ..options import RunConfig
from ..priors.base import Prior
from .large import ATOM_SWEEPS, IN_CHUNKS, NOISE_SLACK
from .outcome import Bools, Floats

BATCHES_IN_BUDGET = 16  # one batch of Gram matrices takes this part of --memory-budget


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
        sweeps=cfg.sweeps,
        budget=cfg.memory_budget // BATCHES_IN_BUDGET,
    )


def sampler_of(
    pixels: Floats,
    observed: Bools,
    cfg: RunConfig,
    prior: Prior | None,
    device: torch.device,
    atoms: State | None = None,
    note: Callable[[str], None] = lambda text: None,
) -> SplitGibbs:
    """The sampler of a picture; atoms: learned before, from the same picture and options."""
    height, width, channels = pixels.shape
    image, known = tensors_of(pixels, observed, device)
    once, settings = cfg.patch_weights == "once", settings_of(cfg)
    kind: Literal["patch", "reshape"] = "reshape" if cfg.tensorize == "reshape" else "patch"
    shape = tensorize((channels, height, width), kind, patch=cfg.patch_size, stride=cfg.stride)
    if not isinstance(shape, Patches):
        return SplitGibbs(observe(image, known, shape, once=once), prior, settings)
    count = shape.right[0]
    if 0 < cfg.atom_patches < count:
        if atoms is None:
            note(f"learning atoms from {cfg.atom_patches} of {count} patches")
            rng = make_generator(seed_of(cfg.seed, "#atoms"), device)
            some = observe_some(image, known, shape, cfg.atom_patches, once=once, rng=rng)
            atoms = learn_atoms(some, settings, sweeps=ATOM_SWEEPS, rng=rng)
        settings = replace(settings, warm_up=1, noise_most=NOISE_SLACK * atoms.noise_precision**-0.5)
    if count > IN_CHUNKS:
        chunks = observe_in_chunks(image, known, shape, once=once, budget=settings.budget)
        return SplitGibbs(chunks, prior, settings, atoms)
    return SplitGibbs(observe(image, known, shape, once=once), prior, settings, atoms)


def tensors_of(pixels: Floats, observed: Bools, device: torch.device) -> tuple[Tensor, Tensor]:
    """Pixels (H, W, C) as an image (C, H, W) on [-1, 1], and which are known; the others are zero."""
    known = torch.from_numpy(observed.transpose(2, 0, 1).copy()).to(device)
    clean = np.where(observed, pixels, np.float32(0.5))
    return torch.from_numpy(np.ascontiguousarray(clean.transpose(2, 0, 1))).to(device) * 2 - 1, known


def pixels_of(image: Tensor, *, scale_only: bool = False) -> Floats:
    """(C, H, W) on [-1, 1] to (H, W, C) on [0, 1]; a spread is only halved."""
    values = image.permute(1, 2, 0).float().cpu().numpy() / 2
    return np.ascontiguousarray(values if scale_only else values + np.float32(0.5))
