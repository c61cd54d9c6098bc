"""DRUNet by key and shape, and with weights by formula against a forward pass of its own, written from the paper."""

from __future__ import annotations

import formula
import pytest
import torch
from torch.nn import functional as F

from diffbcp_cli.priors import find
from diffbcp_cli.priors.networks import builder_of
from diffbcp_cli.priors.networks.drunet import DRUNet, DRUNetConfig

WIDTHS = (64, 128, 256, 512)


def published():
    """Every key of the published colour network and its shape."""
    shapes = {"m_head.weight": (64, 4, 3, 3), "m_tail.weight": (3, 64, 3, 3)}
    runs = [(f"m_down{k + 1}", 0, WIDTHS[k]) for k in range(3)] + [("m_body", 0, WIDTHS[3])]
    runs += [(f"m_up{k + 1}", 1, WIDTHS[k]) for k in range(3)]
    for name, first, wide in runs:
        for block in range(first, first + 4):
            shapes |= {f"{name}.{block}.res.{layer}.weight": (wide, wide, 3, 3) for layer in (0, 2)}
    for k in range(3):
        shapes[f"m_down{k + 1}.4.weight"] = (WIDTHS[k + 1], WIDTHS[k], 2, 2)
        shapes[f"m_up{k + 1}.0.weight"] = (WIDTHS[k + 1], WIDTHS[k], 2, 2)  # transposed: inside first
    return shapes


def test_keys_and_shapes_are_those_of_the_published_network():
    source = find("drunet")
    options = {key: value for key, value in source.config.items() if key != "architecture"}
    with torch.device("meta"):
        built = builder_of("drunet")(options, {})
    assert {key: tuple(value.shape) for key, value in built.network.state_dict().items()} == published()
    assert sum(value.numel() for value in built.network.parameters()) == source.parameters == 32_640_960
    assert built.multiple == 8


def blocks(state, name, first, h):
    for index in range(first, first + 2):
        inner = F.conv2d(h, state[f"{name}.{index}.res.0.weight"], padding=1).clamp(min=0)
        h = h + F.conv2d(inner, state[f"{name}.{index}.res.2.weight"], padding=1)
    return h


def forward(state, pixels, level):
    """Pixels (1, 3, H, W) on [0, 1] to the clean ones, with two blocks a scale; a name for every skip."""
    told = torch.full_like(pixels[:, :1], level)
    whole = F.conv2d(torch.cat([pixels, told], 1), state["m_head.weight"], padding=1)
    ways, h = [whole], whole
    for k in (1, 2, 3):
        h = F.conv2d(blocks(state, f"m_down{k}", 0, h), state[f"m_down{k}.2.weight"], stride=2)
        ways.append(h)
    h = blocks(state, "m_body", 0, h)
    for k in (3, 2, 1):
        h = F.conv_transpose2d(h + ways[k], state[f"m_up{k}.0.weight"], stride=2)
        h = blocks(state, f"m_up{k}", 1, h)
    return F.conv2d(h + ways[0], state["m_tail.weight"], padding=1)


@pytest.mark.parametrize("level", [10, 50, 120])
def test_the_prior_is_the_published_network_with_weights_by_formula(level):
    options = {"channels": [8, 12, 16, 20], "blocks": 2}
    built = builder_of("drunet")(options, {})
    network = formula.fill(built.network).double()
    state = {key: value.double() for key, value in network.state_dict().items()}
    x, sigma = formula.image(32, batch=1).double(), 2 * level / 255
    a = min(1.0, 50 / level)
    expected = (2 * forward(state, (a * x + 1) / 2, a * level / 255) - 1) / a
    found = built.precondition(network)(x, torch.tensor([sigma], dtype=torch.float64))
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)


def test_a_network_without_biases_scales_with_its_input():
    """F(a x, a sigma) = a F(x, sigma): it knows levels relative to the contrast only."""
    network = formula.fill(DRUNet(DRUNetConfig(channels=(4, 4, 4, 4), blocks=1))).double()
    x, level = formula.image(16, batch=1).double(), torch.tensor([0.1], dtype=torch.float64)
    torch.testing.assert_close(network(0.3 * x, 0.3 * level), 0.3 * network(x, level))
