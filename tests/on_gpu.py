"""Cases for a GPU, pretended or real: pictures, a tiny prior, and short runs of every method on a device."""

from __future__ import annotations

import numpy as np
import torch
from conftest import picture

from diffbcp_cli import random
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.lowrank import cp_blocks
from diffbcp_cli.lowrank.cp import Hyper, initial
from diffbcp_cli.lowrank.likelihood import Coupling, observe
from diffbcp_cli.lowrank.solve import unseen
from diffbcp_cli.lowrank.tensorize import Patches
from diffbcp_cli.methods import builder
from diffbcp_cli.operators.mask import masked_problem
from diffbcp_cli.options import METHODS, resolve, takes
from diffbcp_cli.options.methods import OF_SPLIT_GIBBS
from diffbcp_cli.priors.load import assemble
from diffbcp_cli.priors.networks import natural
from diffbcp_cli.random import Seeds
from diffbcp_cli.run.loop import Chains
from diffbcp_cli.watch import Watch

NETWORK = {"channels": [8, 16], "blocks": [1, 1], "embedding_channels": 16, "takes_mask": True}
OTHERS = {
    "gather": {"missing": 0.95, "side": 48, "decomposition": "cp"},
    "complement": {"missing": 0.05, "decomposition": "cp"},
    "shared": {"missing": 0.0, "decomposition": "cp"},
    "reshape": {"tensorize": "reshape"},
    "conjugate gradients": {"tensorize": "reshape", "rank": 100, "block": 100, "prior": "none"},
    "chunks": {"chunks": 4, "atom_patches": 0, "prior": "none"},
    "chunks and atoms": {"chunks": 4, "atom_patches": 6},
    "tensor train": {"decomposition": "tt"},
    "tensor ring": {"decomposition": "tr", "rank": 3},
    "paper": {"solver": "paper", "prior_scale": "fit", "iterations": 3, "burn_in": 1},
    "calibrated samples": {"calibrate": True, "chains": 2, "save": ("mean", "std", "samples", "prior")},
    "windows": {"window": 64, "side": 80, "prior": "none"},
    "langevin, all known": {"method": "langevin", "missing": 0.0, "save": ("mean", "std", "samples")},
    "langevin, calibrated": {"method": "langevin", "calibrate": True, "iterations": 8, "burn_in": 4},
    "langevin, two chains at once": {"method": "langevin", "chains": 2, "side": 40},
    "langevin, refined": {"sampler": "langevin", "estimator": "refined"},
    "langevin, one hole": {"method": "langevin", "hole": True, "side": 80},
}
"""What a run of diffbcp, or of another method that is named, can be like."""
CASES = {**{name: {"method": name} for name in METHODS if METHODS[name].own_prior is None}, **OTHERS}


def options_of(device, *, chunks=0, missing=0, side=0, hole=False, **given):
    """A short run; an option that its method does not take is left out."""
    short = {"iterations": 5, "burn_in": 2, "rank": 6, "block": 4, "patch_size": 8, "finish": 2}
    wanted = {"method": "diffbcp", **short, **given, "device": device}
    if wanted["method"] == "diffbcp":
        wanted = {"sampler": "split-gibbs", **wanted}
        if wanted["sampler"] == "langevin":
            wanted = {key: value for key, value in wanted.items() if key not in OF_SPLIT_GIBBS}
    return resolve({key: value for key, value in wanted.items() if takes(wanted["method"], key)})


def damaged(*, side=32, missing=0.5, hole=False, **_):
    pixels = picture(side, side).astype(np.float32)
    if hole:
        observed = np.ones(pixels.shape, bool)
        observed[8:14, 10:20] = False
        return pixels, observed
    return pixels, np.random.default_rng(1).random(pixels.shape) >= missing


def tiny_prior(device, dtype=torch.float32, **more):
    torch.manual_seed(0)
    return assemble(natural.build(NETWORK, {}), device=torch.device(device), dtype=dtype, **more)


def run(device, case, prior=None):
    """A whole run; the restoration."""
    options = options_of(device, **case)
    if prior is None and options.prior != "none" and METHODS[options.method].takes_prior:
        prior = tiny_prior(device, scale=options.prior_scale)
    return restore(*damaged(**case), options, prior=prior)


def chains(device, *, prior=None, noise_std=0.1, count=1, burn_in=2, watch=None, **given):
    """Chains of one method."""
    options, where = options_of(device, **given), torch.device(device)
    problem = masked_problem(*damaged(**given), noise_std=noise_std, device=where)
    seeds = Seeds(options.seed, "")
    watch = watch or Watch()
    method = builder(options.method)(problem, prior, options, seeds, watch)
    return Chains(method, seeds, count, burn_in, range(0), where, watch)


# --- what a device does without being waited for ---------------------------------------------------------


def sweep(device):
    """The draws of a whole sweep over the tensor model, up to what the host must know of it."""
    pixels, observed = damaged(side=48)
    image, known = (torch.from_numpy(part).permute(2, 0, 1).to(device) for part in (pixels, observed))
    shape, rng = Patches(3, 48, 48, 8, 4), random.generator(0, device)
    observation = observe(image, known, shape)
    state = initial(observation, 12, Hyper(), rng=rng)
    blocks, coupling = torch.arange(12).tensor_split(3), Coupling(1.0, image)

    def draw():
        with unseen():
            cp_blocks.draw_components(state, observation, coupling, blocks=blocks, budget=2**28, rng=rng)

    return draw


def call(device):
    """A call of the prior, in tiles."""
    prior, x = tiny_prior(device, torch.bfloat16), torch.zeros(2, 3, 64, 48, device=device)

    @torch.no_grad()
    def denoise():
        prior.denoise(x, 0.3), prior.fill(x, x == 0, 0.3)

    return denoise


QUIET = {"sweep": sweep, "call": call}


# --- the same distribution on both -----------------------------------------------------------------------

MOST_DISAGREEMENT = 1.6
"""Of `disagreement`: equal distributions give about 1 with chains that hardly remember; it is a mean over pixels."""


def disagreement(device, method, *, count=4, length=40, burn_in=15, **given):
    """How far the posterior means of a device and of the processor are apart, in standard errors, rms over pixels.

    The standard error comes from the spread of the means of the chains.
    """
    means = []
    for where in ("cpu", device):
        prior = tiny_prior(where) if METHODS[method].takes_prior else None
        chain_means = []
        for seed in range(count):
            run = chains(where, method=method, prior=prior, side=24, seed=seed, iterations=length, **given)
            draws = [info.image.cpu().double() for info in run.steps(length)][burn_in:]
            chain_means.append(torch.stack(draws).mean(0))
        means.append(torch.stack(chain_means))
    here, there = means
    error = (here.var(0).mean() + there.var(0).mean()) / count
    return float(((here.mean(0) - there.mean(0)).square().mean() / error).sqrt())
