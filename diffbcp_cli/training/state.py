"""Everything that the next step of the training depends on."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Generator, Tensor

from ..errors import UsageError
from ..priors.networks.natural import Natural
from .muon import Muon
from .settings import TrainSettings

_FILLER = "filler."


@dataclass
class TrainState:
    """Everything that the next step depends on, and the record of the past ones."""

    network: Natural
    average: Natural
    optimizers: tuple[Muon, torch.optim.AdamW]
    rng: Generator
    step: int = 0
    seconds: float = 0.0
    decaying: bool = False
    losses: list[tuple[int, float]] = field(default_factory=list)
    validations: list[tuple[int, dict[str, float]]] = field(default_factory=list)


def fresh_state(settings: TrainSettings, start: Mapping[str, Tensor] | None = None) -> TrainState:
    """The state before the first step.

    start: weights to begin with, of a network with the same channels. Blocks that they do not have begin as
    the identity, and a filler that they do not have as the denoiser, so the network begins as good as they are.
    """
    with torch.random.fork_rng():
        torch.manual_seed(settings.seed)
        network = Natural(settings.network)
    if start is not None:
        _begin_with(network, start)
    average = copy.deepcopy(network).requires_grad_(False)
    optimizers = _optimizers(network, settings)
    return TrainState(network, average, optimizers, rng=torch.Generator().manual_seed(settings.seed))


def _begin_with(network: Natural, start: Mapping[str, Tensor]) -> None:
    """Put weights into a network that may have more blocks, or a filler besides."""
    own = network.state_dict()
    start = {**{_FILLER + key: value for key, value in start.items() if _FILLER + key in own}, **start}
    fits = all(key in own and own[key].shape == value.shape for key, value in start.items())
    grown = own.keys() - start.keys()
    if not fits or any(".blocks." not in key and key != f"{_FILLER}enter_mask.weight" for key in grown):
        raise UsageError(
            "the weights to begin with are of a network of another shape",
            hint=f"channels {network.config.channels}, at most {network.config.blocks} blocks",
        )
    network.load_state_dict({**own, **start})


def _optimizers(network: Natural, settings: TrainSettings) -> tuple[Muon, torch.optim.AdamW]:
    """Muon for the convolutions inside, AdamW for the first and last one, biases, and the noise embedding."""
    inner: list[torch.nn.Parameter] = []
    rest: list[torch.nn.Parameter] = []
    for name, parameter in network.named_parameters():
        is_inner = parameter.ndim == 4 and not name.removeprefix(_FILLER).startswith(("enter", "leave"))
        (inner if is_inner else rest).append(parameter)
    rate = settings.learning_rate
    return (
        Muon(inner, lr=rate, dtype=settings.dtype),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.99), weight_decay=0.0),
    )
