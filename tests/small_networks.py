"""A small network of each architecture, for the tests."""

from __future__ import annotations

import torch

from diffbcp_cli.priors.networks import builder_of

DDPM = {
    "sample_size": 16,
    "block_out_channels": [8, 8],
    "norm_num_groups": 4,
    "layers_per_block": 1,
    "down_block_types": ["DownBlock2D", "AttnDownBlock2D"],
    "up_block_types": ["AttnUpBlock2D", "UpBlock2D"],
}
SMALL = {  # a small network of each architecture; a new one needs its line here
    "natural": {"channels": [4, 6], "blocks": [1, 1], "embedding_channels": 4},
    "adm": {
        "image_size": 16,
        "model_channels": 32,
        "channel_mult": [1, 1],
        "attention_resolutions": [8],
        "num_head_channels": 16,
    },
    "ddpm": DDPM,
    "ffdnet": {"channels": 8, "layers": 3},
    "drunet": {"channels": [4, 6, 8, 8], "blocks": 1},
    "UNet2DModel": DDPM,
}


def with_weights(name):
    """The architecture, with random weights in its network."""
    built = builder_of(name)(SMALL[name], {})
    torch.manual_seed(0)
    state = {key: 0.1 * torch.randn(value.shape) for key, value in built.network.state_dict().items()}
    built.network.load_state_dict(state, assign=True)
    return built, state
