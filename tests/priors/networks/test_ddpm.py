"""The DDPM network against `diffusers` itself."""

from __future__ import annotations

import pytest
import torch

from diffbcp_cli.errors import ModelError
from diffbcp_cli.priors.networks.ddpm import DdpmConfig, DdpmUNet, modern_keys

diffusers = pytest.importorskip(
    "diffusers", reason="the parity tests compare with diffusers: pip install diffbcp[dev]"
)

SMALL = {
    "sample_size": 32,
    "block_out_channels": (32, 64, 64),
    "down_block_types": ("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    "layers_per_block": 1,
}
# the options of google/ddpm-*-256, other than the widths
GOOGLE = {
    "attention_head_dim": None,
    "downsample_padding": 0,
    "flip_sin_to_cos": False,
    "freq_shift": 1,
    "norm_eps": 1e-6,
    "layers_per_block": 2,
}
VARIANTS = {
    "defaults": {},
    "google": GOOGLE,
    "scale-shift": {"resnet_time_scale_shift": "scale_shift", "attn_norm_num_groups": 16},
    "scale-shift-bare": {"resnet_time_scale_shift": "scale_shift"},
    "resnet-sampling": {"downsample_type": "resnet", "upsample_type": "resnet", "attention_head_dim": 16},
    "scaled-mid": {"mid_block_scale_factor": 1.5, "norm_num_groups": 8, "center_input_sample": True},
    "no-mid-attention": {"add_attention": False, "time_embedding_dim": 96, "out_channels": 6},
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def theirs_and_ours(options):
    torch.manual_seed(0)
    theirs = diffusers.UNet2DModel(**{**SMALL, **options}).eval().requires_grad_(False)
    with torch.no_grad():
        for name, p in theirs.named_parameters():  # norms and biases must count too
            if p.ndim == 1:
                p.copy_(torch.randn_like(p) * 0.2 + name.endswith("weight"))
    ours = DdpmUNet(DdpmConfig.from_dict({**theirs.config})).eval().requires_grad_(False)
    return theirs, ours


@pytest.mark.parametrize("variant", VARIANTS)
def test_equal_to_diffusers(variant):
    theirs, ours = theirs_and_ours(VARIANTS[variant])
    ours.load_state_dict(theirs.state_dict(), strict=True)
    x, t = torch.randn(2, 3, 32, 32), torch.tensor([3.25, 711.0])
    expected = theirs(x, t).sample
    assert expected.std() > 0.1
    assert (ours(x, t) - expected).abs().max() < 1e-5


def test_checkpoints_from_before_the_renaming_load():
    theirs, ours = theirs_and_ours(GOOGLE)
    state = theirs.state_dict()
    names = {".to_q.": ".query.", ".to_k.": ".key.", ".to_v.": ".value.", ".to_out.0.": ".proj_attn."}
    old = {}
    for key, value in state.items():
        for new, former in names.items():
            key = key.replace(new, former)
        old[key] = value
    assert old.keys() != state.keys()
    assert modern_keys(old).keys() == state.keys()
    ours.load_state_dict(modern_keys(old), strict=True)


def test_the_google_networks_have_their_published_size():
    options = {
        **GOOGLE,
        "sample_size": 256,
        "block_out_channels": [128, 128, 256, 256, 512, 512],
        "down_block_types": ["DownBlock2D"] * 4 + ["AttnDownBlock2D", "DownBlock2D"],
        "up_block_types": ["UpBlock2D", "AttnUpBlock2D"] + ["UpBlock2D"] * 4,
    }
    with torch.device("meta"):
        ours = DdpmUNet(DdpmConfig.from_dict(options))
        theirs = diffusers.UNet2DModel(**options)
    shapes = {key: value.shape for key, value in ours.state_dict().items()}
    assert shapes == {key: value.shape for key, value in theirs.state_dict().items()}
    assert sum(p.numel() for p in ours.parameters()) == 113_673_219
    assert ours.config.multiple == 32


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_class_embeds": 10}, "num_class_embeds 10 is not supported"),
        ({"time_embedding_type": "fourier"}, "time_embedding_type 'fourier' is not supported"),
        ({"down_block_types": ["SkipDownBlock2D"] * 4}, "blocks of kind SkipDownBlock2D"),
        ({"block_out_channels": [32]}, "equally long"),
        ({"resnet_time_scale_shift": "spatial"}, "resnet_time_scale_shift 'spatial'"),
        ({"encoder_hid_dim": 5}, "does not know: encoder_hid_dim"),
    ],
)
def test_what_it_cannot_do_is_refused(options, words):
    with pytest.raises(ModelError, match=words):
        DdpmConfig.from_dict(options)


def test_sample_size_may_be_a_pair_or_missing():
    assert DdpmConfig.from_dict({"sample_size": [48, 64]}).sample_size == 64
    assert DdpmConfig.from_dict({"sample_size": None}).sample_size == 256
