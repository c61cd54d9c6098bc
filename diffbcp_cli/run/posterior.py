"""What is kept of the draws: running moments, traces, a grid of pixels for the diagnostics, some whole draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import interpolate

from ..methods.base import Info
from ..problem import Trace
from ..transfer import add_up, fetch, sums
from ..units import level_to_unit, std_to_unit, value_to_unit, values_to_unit

FRAME_SIDE = 320  # pixels of the longer side of a film, at most
MISFIT = 0.5  # by how much the variance that a prior states of a picture may be wrong, as a share
PROBES = 256  # rows and columns of pixels, at most, whose draws are kept for the diagnostics


@dataclass
class Moments:
    """Mean and variance of the tensors added so far (Welford), in float64 on the CPU or float32 elsewhere."""

    count: int = 0
    centre: Tensor | None = None
    square: Tensor | None = None

    def add(self, value: Tensor) -> None:
        """Take one more draw into account."""
        value = value.double() if value.device.type == "cpu" else value
        self.count += 1
        if self.centre is None or self.square is None:
            self.centre, self.square = value.clone(), torch.zeros_like(value)
            return
        delta = value - self.centre
        self.centre = self.centre + delta / self.count
        self.square = self.square + delta * (value - self.centre)

    @property
    def mean(self) -> Tensor:
        """Mean of the draws."""
        if self.centre is None:
            raise ValueError("no draw has been added")
        return self.centre

    @property
    def std(self) -> Tensor:
        """Standard deviation of the draws, zero when there is only one."""
        if self.square is None:
            raise ValueError("no draw has been added")
        return (self.square / max(1, self.count - 1)).sqrt()


@dataclass
class Posterior:
    """The draws of all chains of one problem, summed up.

    image, prior_image: moments of X and of the prior's image after burn-in. stated: those of the variance that a
    method states itself. samples: whole draws of X, if asked for; owners: the chain of each.
    traces, probes: one for each chain; a probe is a thinned grid of pixels, (h, w) in [0, 1] units. last: the
    latest draw. frames: small pictures (h, w, C) of the first chain, levels 0..255, if a film was asked for.
    predicted: of each chain, (2, C, H, W) mean and std before the entries that are held out were used.
    """

    burn_in: int
    image: Moments = field(default_factory=Moments)
    prior_image: Moments = field(default_factory=Moments)
    samples: list[Tensor] = field(default_factory=list)
    traces: list[Trace] = field(default_factory=list)
    probes: list[list[Tensor]] = field(default_factory=list)
    last: Tensor | None = None
    frames: list[Tensor] = field(default_factory=list)
    stated: Moments = field(default_factory=Moments)
    owners: list[int] = field(default_factory=list)
    predicted: list[Tensor] = field(default_factory=list)

    def __post_init__(self) -> None:
        """A checkpoint holds traces as plain dictionaries."""
        self.traces = [Trace(trace) for trace in self.traces]

    @property
    def std(self) -> Tensor:
        """The standard deviation of the picture: spread of the draws, and what the method states of each."""
        if not self.stated.count:
            return self.image.std
        return (self.image.std.square() + self.stated.mean).sqrt()

    def add(self, chain: int, info: Info, *, keep: bool, film: bool = False) -> None:
        """Take one step of a chain into account; keep: hold on to the whole draw; film: to a small picture of it."""
        trace, step = self.traces[chain], self.traces[chain].steps
        numbers, probed = _looked_at(info)
        trace.add(numbers)
        self.last = info.image
        if step >= self.burn_in:
            self.probes[chain].append(probed)
            self.image.add(info.image)
            if info.prior_image is not None:
                self.prior_image.add(info.prior_image)
            if info.std is not None:
                self.stated.add(info.std.square())
        if info.predicted is not None:
            self.predicted.append(info.predicted)
        if keep:
            self.samples.append((info.image if info.draw is None else info.draw).cpu())
            self.owners.append(chain)
        if film:
            self.frames.append(_frame(info.image))

    def close(self) -> None:
        """A run that was interrupted during burn-in has its latest draw and nothing else."""
        if self.image.count == 0 and self.last is not None:
            self.image.add(self.last)

    def noise(self) -> dict[str, float]:
        """The noise of the draws after burn-in: mean and 90 % interval of its std, in [0, 1] units.

        Empty if the method knows of no noise.
        """
        return noise_of(self.traces, self.burn_in)

    def grid(self) -> NDArray[np.float32] | None:
        """Draws of a grid of pixels after burn-in, (chains, draws, h, w), as many as all chains have."""
        count = min(len(probes) for probes in self.probes)
        if count == 0:
            return None
        draws = torch.stack([torch.stack(probes[:count]) for probes in self.probes])
        return np.asarray(draws.numpy(), np.float32)


def noise_of(traces: Sequence[Mapping[str, list[Any]]], burn_in: int) -> dict[str, float]:
    """The noise std of all traces after burn-in: its mean and its 90 % interval; empty if they have none.

    free: the share of the noise that the prior tells from the picture, where a trace has it. The rest it judges by
    the variance that it states of the picture, so the interval takes in what a wrong one would do.
    """
    # after an interruption a chain may have no step
    drawn = [trace["noise_std"] for trace in traces if "noise_std" in trace]
    if not drawn:
        return {}
    kept = np.concatenate([values[burn_in:] or values for values in drawn])
    low, high = np.quantile(kept, [0.05, 0.95])
    free = [trace["free"][-1] for trace in traces if trace.get("free")]
    share = np.mean([value for value in free if value is not None] or [1.0])
    wrong = (
        MISFIT * (1 - share) / max(share, MISFIT)
    )  # of the variance, if the prior is as wrong as it may be
    lower, upper = low * np.sqrt(max(0.0, 1 - wrong)), high * np.sqrt(1 + wrong / 2)
    return {"std": float(kept.mean()), "lower": float(lower), "upper": float(upper)}


def _looked_at(info: Info) -> tuple[dict[str, float | None], Tensor]:
    """One row of the trace, in [0, 1] units, and the probe (h, w), in one copy from the device.

    rho stays on [-1, 1], as the option that bounds it.
    """
    numbers = dict(info.numbers)
    change = numbers.pop("change", None)
    noise = {} if info.noise_std is None else {"noise_std": level_to_unit(info.noise_std)}
    moved = [] if info.change is None else [info.change]
    parts, contrast, probed, *rest = fetch(sums(info.image), info.image.std(), probe(info.image), *moved)
    change = float(rest[0]) if rest else change
    row = {
        **noise,
        **numbers,
        "change": None if change is None else level_to_unit(change),
        "brightness": value_to_unit(add_up(parts) / info.image.numel()),
        "contrast": level_to_unit(float(contrast)),
    }
    return row, probed.float()


def probe(image: Tensor) -> Tensor:
    """Every n-th pixel, mean of the channels, in [0, 1] units: (C, H, W) -> (h, w) with sides <= PROBES."""
    return values_to_unit(_thinned(image)).float()


def probe_var(std: Tensor) -> Tensor:
    """The variance of `probe` of a picture with this std, at most: as if its channels were wrong together."""
    return torch.as_tensor(std_to_unit(_thinned(std)[None])[..., 0]).square()


def _thinned(image: Tensor) -> Tensor:
    step = -(-max(image.shape[-2:]) // PROBES)
    return image[:, ::step, ::step].mean(0)


def _frame(image: Tensor) -> Tensor:
    """A small picture of a draw: (C, H, W) on [-1, 1] -> (h, w, C) levels 0..255 with sides <= FRAME_SIDE."""
    height, width = image.shape[-2:]
    scale = min(1.0, FRAME_SIDE / max(height, width))
    size = (max(1, round(height * scale)), max(1, round(width * scale)))
    small = interpolate(image[None].float(), size, mode="area")[0]
    levels = (values_to_unit(small).clamp(0, 1) * 255).round()
    return levels.to(torch.uint8).permute(1, 2, 0).contiguous().cpu()
