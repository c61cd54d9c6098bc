"""The registry of architectures: laws that each one keeps, and a new one in one line."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file
from small_networks import SMALL, with_weights
from torch import nn

from diffbcp_cli.errors import ModelError
from diffbcp_cli.priors import Traits, load_prior
from diffbcp_cli.priors.networks import ARCHITECTURES, Architecture, builder_of
from diffbcp_cli.priors.precondition import EDM


def write(folder, name, state):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"architecture": name, **SMALL[name]}))
    save_file(state, folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_folder_of_each_architecture_loads_with_its_traits(name, tmp_path):
    built, state = with_weights(name)
    prior = load_prior(str(write(tmp_path / "prior", name, state)), device="cpu")
    assert prior.traits == built.traits
    assert prior.identity.architecture == name
    x = torch.rand(2, 3, 16, 16)
    expected = built.precondition(built.network.eval())(x, torch.tensor([0.3, 0.3]))
    torch.testing.assert_close(prior.denoise(x, 0.3), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_architecture_is_differentiable(name):
    built, _ = with_weights(name)
    denoiser = built.precondition(built.network.double().eval().requires_grad_(False))
    rng = torch.Generator().manual_seed(1)
    x, direction, weight = (torch.randn(1, 3, 16, 16, generator=rng, dtype=torch.float64) for _ in range(3))
    sigma = torch.tensor([0.3], dtype=torch.float64)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad((weight * denoiser(x, sigma)).sum(), x)
    step = 1e-5 * direction
    ahead, behind = ((weight * denoiser(x.detach() + s, sigma)).sum() for s in (step, -step))
    assert float((gradient * direction).sum()) == pytest.approx(float((ahead - behind) / 2e-5), rel=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_each_architecture_refuses_options_that_it_does_not_know(name):
    with pytest.raises((TypeError, ValueError, ModelError), match="wings"):
        builder_of(name)({**SMALL[name], "wings": 2}, {})


class OneConvolution(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Conv2d(3, 3, width, padding=width // 2)

    def forward(self, x, c_noise):
        return self.layer(x)


def build(options, schedule):
    return Architecture(OneConvolution(**options), EDM, Traits(channels=3), multiple=1)


def test_a_new_architecture_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(ARCHITECTURES, "one-convolution", f"{__name__}:build")
    monkeypatch.setitem(SMALL, "one-convolution", {"width": 3})
    network = OneConvolution(3)
    folder = write(tmp_path / "prior", "one-convolution", network.state_dict())
    prior, x = load_prior(str(folder), device="cpu"), torch.rand(1, 3, 20, 30)
    torch.testing.assert_close(prior.denoise(x, 0.2), EDM(network)(x, torch.tensor([0.2])))


def test_an_unknown_architecture_is_refused_with_the_known_ones(tmp_path, monkeypatch):
    monkeypatch.setitem(SMALL, "vit", {})
    folder = write(tmp_path / "prior", "vit", {"weight": torch.zeros(1)})
    with pytest.raises(ModelError, match="is a vit, which diffbcp cannot run") as caught:
        load_prior(str(folder), device="cpu")
    assert "natural, adm, ddpm" in (caught.value.hint or "")
