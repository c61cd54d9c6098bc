"""Several chains of one photograph, with all that is kept of their draws; can be laid aside and taken up again.

`Chains.steps` yields draws. Between two draws `snapshot` returns everything as tensors and plain values, and
`resume` goes on from there to the same bits: a generator's state is noted after each whole step, so that an
interruption in the middle of one costs that step only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Generator, Tensor

from ..errors import MemoryLimitError
from ..lowrank.cp import State
from ..lowrank.cusp import Cusp
from ..methods.split_gibbs import Chain, Draw, SplitGibbs, make_generator
from .moments import Moments

SMALLEST_BUDGET = 2**20  # bytes for a batch, below which making batches smaller is no use
PROBES = 256  # rows and columns of pixels, at most, whose draws are kept for the diagnostics


@dataclass
class Trace:
    """What happened at each step; noise in [0, 1] units."""

    noise_std: list[float] = field(default_factory=list)
    rank: list[int] = field(default_factory=list)
    active_rank: list[int] = field(default_factory=list)
    rho: list[float | None] = field(default_factory=list)
    change: list[float | None] = field(default_factory=list)
    brightness: list[float] = field(default_factory=list)
    contrast: list[float] = field(default_factory=list)

    def add(self, draw: Draw) -> None:
        """Record one step."""
        self.noise_std.append(draw.noise_std / 2)
        self.rank.append(draw.rank)
        self.active_rank.append(draw.active_rank)
        self.rho.append(draw.rho)
        self.change.append(draw.change / 2 if math.isfinite(draw.change) else None)
        self.brightness.append(float(draw.image.mean(dtype=torch.float64)) / 2 + 0.5)
        self.contrast.append(float(draw.image.std()) / 2)

    def as_dict(self) -> dict[str, list[Any]]:
        """Lists by name, as stored in JSON."""
        return {part.name: getattr(self, part.name) for part in fields(self)}


@dataclass
class _Line:
    """One chain: where it stands, the generator's state there, its trace, and draws of some pixels."""

    rng: Generator
    chain: Chain | None = None
    rng_state: Tensor | None = None
    trace: Trace = field(default_factory=Trace)
    probes: list[Tensor] = field(default_factory=list)  # (h, w) each, after burn-in

    @property
    def steps(self) -> int:
        return len(self.trace.noise_std)


