"""The ADM network against recorded facts: keys, shapes, and outputs of the original."""

from __future__ import annotations

import json
from pathlib import Path

import formula
import numpy as np
import pytest
import torch

from diffbcp_cli.errors import ModelError
from diffbcp_cli.priors.networks.adm import AdmConfig, AdmUNet

DATA = Path(__file__).parents[2] / "data"
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
    """Formula weights amplify rounding ten thousand times, and processors round sums in orders of their own.

    So float64 is compared with what was recorded in float32: half of the entries agree to its rounding, 1e-5,
    and the others as far as float32 on this machine agrees with float64, or as it did on the recording one.
    """
    threads(1)
    x, t = formula.image(32), torch.tensor([3.25, 711.0])
    network = formula.fill(AdmUNet(config_of(name)))
    here = network(x, t).numpy()
    exact = network.double()(x.double(), t).numpy()
    recorded = np.load(DATA / "adm_unet_outputs.npz")[name]
    assert np.median(np.abs(exact - recorded)) < 1e-5
    assert np.sqrt(np.mean((exact - recorded) ** 2)) < 1e-3
    assert np.sqrt(np.mean((here - recorded) ** 2)) < 5e-3
    assert np.abs(exact).mean() == pytest.approx(SPEC[name]["out_abs_mean"], rel=1e-3)


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
