"""Networks, each in one file, by the name that config.json calls them under `architecture`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from ...errors import ModelError
from ..base import Traits

if TYPE_CHECKING:
    from torch import Tensor, nn

    from ..precondition import Denoiser

MOST_BLOCKS = 64  # of one kind in a network; they are counted before it is built
GROUP = "diffbcp.priors"  # entry points of other packages: a name of config.json and its builder

ARCHITECTURES = {
    "natural": "diffbcp_cli.priors.networks.natural:build",
    "adm": "diffbcp_cli.priors.networks.adm:build",
    "ddpm": "diffbcp_cli.priors.networks.ddpm:build",
    "ffdnet": "diffbcp_cli.priors.networks.ffdnet:build",
    "drunet": "diffbcp_cli.priors.networks.drunet:build",
    "UNet2DModel": "diffbcp_cli.priors.networks.ddpm:build",  # as diffusers calls it
}
"""Where the `Builder` of each architecture is, as module:function. A new network is a file and a line here."""


@dataclass(frozen=True)
class Architecture:
    """A network without its weights, and how it serves as a prior.

    network: may be on the meta device. precondition: turns the network, as it will be called, into a denoiser.
    multiple: height and width of its input must be multiples of this. tolerant: it was measured to lose nothing in
    bfloat16. rename: brings the keys of older state dicts up to date.
    """

    network: nn.Module
    precondition: Callable[[nn.Module], Denoiser]
    traits: Traits
    multiple: int
    tolerant: bool = False
    rename: Callable[[Mapping[str, Tensor]], dict[str, Tensor]] = dict


Builder = Callable[[Mapping[str, Any], Mapping[str, Any]], Architecture]
"""From the options in config.json (without `architecture`) and in scheduler_config.json (empty if there is none).

Options that describe no network raise a TypeError, a ValueError or a ModelError.
"""


def builder_of(name: str) -> Builder | None:
    """The builder of an architecture, ours or of another package, imported only now; None if the name is unknown."""
    if name in ARCHITECTURES:
        ours: Builder = EntryPoint(name, ARCHITECTURES[name], group=GROUP).load()
        return ours
    point = next(iter(entry_points(group=GROUP, name=name)), None)
    if point is None:
        return None
    try:
        builder: Builder = point.load()
    except Exception as error:  # its code may raise anything
        raise ModelError(f"the network {name} of another package cannot be loaded: {error}") from error
    return builder


def check_channels(channels: int) -> None:
    """Refuse a network that is not for pixels, such as one for latents."""
    if channels not in (1, 3):
        raise ModelError(f"the network takes {channels} channels; a prior for photographs takes 3, or 1")


def whole_numbers(most: int, *sizes: int) -> None:
    """Refuse sizes that are not whole numbers from 1 to `most`."""
    if any(type(one) is not int or not 1 <= one <= most for one in sizes):
        raise ValueError(f"sizes are whole numbers from 1 to {most}")
