"""The table of methods: what is known of each without importing it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .plugins import WithPlugins


@dataclass(frozen=True)
class MethodEntry:
    """What is known of a method without importing it.

    help: what it is, in a few words. options: those that not every method takes. A method that takes --finish
    has the refined picture as its estimate, another one the mean of its draws. needs_prior: --prior none is
    refused. needs_noise: a noise level that is not given is estimated by the prior before the first draw.
    takes_prior: False if a prior has nothing to do in it. own_prior: the one that it is made of, which takes the
    place of --prior. defaults: other values than those of the table for options that are not set. module: the file
    in methods/, if it does not have the name of the method. path: it has as many steps as --iterations says, of
    which the last one counts, and takes none of OF_CHAINS. least_window: the smallest side of a window around damage;
    a method that fits one model to the picture needs much of it.
    """

    help: str
    options: tuple[str, ...]
    needs_prior: bool = False
    needs_noise: bool = False
    takes_prior: bool = True
    own_prior: str | None = None
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    module: str | None = None
    path: bool = False
    least_window: int = 256


OF_CHAINS = ("burn_in", "thin", "until_converged", "max_iterations", "calibrate")
"""What only a method whose every state is a draw can be asked for."""


_LOW_RANK = (
    *("decomposition", "shrinkage", "rank", "block", "adapt_rank", "adapt_floor", "sweeps", "atom_patches"),
    *("tensorize", "patch_size", "stride", "patch_weights"),
)
_REVERSE = ("rho_min", "rho_max", "solver", "calls")
_ONE_STEP = {"iterations": 1, "burn_in": 0}
_20_STEPS = {"iterations": 20}
_NEAR = 64  # least_window of a method that sees only what is near
_LANGEVIN = {"iterations": 52, "burn_in": 20, "calibrate": True}

OF_SPLIT_GIBBS = (*_LOW_RANK, "coupling", *_REVERSE)
"""Options of diffbcp that only its sampler split-gibbs has. One that is given chooses this sampler."""
SAMPLERS: Mapping[str, Mapping[str, Any]] = {"langevin": _LANGEVIN, "split-gibbs": {}}
"""How diffbcp draws, and the values that go with it."""

METHODS = WithPlugins(MethodEntry)
METHODS |= {
    "diffbcp": MethodEntry(
        "the posterior under a prior; with --sampler split-gibbs the paper's low-rank tensor, held by it",
        ("sampler", "estimator", "finish", *OF_SPLIT_GIBBS),
    ),
    "bcp-gibbs": MethodEntry(
        "the low-rank tensor of diffbcp alone, without a prior: Bayesian CP by Gibbs sampling",
        _LOW_RANK,
        takes_prior=False,
    ),
    "langevin": MethodEntry(
        "the prior alone, by Langevin dynamics: mean and std of one posterior",
        (),
        needs_prior=True,
        defaults=_LANGEVIN,
        least_window=_NEAR,
    ),
    "pnp-dm": MethodEntry(
        "the prior alone; the mean of the draws",
        ("pnp_step", *_REVERSE),
        needs_prior=True,
        needs_noise=True,
        least_window=_NEAR,
    ),
    "diffpir": MethodEntry(
        "denoise, fit the data, go down a noise level; few steps, no std from one run",
        ("start_level", "pir_lambda", "pir_zeta"),
        needs_prior=True,
        needs_noise=True,
        defaults=_20_STEPS,
        path=True,
        least_window=_NEAR,
    ),
    "ddrm": MethodEntry(
        "down the noise levels, the data mixed in entry by entry; few steps, no std from one run",
        ("start_level", "ddrm_eta", "ddrm_eta_b"),
        needs_prior=True,
        needs_noise=True,
        defaults=_20_STEPS,
        path=True,
        least_window=_NEAR,
    ),
    "dps": MethodEntry(
        "reverse diffusion with a gradient step towards the data; slow, no std from one run",
        ("start_level", "dps_zeta"),
        needs_prior=True,
        defaults={"iterations": 1000},
        path=True,
        least_window=_NEAR,
    ),
    "daps": MethodEntry(
        "a clean picture, the data, fresh noise, level by level; slow, no std from one run",
        ("start_level", "ode_steps", "daps_spread"),
        needs_prior=True,
        needs_noise=True,
        defaults={"iterations": 200},
        path=True,
        least_window=_NEAR,
    ),
    "bcp": MethodEntry(
        "variational Bayesian CP of the whole picture: rank, noise and std are inferred",
        ("rank",),
        takes_prior=False,
        defaults={"rank": 100, "iterations": 100},
        path=True,
    ),
    "btr": MethodEntry(
        "variational Bayesian tensor ring over scales: ranks, noise and std are inferred",
        ("rank",),
        takes_prior=False,
        defaults={"rank": 10, "iterations": 40},
        path=True,
    ),
    "tctv": MethodEntry(
        "gradients that are low-rank tensors; keeps the noise of known pixels, no std",
        (),
        takes_prior=False,
        defaults={"iterations": 500},
        path=True,
    ),
    "tctv-soft": MethodEntry(
        "gradients that are low-rank tensors, data up to their noise; no std",
        (),
        needs_noise=True,
        defaults={"iterations": 500},
        module="tctv",
        path=True,
    ),
    "hlrtf": MethodEntry(
        "slices that are products, mixed by a small network, fitted to the picture; no std",
        ("hlrtf_shrink", "hlrtf_gamma"),
        takes_prior=False,
        defaults={"iterations": 1000},
        path=True,
    ),
    "deep-tensor": MethodEntry(
        "factors that an untrained network makes, fitted to the picture; slow, no std",
        ("deep_channels",),
        takes_prior=False,
        defaults={"iterations": 1500},
        path=True,
    ),
    "putt": MethodEntry(
        "a tensor train over the bits of the coordinates, fitted from coarse to fine; no std",
        ("putt_rank", "putt_rate"),
        takes_prior=False,
        defaults={"iterations": 2560},
        path=True,
    ),
    "glon": MethodEntry(
        "GLON-style, a reconstruction: low rank, the prior and a non-local denoiser; no std",
        ("glon_rank", "glon_nonlocal"),
        needs_prior=True,
        needs_noise=True,
        defaults={"iterations": 60},
        path=True,
    ),
    "telea": MethodEntry(
        "fast marching from the known pixels (OpenCV); keeps their noise, no std",
        ("inpaint_radius",),
        takes_prior=False,
        defaults=_ONE_STEP,
        module="classical",
        least_window=_NEAR,
    ),
    "navier-stokes": MethodEntry(
        "isophotes continued into the gaps (OpenCV); keeps the noise of known pixels, no std",
        ("inpaint_radius",),
        takes_prior=False,
        defaults=_ONE_STEP,
        module="classical",
        least_window=_NEAR,
    ),
    "biharmonic": MethodEntry(
        "the smoothest surface through the known pixels (scikit-image); keeps their noise, no std",
        (),
        takes_prior=False,
        defaults=_ONE_STEP,
        module="classical",
        least_window=_NEAR,
    ),
    "nlm": MethodEntry(
        "non-local means (OpenCV) of the picture that Telea's method fills; no std",
        ("nlm_strength",),
        needs_noise=True,
        defaults=_ONE_STEP,
        module="classical",
        least_window=_NEAR,
    ),
    "bm3d": MethodEntry(
        "BM3D (its own package and licence) of the picture that Telea's method fills; no std",
        (),
        needs_noise=True,
        defaults=_ONE_STEP,
        module="classical",
        least_window=_NEAR,
    ),
    "camera": MethodEntry(
        "the noise of cameras and JPEG, by a network for it that also gives the std",
        (),
        needs_prior=True,
        own_prior="camera",
        defaults=_ONE_STEP,
        least_window=_NEAR,
    ),
    "ffdnet": MethodEntry(
        "FFDNet, a network of 2018, on the picture that Telea's method fills; no std",
        (),
        needs_prior=True,
        needs_noise=True,
        own_prior="ffdnet",
        defaults=_ONE_STEP,
        least_window=_NEAR,
    ),
}
"""Every method by the name that `--method` takes; other packages may add to it. An option that none of them lists
belongs to all.

The file of a method has its name, methods/diffbcp.py, unless `module` says another one.
"""
