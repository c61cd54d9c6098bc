"""Where the time goes in a whole run with the default options: tensor model, network, the rest.

    python benchmarks/chain.py --photo photo.png --recipe paper-uniform-0.7

The process does nothing else, so its peak memory is that of the run.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from common import Pixels, damage, save, table
from quality import RECIPES
from torch import Tensor

from diffbcp_cli.devices import synchronize
from diffbcp_cli.jobs.session import open_prior, restore
from diffbcp_cli.methods import cp_step
from diffbcp_cli.options import check
from diffbcp_cli.photos.photo import read_photo


class Timed:
    """A prior that counts its calls and their seconds."""

    def __init__(self, prior: Any) -> None:
        self.prior, self.traits = prior, prior.traits
        self.calls, self.seconds = 0, 0.0

    def denoise(self, x: Tensor, sigma: Tensor | float) -> Tensor:
        """The prior's own answer, timed."""
        return self._timed(self.prior.denoise, x, sigma)

    def fill(self, x: Tensor, known: Tensor, sigma: Tensor | float) -> Tensor:
        """The prior's own answer, timed."""
        return self._timed(self.prior.fill, x, known, sigma)

    def _timed(self, answer: Callable[..., Tensor], *given: Any) -> Tensor:
        device = given[0].device
        synchronize(device)
        started = time.perf_counter()
        result = answer(*given)
        synchronize(device)
        self.calls += 1
        self.seconds += time.perf_counter() - started
        return result


def measure(photo: Path, recipe: str, options: dict[str, Any]) -> dict[str, Any]:
    """Run once; return seconds by part, calls and peak memory."""
    return measure_pixels(read_photo(photo).pixels, photo.stem, recipe, options)


def measure_pixels(truth: Pixels, name: str, recipe: str, options: dict[str, Any]) -> dict[str, Any]:
    """The same of a picture (H, W, 3) on [0, 1]."""
    pixels, observed = damage(truth, recipe, 0.025, 0, name)
    cfg = check(options)
    prior = Timed(open_prior(cfg))
    sweeps, plain = [0.0], cp_step.sweep

    def timed(*args: Any, **named: Any) -> Any:
        started = time.perf_counter()
        result = plain(*args, **named)  # ends with a look at the device
        sweeps[0] += time.perf_counter() - started
        return result

    cp_step.sweep = timed
    started = time.perf_counter()
    restored = restore(pixels, observed, cfg, prior=prior, name=name)
    total = time.perf_counter() - started
    return {
        "recipe": recipe,
        "iterations": restored.trace.steps,
        "total": total,
        "tensor model": sweeps[0],
        "network": prior.seconds,
        "calls": prior.calls,
        "rest": total - sweeps[0] - prior.seconds,
        "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photo", type=Path, required=True)
    parser.add_argument("--recipe", action="append", default=[], choices=RECIPES)
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    import tomllib

    options = tomllib.loads("\n".join(args.set))
    results = [measure(args.photo, mask, options) for mask in args.recipe or ["paper-uniform-0.7"]]
    head = list(results[0])
    rows = [[f"{r[k]:.2f}" if isinstance(r[k], float) else str(r[k]) for k in head] for r in results]
    print(table([head, *rows]))
    save(args.json, results)


if __name__ == "__main__":
    main()
