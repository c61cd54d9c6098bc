"""The settings of a training run, and how long it lasts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch

from ..errors import UsageError
from ..priors.networks.natural import NaturalConfig
from .camera import BORDER

PRECISIONS = ("fp32", "bf16")
NOISES = ("white", "camera")

BUNDLED = NaturalConfig(
    (96, 128, 192), (2, 2, 2), takes_mask=True, filler_channels=(64, 128, 192), filler_blocks=(1, 2, 2)
)
"""The shape of the bundled prior `natural`."""


def network_for(noise: str, first: NaturalConfig | None = None) -> NaturalConfig:
    """The network for a kind of noise: a denoiser with a filler for white noise, a blind one for that of cameras.

    first: the shape of the network whose weights it begins with, which it keeps.
    """
    if noise not in NOISES:
        raise UsageError(f"unknown noise {noise!r}", hint=f"--noise {'|'.join(NOISES)}")
    shape = first or BUNDLED
    if noise == "white":
        return shape if shape.takes_levels else replace(shape, takes_mask=True, blind=False)
    alone = replace(shape, takes_mask=False, takes_levels=False, filler_channels=None, filler_blocks=None)
    return replace(alone, blind=True)


@dataclass(frozen=True)
class TrainSettings:
    """Everything that decides what a step does, apart from the photographs and the plan.

    warm_up, decay_share, ema, clip: steps of linear warm-up, share of the plan with a decaying learning rate, decay
    of the weight average, and the largest gradient norm.
    noise_median, noise_spread: ln(sigma) ~ N(ln noise_median, noise_spread^2) on [-1, 1], cut off at three standard
    deviations. The sampler calls the prior at sigma 0.1 to 1, the refinement at 0.01 to 0.1.
    zoom_share, zoom_most: this share of the crops is cut up to zoom_most times larger and scaled down.
    grey_share: this share of the crops is grey, with the same noise in every channel.
    mask_share, mask_noise: this share of the crops has missing entries, and mask_noise in place of noise_median.
    These crops train the filler and the others the denoiser, so a share of 0 or 1 leaves one of the two unchanged.
    fill_share: for a network that takes levels. In this share of the crops with a mask, nothing is known about the
    missing entries. In the others they are observed with more noise than the rest.
    weight_decay: of the inner convolutions (optim.py). They forget over 1 / (learning_rate weight_decay) steps.
    relative: divide the squared error of each crop by its own size, so that a step lowers its logarithm, as PSNR
    counts it. Otherwise the EDM weight 1 / c_out^2 applies, and crops with much texture count most.
    precision: of the network, fp32 or bf16. The weights and their average are always float32.
    """

    network: NaturalConfig = field(default_factory=lambda: NaturalConfig(takes_mask=True))
    batch_size: int = 16
    crop: int = 64
    learning_rate: float = 1e-3
    warm_up: int = 200
    decay_share: float = 0.5
    ema: float = 0.999
    clip: float = 1.0
    weight_decay: float = 0.0
    noise_median: float = 0.16
    noise_spread: float = 1.1
    zoom_share: float = 0.6
    zoom_most: float = 2.5
    grey_share: float = 0.1
    mask_share: float = 0.5
    mask_noise: float = 0.05
    fill_share: float = 0.6
    relative: bool = False
    precision: str = "fp32"
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings that cannot be trained with."""
        multiple = self.network.multiple
        if self.crop < multiple or self.crop % multiple:
            raise UsageError(
                f"a crop of {self.crop} pixels does not fit the network",
                hint=f"--crop takes a multiple of {multiple}",
            )
        if self.batch_size < 1 or not 0 < self.learning_rate < math.inf:
            raise UsageError("the batch size and the learning rate must be positive")
        if not 0 <= self.weight_decay * self.learning_rate < 1:
            raise UsageError("the weight decay must not be negative, and below 1 / learning rate")
        if not 0 <= self.fill_share <= 1:
            raise UsageError(f"{self.fill_share:g} is not a share of the crops")
        if not 0 <= self.mask_share <= 1:
            raise UsageError(
                f"{self.mask_share:g} is not a share of the crops", hint="--mask-share takes 0 to 1"
            )
        if self.precision not in PRECISIONS:
            raise UsageError(
                f"unknown precision {self.precision!r}", hint=f"--precision {'|'.join(PRECISIONS)}"
            )

    @property
    def cut(self) -> int:
        """The side of what is cut out of a photograph for a crop."""
        return self.crop + BORDER if self.network.blind else self.crop

    @property
    def dtype(self) -> torch.dtype:
        """The number type of the network's layers."""
        return torch.bfloat16 if self.precision == "bf16" else torch.float32


@dataclass(frozen=True)
class Plan:
    """How long to train: a number of steps, or minutes of training time over all resumed runs."""

    steps: int | None = None
    minutes: float | None = None

    def __post_init__(self) -> None:
        """Require exactly one of the two, and require it to be positive."""
        if (self.steps is None) == (self.minutes is None):
            raise UsageError("give either steps or minutes", hint="--minutes 120")
        if not 0 < (self.steps or self.minutes or 0) < math.inf:
            raise UsageError("the number of steps or minutes must be positive", hint="--minutes 120")

    def progress(self, step: int, seconds: float) -> float:
        """The share of the plan that is done after these steps and seconds; 1 is the end."""
        if self.steps is not None:
            return step / self.steps
        assert self.minutes is not None
        return seconds / (60 * self.minutes)
