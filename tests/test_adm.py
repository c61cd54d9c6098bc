"""The ADM network against recorded facts: keys, shapes, and outputs of the original."""

from __future__ import annotations

import json
from pathlib import Path

import formula
import numpy as np
import pytest
import torch

from diffbcp_cli.diffusion.adm import AdmConfig, AdmUNet
from diffbcp_cli.errors import ModelError

DATA = Path(__file__).parent / "data"
SPEC = json.loads((DATA / "adm_unet_spec.json").read_text())
TINY = ("tiny-updown", "tiny-conv-newattn")


def config_of(name: str) -> AdmConfig:
    recorded = SPEC[name]["config"]
    return AdmConfig(
        image_size=recorded["image_size"],
        model_channels=recorded["mc"],
        num_res_blocks=recorded["nrb"],
        channel_mult=tuple(recorded["mult"]),
        attention_resolutions=tuple(int(r) for r in recorded["attn"].split(",")),
        num_heads=recorded["heads"],
        num_head_channels=recorded["hc"],
        learn_sigma=recorded["learn"],
        use_scale_shift_norm=recorded["ssn"],
        resblock_updown=recorded["updown"],
        use_new_attention_order=recorded["newattn"],
    )


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", TINY)
def test_outputs_equal_those_of_the_original_network(name, threads):
    # formula weights amplify rounding ten thousand times: only with two threads do the sums run as recorded
    threads(2)
    network = formula.fill(AdmUNet(config_of(name)))
    out = network(formula.image(32), torch.tensor([3.25, 711.0]))
    recorded = np.load(DATA / "adm_unet_outputs.npz")[name]
    assert np.abs(out.numpy() - recorded).max() < 1e-5


@pytest.mark.parametrize("name", TINY)
def test_outputs_stay_within_rounding_of_the_original_in_any_order_of_sums(name, threads):
    threads(1)
    network = formula.fill(AdmUNet(config_of(name))).double()
    out = network(formula.image(32).double(), torch.tensor([3.25, 711.0]))
    recorded = np.load(DATA / "adm_unet_outputs.npz")[name]
    assert np.sqrt(np.mean((out.numpy() - recorded) ** 2)) < 1e-3
    assert out.abs().mean().item() == pytest.approx(SPEC[name]["out_abs_mean"], rel=1e-3)


@pytest.mark.parametrize("name", [*TINY, "ffhq", "imagenet"])
def test_keys_and_shapes_equal_those_of_the_checkpoint(name):
    with torch.device("meta"):
        network = AdmUNet(config_of(name))
    ours = {key: list(value.shape) for key, value in network.state_dict().items()}
    assert ours == SPEC[name]["keys"]
    if "params" in SPEC[name]:
        assert sum(p.numel() for p in network.parameters()) == SPEC[name]["params"]


def test_the_two_attention_orders_differ(threads):
    threads(1)
    config = config_of("tiny-conv-newattn")
    new = formula.fill(AdmUNet(config))
    old = AdmUNet(AdmConfig(**{**config.__dict__, "use_new_attention_order": False})).eval()
    old.load_state_dict(new.state_dict())
    t = torch.tensor([5.0, 5.0])
    assert (new(formula.image(32), t) - old(formula.image(32), t)).abs().max() > 1e-3


def test_config_reads_lists_and_refuses_what_it_does_not_know():
    config = AdmConfig.from_dict(
        {"architecture": "adm", "channel_mult": [1, 2], "attention_resolutions": [], "dropout": 0.1}
    )
    assert config.channel_mult == (1, 2)
    assert config.multiple == 2
    with pytest.raises(ModelError, match="does not know: class_cond"):
        AdmConfig.from_dict({"class_cond": True})
    with pytest.raises(ModelError, match="multiple of 32"):
        AdmConfig.from_dict({"model_channels": 20})
    with pytest.raises(ModelError, match="halved 5 times"):
        AdmConfig.from_dict({"image_size": 40})
