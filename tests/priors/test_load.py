"""Loading priors: from our layout, that of diffusers, and the Hub; safely, strictly, or with a reason."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import formula
import pytest
import torch
from hub_server import COMMIT, HubServer, Repo
from safetensors.torch import save_file

from diffbcp_cli import priors
from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import ModelError, UsageError
from diffbcp_cli.priors.networks.adm import AdmConfig, AdmUNet
from diffbcp_cli.priors.networks.natural import Natural, NaturalConfig
from diffbcp_cli.priors.precondition import EDM, VP

ADM = {
    "architecture": "adm",
    "image_size": 32,
    "in_channels": 3,
    "model_channels": 32,
    "num_res_blocks": 1,
    "channel_mult": [1, 2],
    "attention_resolutions": [16],
    "num_heads": 4,
    "num_head_channels": 16,
    "learn_sigma": True,
    "use_scale_shift_norm": True,
    "resblock_updown": True,
    "use_new_attention_order": False,
}


@pytest.fixture
def adm() -> AdmUNet:
    torch.manual_seed(0)
    return AdmUNet(AdmConfig.from_dict(ADM)).eval().requires_grad_(False)


@pytest.fixture
def folder(tmp_path: Path, adm: AdmUNet) -> Path:
    """A prior in our own layout."""
    return write(tmp_path / "my-prior", ADM, adm.state_dict())


def write(folder: Path, config: object, state: dict[str, torch.Tensor]) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    save_file({key: value.contiguous() for key, value in state.items()}, folder / "model.safetensors")
    return folder


def test_a_folder_in_our_layout_loads_and_says_what_it_is(folder, adm):
    prior = priors.load_prior(str(folder), device="cpu")
    x = formula.image(32)
    assert torch.equal(prior.network(x, torch.tensor([3.0, 500.0])), adm(x, torch.tensor([3.0, 500.0])))
    sigma = torch.tensor([0.3, 4.0])
    one_by_one = [VP(prior.network)(x[i : i + 1], sigma[i : i + 1]) for i in range(2)]
    assert torch.equal(prior.denoise(x, sigma), torch.cat(one_by_one))
    assert prior.identity.sha256 == priors.sha256_of(folder / "model.safetensors")
    assert prior.identity.as_dict()["architecture"] == "adm"
    assert prior.parameters == sum(p.numel() for p in adm.parameters())
    assert not any(p.requires_grad for p in prior.network.parameters())


def test_any_size_and_grey(folder, adm):
    prior = priors.load_prior(str(folder), device="cpu")
    for shape in [(1, 3, 20, 70), (1, 1, 16, 16), (2, 1, 32, 32)]:
        assert prior.denoise(torch.rand(shape), 0.5).shape == shape
    grey = torch.rand(1, 1, 32, 32)
    expected = VP(adm)(grey.expand(-1, 3, -1, -1), torch.tensor([0.5])).mean(1, keepdim=True)
    assert torch.allclose(prior.denoise(grey, 0.5), expected, atol=1e-6)
    fitted = priors.load_prior(str(folder), device="cpu", scale="fit")
    assert fitted.denoise(torch.rand(1, 3, 48, 20), 0.5).shape == (1, 3, 48, 20)
    with pytest.raises(UsageError, match="unknown scale"):
        priors.load_prior(str(folder), device="cpu", scale="crop")


def test_precision_reaches_the_network_and_nothing_else(folder):
    exact = priors.load_prior(str(folder), device="cpu", precision="fp32")
    lower = priors.load_prior(str(folder), device="cpu", precision="bf16")
    x = formula.image(32, batch=1)
    a, b = exact.denoise(x, 0.3), lower.denoise(x, 0.3)
    assert b.dtype == torch.float32
    assert 0 < (a - b).abs().max() < 0.1
    assert lower.network.out[2].weight.dtype == torch.float32
    assert exact.denoise(x.double(), 0.3).dtype == torch.float64


def test_a_natural_prior_loads_and_takes_images_as_they_are(tmp_path):
    torch.manual_seed(0)
    network = Natural(NaturalConfig(channels=(8, 16), blocks=(1, 1))).eval().requires_grad_(False)
    torch.nn.init.normal_(network.leave.weight, std=0.1)
    path = write(
        tmp_path / "n", {"architecture": "natural", **network.config.options()}, network.state_dict()
    )
    prior = priors.load_prior(str(path), device="cpu")
    x = torch.rand(1, 3, 24, 40)
    assert torch.allclose(prior.denoise(x, 0.3), EDM(network)(x, torch.tensor([0.3])), atol=1e-6)
    assert prior.denoise(torch.rand(1, 1, 17, 33), 0.3).shape == (1, 1, 17, 33)
    lower = priors.load_prior(str(path), device="cpu", precision="bf16")
    assert torch.allclose(lower.denoise(x, 0.3), prior.denoise(x, 0.3), atol=0.05)
    fitted = priors.load_prior(str(path), device="cpu", scale="fit")
    assert fitted.denoise(x, 0.3).shape == x.shape
    assert not torch.allclose(fitted.denoise(x, 0.3), prior.denoise(x, 0.3), atol=1e-3)


@pytest.fixture
def unet2d(tmp_path: Path):
    """A small pipeline saved by diffusers itself, in both of its formats, and the network."""
    diffusers = pytest.importorskip("diffusers", reason="compares with diffusers: pip install diffbcp[dev]")
    torch.manual_seed(0)
    network = diffusers.UNet2DModel(
        sample_size=32,
        block_out_channels=(32, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
    )
    network.eval().requires_grad_(False)
    pipeline = diffusers.DDPMPipeline(network, diffusers.DDPMScheduler())
    pipeline.save_pretrained(tmp_path / "pipeline")
    network.save_pretrained(tmp_path / "bare", safe_serialization=False)
    return tmp_path, network


def test_what_diffusers_saves_loads_and_computes_the_same(unet2d):
    root, network = unet2d
    x, t, sigma = torch.randn(2, 3, 32, 32), torch.tensor([3.25, 711.0]), torch.tensor([0.3, 1.5])
    for layout, file in {
        "pipeline": "diffusion_pytorch_model.safetensors",
        "bare": "diffusion_pytorch_model.bin",
    }.items():
        prior = priors.load_prior(str(root / layout), device="cpu")
        assert prior.identity.file == file
        assert (prior.network(x, t) - network(x, t).sample).abs().max() < 1e-5
        theirs = VP(lambda y, c: network(y, c).sample)(x, sigma)
        assert (prior.denoise(x, sigma) - theirs).abs().max() < 1e-5


def test_a_schedule_that_is_not_linear_epsilon_is_refused(unet2d):
    path = unet2d[0] / "pipeline" / "scheduler" / "scheduler_config.json"
    options = json.loads(path.read_text())
    for name, value in {"prediction_type": "v_prediction", "beta_schedule": "squaredcos_cap_v2"}.items():
        path.write_text(json.dumps({**options, name: value}))
        with pytest.raises(ModelError, match=f"{name} '{value}' in scheduler_config.json is not supported"):
            priors.load_prior(str(unet2d[0] / "pipeline"), device="cpu")
    path.write_text(json.dumps({**options, "beta_end": 0.01, "num_train_timesteps": 500}))
    prior = priors.load_prior(str(unet2d[0] / "pipeline"), device="cpu")
    x = torch.randn(1, 3, 32, 32)
    vp = VP(lambda y, c: unet2d[1](y, c).sample, beta_end=0.01, steps=500)
    assert (prior.denoise(x, 0.4) - vp(x, torch.tensor([0.4]))).abs().max() < 1e-5


class Malice:
    """Pickles into a call of os.mkdir."""

    def __init__(self, target: Path) -> None:
        self.target = str(target)

    def __reduce__(self):
        return os.mkdir, (self.target,)


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("torch", "wants to run code (posix.mkdir)"),
        ("pickle 2", "wants to run code (posix.mkdir)"),
        ("pickle 4", "might run code"),
    ],
)
def test_a_pickle_that_wants_code_is_not_run_and_the_message_says_why(tmp_path, folder, how, why, capsys):
    target = tmp_path / "executed"
    (folder / "model.safetensors").unlink()
    bad = folder / "diffusion_pytorch_model.bin"
    if how == "torch":
        torch.save({"weight": torch.zeros(3), "more": Malice(target)}, bad)
    else:
        bad.write_bytes(pickle.dumps({"more": Malice(target)}, protocol=int(how[-1])))
    assert run(["models", "verify", str(folder)]) == 4
    assert not target.exists()
    said = capsys.readouterr().err
    assert f"diffusion_pytorch_model.bin was refused: it is a pickle that {why}" in said
    with bad.open("rb") as stream:  # the trap works: plain pickle falls into it
        torch.load(stream, weights_only=False) if how == "torch" else pickle.load(stream)
    assert target.exists()


def test_the_difference_between_weights_and_network_is_short_and_readable(tmp_path, adm):
    state = dict(adm.state_dict())
    state["extra.weight"] = torch.zeros(1)
    for key in [key for key in state if key.startswith("input_blocks.1")]:
        del state[key]
    state["out.2.weight"] = torch.zeros(3, 32, 3, 3)
    folder = write(tmp_path / "odd", ADM, state)
    with pytest.raises(ModelError) as caught:
        priors.load_prior(str(folder), device="cpu")
    assert caught.value.message == (
        "the weights do not fit the network: 10 missing (input_blocks.1.0.emb_layers.1.bias, "
        "input_blocks.1.0.emb_layers.1.weight, input_blocks.1.0.in_layers.0.bias, …); "
        "1 unexpected (extra.weight); 1 of another shape (out.2.weight (3, 32, 3, 3) for (6, 32, 3, 3))"
    )


def test_a_truncated_file_is_an_error(folder, adm):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(ModelError, match=r"model.safetensors cannot be read"):
        priors.load_prior(str(folder), device="cpu")
    path.unlink()
    torch.save(adm.state_dict(), folder / "pytorch_model.bin")
    whole = (folder / "pytorch_model.bin").read_bytes()
    (folder / "pytorch_model.bin").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ModelError, match=r"pytorch_model.bin cannot be read"):
        priors.load_prior(str(folder), device="cpu")


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (None, "is not a prior: it has no config.json"),
        ("{", "config.json cannot be read"),
        ([1], "config.json is not a JSON object"),
        ({"hidden": 3}, "its config.json names no architecture"),
        ({"architecture": "vit"}, "is a vit, which diffbcp cannot run"),
        ({"_class_name": "UNet2DConditionModel"}, "is a UNet2DConditionModel, which diffbcp cannot run"),
        ({**ADM, "in_channels": 4}, "takes 4 channels"),
        ({**ADM, "channel_mult": 3}, "does not describe a network of kind adm"),
        ({"architecture": "natural", "depth": 3}, "does not describe a network of kind natural"),
    ],
)
def test_a_folder_that_is_not_a_prior_is_an_error(folder, config, words):
    path = folder / "config.json"
    if config is None:
        path.unlink()
    else:
        path.write_text(config if isinstance(config, str) else json.dumps(config))
    with pytest.raises(ModelError, match=words) as caught:
        priors.load_prior(str(folder), device="cpu")
    assert caught.value.exit_code == 4


LOAD = """
import json, sys, torch
from diffbcp_cli.priors import load_prior
prior = load_prior(sys.argv[1], device="cpu")
x = torch.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32)
print(json.dumps({**prior.identity.as_dict(), "sum": prior.denoise(x, 0.5).sum().item()}))
"""


@pytest.mark.slow
def test_any_hub_id_loads_and_then_needs_no_hub(unet2d, tmp_path):
    folder = unet2d[0] / "bare"  # like google/ddpm-*: a pickle, and the schedule beside it
    (folder / "scheduler_config.json").write_text('{"beta_schedule": "linear", "beta_end": 0.015}')
    env = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    env |= {"HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}

    def load(**more: str) -> dict[str, object]:
        command = [sys.executable, "-c", LOAD, "someone/unet"]
        done = subprocess.run(
            command, env={**env, **more}, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    with HubServer(someone__unet=Repo.of(folder)) as hub:
        first = load(HF_ENDPOINT=hub.url)
    assert first["revision"] == COMMIT
    assert load(HF_ENDPOINT=hub.url, HF_HUB_OFFLINE="1") == first
    here = priors.load_prior(str(folder), device="cpu")
    x = torch.linspace(-1, 1, 3 * 32 * 32).reshape(1, 3, 32, 32)
    assert first["sum"] == pytest.approx(here.denoise(x, 0.5).sum().item(), abs=1e-3)
