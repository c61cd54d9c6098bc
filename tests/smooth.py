"""Smooth Gaussian pictures with their exact prior, and short runs."""

from __future__ import annotations

import numpy as np
import torch
from matplotlib.cbook import get_sample_data
from PIL import Image

from diffbcp_cli.options import Options
from diffbcp_cli.priors.gaussian import GaussianPrior


def smooth_prior(side=16, scale=3.0):
    """Gaussian pictures (1, side, side) whose neighbours are alike, as an exact prior."""
    place = torch.arange(side, dtype=torch.float64)
    one = torch.exp(-0.5 * ((place[:, None] - place) / scale) ** 2) + 1e-6 * torch.eye(side)
    covariance = 0.25 * torch.kron(one, one)
    var, basis = torch.linalg.eigh(covariance)
    return GaussianPrior(torch.zeros(()).double(), var.clamp_min(0).reshape(1, side, side), basis=basis)


def draw(prior, rng):
    flat = prior.basis @ (prior.var.flatten().sqrt() * torch.randn(prior.var.numel(), generator=rng).double())
    return flat.reshape(prior.var.shape)


def config(**options):
    base = {"sampler": "split-gibbs", "iterations": 8, "burn_in": 3, "rank": 6, "device": "cpu", "calls": 1}
    return Options(**{**base, **options})


def photograph():
    with get_sample_data("grace_hopper.jpg") as file:
        return np.asarray(Image.open(file).convert("RGB"), np.float32)[100:228, 180:308] / 255
