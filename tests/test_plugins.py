"""The example package in a virtual environment of its own: its method and its network have names there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.numpy import save_file

from diffbcp_cli.errors import ModelError, UsageError
from diffbcp_cli.methods import builder
from diffbcp_cli.options import METHODS, check
from diffbcp_cli.options.methods import MethodEntry
from diffbcp_cli.options.plugins import WithPlugins
from diffbcp_cli.priors.networks import builder_of

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "docs" / "plugin-example"


def add_package(folder: Path, monkeypatch, entry_points: str, code: str) -> None:
    """Put a package of one module, `broken_plugin`, on the path."""
    (folder / "broken_plugin.py").write_text(code)
    about = folder / "broken_plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.delitem(sys.modules, "broken_plugin", raising=False)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nothing_of_this_name", "ModuleNotFoundError"),
        ("METHOD = 3", "no MethodEntry"),
        (
            "from diffbcp_cli.options.methods import MethodEntry\nMETHOD = MethodEntry('x', ())",
            "no dotted path",
        ),
        ("1 / 0", "ZeroDivisionError"),
    ],
)
def test_a_plugin_that_cannot_be_used_is_named(tmp_path, monkeypatch, code, why):
    add_package(tmp_path, monkeypatch, "[diffbcp.methods]\nbroken = broken_plugin:METHOD\n", code)
    table = WithPlugins(MethodEntry, METHODS)
    with pytest.raises(UsageError, match=f"the method broken of the package broken-plugin .*{why}"):
        table["broken"]
    assert isinstance(dict(table.everything())["broken"], UsageError)
    with pytest.raises(KeyError):
        table["unheard-of"]


def test_a_method_of_this_package_is_never_replaced(tmp_path, monkeypatch):
    add_package(tmp_path, monkeypatch, "[diffbcp.methods]\ntelea = broken_plugin:METHOD\n", "METHOD = 3")
    assert WithPlugins(MethodEntry, METHODS)["telea"] is METHODS["telea"]
    assert check({"method": "telea"}) == {"method": "telea"}
    with pytest.raises(UsageError, match="--method cannot be 'unheard-of'"):
        check({"method": "unheard-of"})


def test_a_network_that_cannot_be_loaded_is_named(tmp_path, monkeypatch):
    add_package(
        tmp_path, monkeypatch, "[diffbcp.priors]\nbroken = broken_plugin:build\n", "import nothing_here"
    )
    with pytest.raises(ModelError, match="the network broken of another package cannot be loaded"):
        builder_of("broken")
    assert builder_of("unheard-of") is None
    assert builder("telea").__module__.endswith("classical")


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """The interpreter of a virtual environment that sees this one's packages, with the example installed."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    find = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(
        subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    )
    (site / "parent.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n")
    source = folder / "example"
    shutil.copytree(EXAMPLE, source)
    install = ["install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", str(source)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(python), *install], check=True)
    return python


@pytest.mark.slow
def test_the_example_package_is_installed_and_used(python, tmp_path):
    def diffbcp(*words: str) -> str:
        command = [python, "-m", "diffbcp_cli", *words]
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=clean, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    ramp = np.repeat(np.linspace(40, 200, 32)[None, :, None], 32, 0).repeat(3, 2)
    Image.fromarray(ramp.astype(np.uint8)).save(tmp_path / "photo.png")
    hole = np.zeros((32, 32), np.uint8)
    hole[12:18, 12:18] = 255
    Image.fromarray(hole).save(tmp_path / "mask.png")
    assert "four neighbours" in diffbcp("methods", "list")
    assert "Harmonic filling" in diffbcp("methods", "info", "harmonic")
    diffbcp("inpaint", "photo.png", "--mask", "mask.png", "--method", "harmonic", "-o", "out")
    restored = np.asarray(Image.open(tmp_path / "out" / "photo.mean.png")).astype(float)
    assert np.abs(restored - ramp).max() < 2  # a ramp is harmonic
    record = json.loads((tmp_path / "out" / "photo.json").read_text())
    assert (record["options"]["method"], record["iterations"]) == ("harmonic", 200)
    folder = tmp_path / "my-prior"
    folder.mkdir()
    (folder / "config.json").write_text('{"architecture": "three-by-three", "image_channels": 3}')
    weight = np.zeros((3, 3, 3, 3), np.float32)
    weight[range(3), range(3)] = 1 / 9
    save_file({"mix.weight": weight, "mix.bias": np.zeros(3, np.float32)}, folder / "model.safetensors")
    assert diffbcp("models", "verify", "my-prior").startswith("ok")
    steps = ("--method", "diffpir", "--iterations", "3", "--sigma", "0.05", "--prior", "my-prior")
    diffbcp("inpaint", "photo.png", "--mask", "mask.png", *steps, "-o", "prior")
    assert (tmp_path / "prior" / "photo.mean.png").exists()
