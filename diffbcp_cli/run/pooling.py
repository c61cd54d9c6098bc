"""What the windows of a photograph say together: noise, diagnostics and calibration of the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from ..problem import Restoration
from ..units import Floats
from .posterior import noise_of


@dataclass(frozen=True)
class Part:
    """What one window says beside its pixels; the names are those of Restoration."""

    noise: Mapping[str, float]
    numbers: Mapping[str, Any]
    traces: tuple[Mapping[str, list[Any]], ...]
    warnings: tuple[str, ...] = ()
    maps: Mapping[str, Floats] = field(default_factory=dict)

    @classmethod
    def of(cls, restored: Restoration) -> Part:
        """All that is needed of a window once it is blended in."""
        maps = {name: values for name, values in restored.maps.items() if name != "prior"}
        traces = tuple(dict(trace) for trace in restored.traces)
        return cls(dict(restored.noise or {}), restored.numbers, traces, restored.warnings, maps)


def pool(parts: Sequence[Part], burn_in: int) -> Part:
    """One part for all: the noise of the middle window, the diagnostics of the worst, the means of the rest."""
    worst = min(parts, key=lambda part: float(part.numbers["diagnostics"]["pixels_converged"]))
    traces = tuple(trace for part in parts for trace in part.traces)
    by_prior = [part.noise for part in parts if part.numbers["noise_source"] == "prior"]
    chain_noise = noise_of(traces, burn_in)
    noise = sorted(by_prior, key=lambda one: one["std"])[len(by_prior) // 2] if by_prior else chain_noise
    numbers = {
        **worst.numbers,
        "noise_source": "prior" if by_prior else worst.numbers["noise_source"],
        "draws": min(part.numbers["draws"] for part in parts),
        "calibration": _calibration(_given(parts, "calibration")),
    }
    if "rank" in worst.numbers:
        numbers |= {"rank": parts[0].numbers["rank"], "tensor_noise": chain_noise}
    if "finish_level" in worst.numbers:
        levels, weights = _given(parts, "finish_level"), _given(parts, "finish_weights")
        numbers["finish_level"] = fmean(levels) if levels else None
        numbers["finish_weights"] = _means(weights) if weights else None
    return Part(noise, numbers, traces, worst.warnings, worst.maps)


def _given(parts: Sequence[Part], name: str) -> list[Any]:
    return [part.numbers[name] for part in parts if part.numbers.get(name) is not None]


def _means(lists: Sequence[Sequence[float]], weights: Sequence[float] | None = None) -> list[float]:
    """Entry by entry over lists of one length; shorter ones count as padded with zeros."""
    longest = max(len(values) for values in lists)
    rows = [[*values, *[0.0] * (longest - len(values))] for values in lists]
    return [fmean(column, weights) for column in zip(*rows, strict=True)]


def _calibration(found: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The calibrations of all windows, each by its number of held-out entries. Each window kept its own factor."""
    if not found:
        return None
    counts = [float(one["held_out"]) for one in found]
    shown = next((one for one in found if one["held_out_shape"] == "strokes"), found[0])
    lists = ("factors", "held_out_coverage_before", "held_out_coverage")
    return {
        **shown,
        "factor": fmean([one["factor"] for one in found], counts),
        **{name: _means([one[name] for one in found], counts) for name in lists},
        "held_out": sum(one["held_out"] for one in found),
    }
