"""The answer for people and other tools: shown in a notebook, handed to xarray and ArviZ."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .. import problem
from ..errors import UsageError
from ..photos import pictures
from ..run.loop import kept_steps
from ..units import Bools, Floats

if TYPE_CHECKING:
    from PIL import Image

_PAGE = """<div style="font:13px sans-serif"><div style="display:flex;flex-wrap:wrap;gap:12px;align-items:flex-end">
<div style="max-width:100%"><div style="position:relative;width:{width}px;max-width:100%">
<img alt="restored" style="display:block;width:100%;image-rendering:{rendering}" src="data:image/png;base64,{after}">
<img alt="before" style="position:absolute;left:0;top:0;width:100%;height:100%;image-rendering:{rendering};\
clip-path:inset(0 50% 0 0)" src="data:image/png;base64,{before}"></div>
<input type="range" min="0" max="100" value="50" aria-label="before and after" style="width:{width}px;max-width:100%"
oninput="this.previousElementSibling.children[1].style.clipPath='inset(0 '+(100-this.value)+'% 0 0)'">
</div>{uncertainty}</div><div>{facts}</div></div>"""
_STD = '<img alt="standard deviation" style="display:block;width:{}px;max-width:100%" src="data:image/png;base64,{}">'


@dataclass(frozen=True)
class Restoration(problem.Restoration):
    """A restored picture, with what it was made from. before: (H, W, C) on [0, 1]; known: the entries given."""

    before: Floats | None = None
    known: Bools | None = None

    @property
    def image(self) -> Image.Image:
        """The restored picture as a PIL image of 8 bits."""
        from PIL import Image

        values = np.rint(self._unit_mean().clip(0, 1) * 255).astype(np.uint8)
        return Image.fromarray(values[..., 0] if values.shape[2] == 1 else values)

    @property
    def factors(self) -> tuple[Mapping[str, NDArray[Any]], ...]:
        """Of each chain, the tensors of its last state: factors, weights and shrinkage of a low-rank model."""
        return self.states

    def _unit_mean(self) -> Floats:
        values: NDArray[Any] = self.mean.reshape(*self.mean.shape[:2], -1)  # of the type of the image
        top = 2 ** (8 * values.itemsize) - 1 if values.dtype.kind == "u" else 1
        return values.astype(np.float32) / np.float32(top)

    def _repr_png_(self) -> bytes:
        after = self._unit_mean()
        before = after if self.before is None else self.before
        known = np.ones(after.shape, bool) if self.known is None else self.known
        std = np.zeros_like(after) if self.std is None else self.std.reshape(after.shape)
        return pictures.panel(before, known, after, std)

    def _repr_html_(self) -> str:
        after = self._unit_mean()
        before = after if self.before is None else self.before
        heat = None if self.std is None else pictures.heat_map(self.std, title="uncertainty (std)")
        width = min(720, max(320, after.shape[1]))
        return _PAGE.format(
            width=width,
            rendering="pixelated" if after.shape[1] < width else "auto",
            after=_text(pictures.shown(after)),
            before=_text(pictures.shown(before)),
            uncertainty="" if heat is None else _STD.format(round(1.2 * width), _text(heat)),
            facts=" · ".join(self._facts()),
        )

    def _facts(self) -> Iterator[str]:
        yield f"{self.mean.shape[1]} x {self.mean.shape[0]}"
        if self.known is not None and not self.known.all():
            yield f"{1 - self.known.mean():.1%} filled"
        if self.noise:
            yield f"noise {self.noise['std']:.4f}"
        yield f"{self.options.method}, {self.seconds:.1f} s"

    def to_xarray(self) -> Any:
        """An xarray.Dataset: mean and std over y, x and channel; samples over chain and draw too; the traces."""
        xarray = _optional("xarray")
        of_picture = ("y", "x", "channel")
        found: dict[str, Any] = {"mean": (of_picture, self._unit_mean())}
        shape = found["mean"][1].shape
        if self.std is not None:
            found["std"] = (of_picture, self.std.reshape(shape))
        if self.samples is not None:
            found["samples"] = (
                ("chain", "draw", *of_picture),
                self.by_chain().reshape(*self._chains(), *shape),
            )
        for name, values in self._traces().items():
            found[name] = (("chain", "iteration"), values)
        about = {"method": self.options.method, "seed": self.options.seed, "unit": "1 is white"}
        return xarray.Dataset(found, attrs=about)

    def to_arviz(self) -> Any:
        """An arviz.InferenceData: the draws of the picture by chain, and the traces at the same iterations."""
        arviz = _optional("arviz")
        if self.samples is None:
            raise UsageError("there are no draws to hand over", hint="save=['samples']")
        chains, draws = self._chains()
        shape = self._unit_mean().shape
        steps = [step for step in kept_steps(self.options) if step < self.trace.steps]
        posterior = {"image": self.by_chain().reshape(chains, draws, *shape)}
        stats = (
            {name: values[:, steps] for name, values in self._traces().items()} if len(steps) == draws else {}
        )
        noise = {name: stats.pop(name) for name in ("noise_std",) if name in stats}
        return arviz.from_dict(
            posterior={**posterior, **noise},
            sample_stats=stats or None,
            coords={"y": np.arange(shape[0]), "x": np.arange(shape[1]), "channel": np.arange(shape[2])},
            dims={"image": ["y", "x", "channel"]},
        )

    def by_chain(self) -> Floats:
        """The draws (chains, draws, ...), as many of each chain as all have."""
        if self.samples is None:
            raise UsageError("there are no draws", hint="save=['samples']")
        places = [np.flatnonzero(np.equal(self.owners, chain)) for chain in range(len(self.traces))]
        draws = min(map(len, places))
        return np.stack([self.samples[found[:draws]] for found in places])

    def _chains(self) -> tuple[int, int]:
        found = self.by_chain().shape
        return int(found[0]), int(found[1])

    def _traces(self) -> dict[str, NDArray[np.float64]]:
        """The traces (chains, iterations) that all chains have."""
        steps = min((trace.steps for trace in self.traces), default=0)
        names = [
            name for name in (self.traces[0] if steps else ()) if all(name in one for one in self.traces)
        ]
        return {
            name: np.array(
                [[np.nan if v is None else v for v in one[name][:steps]] for one in self.traces], float
            )
            for name in names
        }


def _text(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _optional(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"this needs the package {name}", hint=f"pip install {name}") from error
