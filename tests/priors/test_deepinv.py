"""Priors as denoisers of deepinv and back, with the real package where it is installed."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from diffbcp_cli import inpaint
from diffbcp_cli.priors import load_prior
from diffbcp_cli.priors.deepinv import FromDeepinv, as_deepinv
from diffbcp_cli.priors.gaussian import GaussianPrior

pytestmark = pytest.mark.filterwarnings("ignore")  # of packages that deepinv imports


@pytest.fixture(scope="module")
def deepinv():
    """The package. It imports torchvision, whose compiled half is for one build of torch only and not used here."""
    pytest.importorskip("deepinv.models" if importlib.util.find_spec("deepinv") is None else "torch")
    found = importlib.util.find_spec("torchvision")
    text = Path(found.origin).with_name("_meta_registrations.py").read_text() if found else ""
    names = {*re.findall(r'torchvision::(\w+)"', text), *re.findall(r'register_meta\("(\w+)"\)', text)}
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in names:
        try:
            library.define(f"{name}(Tensor a) -> Tensor")
        except RuntimeError:  # it is there
            break
    import deepinv

    return deepinv


def test_a_denoiser_of_deepinv_is_a_prior(deepinv):
    median = deepinv.models.MedianFilter(3)
    prior = FromDeepinv(median)
    x = torch.rand(2, 3, 16, 16) * 2 - 1
    assert torch.allclose(prior.denoise(x, 0.2), median(x))  # a median knows no scale
    image = np.linspace(0, 1, 24)[:, None, None] * np.ones((24, 24, 3))
    known = np.random.default_rng(0).random((24, 24)) < 0.5
    total_variation = FromDeepinv(deepinv.models.TVDenoiser(n_it_max=20))
    found = inpaint(image, known, prior=total_variation, iterations=6, burn_in=3, rank=4)
    assert np.abs(found.mean - image).mean() < 0.1


def test_levels_and_pictures_are_on_the_scale_of_deepinv(deepinv):
    heard = []

    class Listens(deepinv.models.Denoiser):
        def forward(self, x, sigma, **ignored):
            heard.append((x.min().item(), x.max().item(), sigma.tolist()))
            return x

    x = torch.tensor([-1.0, 1.0]).reshape(1, 1, 1, 2)
    assert torch.equal(FromDeepinv(Listens()).denoise(x, 0.5), x)
    assert heard == [(0.0, 1.0, [0.25])]


@pytest.mark.parametrize("sigma", [0.1, torch.tensor([0.1, 0.3])])
def test_a_prior_is_a_denoiser_of_deepinv(deepinv, sigma):
    exact = GaussianPrior(torch.zeros(()), torch.tensor(0.25))
    model = as_deepinv(exact)
    assert isinstance(model, deepinv.models.Denoiser)
    y = torch.rand(2, 1, 8, 8)
    level = torch.as_tensor(sigma).expand(2)
    wanted = exact.denoise(y * 2 - 1, 2 * level) / 2 + 0.5
    assert torch.allclose(model(y, sigma), wanted)


@pytest.mark.slow
def test_the_bundled_prior_works_in_an_algorithm_of_deepinv(deepinv):
    model = load_prior("natural", device="cpu").as_deepinv()
    torch.manual_seed(0)
    clean = torch.linspace(0, 1, 32).expand(1, 3, 32, 32)
    mask = (torch.rand(1, 1, 32, 32) < 0.7).float().expand(1, 3, 32, 32)
    physics = deepinv.physics.Inpainting((3, 32, 32), mask=mask[0])
    prior = deepinv.optim.prior.PnP(denoiser=model)
    step = {"stepsize": 1.0, "g_param": 0.15}
    solve = deepinv.optim.optim_builder(
        "PGD", prior=prior, data_fidelity=deepinv.optim.L2(), max_iter=40, params_algo=step
    )
    y = physics(clean)
    assert (solve(y, physics) - clean).abs().mean() < 0.3 * (y - clean).abs().mean()


def test_without_the_package_it_is_said(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "deepinv", None)
    monkeypatch.setitem(sys.modules, "deepinv.models", None)
    with pytest.raises(Exception, match="needs the package deepinv"):
        as_deepinv(GaussianPrior(torch.zeros(()), torch.tensor(0.25)))