class Chains:
    """Run chains one after the other and keep what the result needs: moments, traces, probes, samples.

    kept: the steps whose draws are kept whole. note: told when batches are made smaller for want of memory.
    """

    def __init__(
        self,
        sampler: SplitGibbs,
        seeds: list[int],
        *,
        burn_in: int,
        kept: range,
        device: torch.device,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.sampler = sampler
        self.burn_in = burn_in
        self.kept = kept
        self.note = note
        self.image = Moments()
        self.prior_image = Moments()
        self.samples: list[Tensor] = []
        self.last: Tensor | None = None
        self._lines = [_Line(make_generator(seed, device)) for seed in seeds]

    @property
    def traces(self) -> list[Trace]:
        """One trace per chain."""
        return [line.trace for line in self._lines]

    def probes(self) -> NDArray[np.float32] | None:
        """Draws of a grid of pixels after burn-in, (chains, draws, h, w), as many as all chains have."""
        count = min(len(line.probes) for line in self._lines)
        if count == 0:
            return None
        draws = torch.stack([torch.stack(line.probes[:count]) for line in self._lines])
        return np.asarray(draws.numpy(), np.float32)

    def steps(self, until: int) -> Iterator[Draw]:
        """Take each chain to `until` steps; yield the draws."""
        for line in self._lines:
            while line.steps < until:
                yield self._step(line)

    def left(self, until: int) -> int:
        """How many draws `steps(until)` will yield."""
        return sum(max(0, until - line.steps) for line in self._lines)

    def _step(self, line: _Line) -> Draw:
        if line.chain is None:
            line.chain = self.sampler.init(rng=line.rng)
        line.chain, draw = self._step_in_memory(line.chain, line.rng)
        line.rng_state = line.rng.get_state()
        line.trace.add(draw)
        self.last = draw.image
        if draw.step >= self.burn_in:
            line.probes.append(_probe(draw.image))
            self.image.add(draw.image)
            if draw.prior_image is not None:
                self.prior_image.add(draw.prior_image)
        if draw.step in self.kept:
            self.samples.append(draw.image)
        return draw

    def _step_in_memory(self, chain: Chain, rng: Generator) -> tuple[Chain, Draw]:
        """One step; when a GPU's memory runs out, again with batches of half the size, which changes no draw."""
        before = rng.get_state()
        while True:
            try:
                return self.sampler.step(chain, rng=rng)
            except torch.OutOfMemoryError as error:
                budget = self.sampler.settings.budget // 2
                if budget < SMALLEST_BUDGET:
                    raise MemoryLimitError(
                        "the photograph does not fit in the device's memory",
                        hint="--device cpu, or a smaller --rank",
                    ) from error
            self.sampler.settings = replace(self.sampler.settings, budget=budget)
            self.note(f"out of memory: going on with batches of {budget // 2**20} MB")
            torch.cuda.empty_cache()
            rng.set_state(before)

    def snapshot(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything, as tensors on the CPU by name and as plain values."""
        tensors: dict[str, Tensor] = {}
        for name, moments in (("image", self.image), ("prior_image", self.prior_image)):
            tensors |= {f"{name}.{part}": value for part, value in moments.tensors().items()}
        tensors |= {f"samples.{i}": sample for i, sample in enumerate(self.samples)}
        if self.last is not None:
            tensors["last"] = self.last
        plain = []
        for index, line in enumerate(self._lines):
            tensors |= {f"chains.{index}.{part}": value for part, value in _tensors(line).items()}
            plain.append({"trace": line.trace.as_dict(), "state": _numbers(line.chain)})
        counts = {"image": self.image.count, "prior_image": self.prior_image.count}
        whole = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
        return whole, {"chains": plain, "counts": counts}

    def resume(self, tensors: dict[str, Tensor], plain: dict[str, Any]) -> None:
        """Go on from a snapshot of chains with the same photograph, seeds and settings."""
        device = self.sampler.observation.device
        for name in ("image", "prior_image"):
            moments = Moments.of(plain["counts"][name], _below(tensors, name, device))
            setattr(self, name, moments)
        self.samples = list(_numbered(tensors, "samples", device))
        self.last = tensors["last"].to(device) if "last" in tensors else None
        for index, (line, values) in enumerate(zip(self._lines, plain["chains"], strict=True)):
            _take_up(line, _below(tensors, f"chains.{index}", None), values, device)


def _probe(image: Tensor) -> Tensor:
    """Every n-th pixel, mean of the channels, in [0, 1] units: (C, H, W) -> (h, w) with sides <= PROBES."""
    step = -(-max(image.shape[-2:]) // PROBES)
    return (image[:, ::step, ::step].mean(0) / 2 + 0.5).float().cpu()


def _tensors(line: _Line) -> dict[str, Tensor]:
    """The tensors of one chain by name."""
    found: dict[str, Tensor] = {}
    if line.probes:
        found["probes"] = torch.stack(line.probes)
    if line.chain is None or line.rng_state is None:
        return found
    state = line.chain.state
    found |= {f"left.{i}": f for i, f in enumerate(state.left)}
    found |= {f"right.{i}": f for i, f in enumerate(state.right)}
    found |= {name: getattr(state.cusp, name) for name in ("shrinkage", "allocation", "sticks")}
    found["weights"] = state.weights
    pictures = {"image": line.chain.image, "prior_image": line.chain.prior_image, "rng": line.rng_state}
    return found | {name: value for name, value in pictures.items() if value is not None}


def _numbers(chain: Chain | None) -> dict[str, Any] | None:
    if chain is None:
        return None
    return {"step": chain.step, "noise_precision": chain.state.noise_precision}


def _take_up(line: _Line, tensors: dict[str, Tensor], plain: dict[str, Any], device: torch.device) -> None:
    line.trace = Trace(**plain["trace"])
    line.probes = list(tensors["probes"]) if "probes" in tensors else []
    if plain["state"] is None or "rng" not in tensors:
        return
    line.rng.set_state(tensors["rng"])
    line.rng_state = tensors["rng"]
    state = State(
        left=tuple(_numbered(tensors, "left", device)),
        right=tuple(_numbered(tensors, "right", device)),
        weights=tensors["weights"].to(device),
        cusp=Cusp(tensors["shrinkage"], tensors["allocation"], tensors["sticks"]),
        noise_precision=plain["state"]["noise_precision"],
    )
    if any(factor.shape[1:] != state.weights.shape for factor in (*state.left, *state.right)):
        raise ValueError("factors and weights do not fit")
    image, z = (tensors[n].to(device) if n in tensors else None for n in ("image", "prior_image"))
    line.chain = Chain(state, z, image, plain["state"]["step"])


def _below(tensors: dict[str, Tensor], prefix: str, device: torch.device | None) -> dict[str, Tensor]:
    """The tensors whose names begin with `prefix.`, without it."""
    start = f"{prefix}."
    return {
        name.removeprefix(start): value if device is None else value.to(device)
        for name, value in tensors.items()
        if name.startswith(start)
    }


def _numbered(tensors: dict[str, Tensor], prefix: str, device: torch.device) -> Iterator[Tensor]:
    """The tensors prefix.0, prefix.1, ... in order."""
    found = _below(tensors, prefix, device)
    return (found[name] for name in sorted(found, key=int))
