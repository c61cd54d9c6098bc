"""The frontier of rank adaptation: which rule keeps how much quality at what cost.

    python benchmarks/rank.py --data photos/ [--image house --image dog] [--json rank.json]

A row per rule: no adaptation, then floors on the energy of spike components, then the joint update of all
components without adaptation. Seconds are medians per iteration after burn-in, compared inside one run.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import damage, photographs, save, table

from diffbcp_cli.watch import Progress, Watch

RULES: dict[str, dict[str, Any]] = {
    "no adaptation": {"adapt_rank": False},
    "floor 0.03": {"adapt_floor": 0.03},
    "floor 0.1": {"adapt_floor": 0.1},
    "floor 0.3": {"adapt_floor": 0.3},
    "floor 1": {"adapt_floor": 1.0},
    "floor 3": {"adapt_floor": 3.0},
    "floor 3 from rank 100 (--fast)": {"adapt_floor": 3.0, "rank": 100},
    "floor 3 from rank 60": {"adapt_floor": 3.0, "rank": 60},
}


class Clock(Watch):
    """A watch that notes the time of each step."""

    def __init__(self) -> None:
        self.stamps: list[float] = []

    def progress(self, progress: Progress) -> None:
        """Note the time."""
        self.stamps.append(time.perf_counter())


def measure(truth: Any, recipe: str, name: str, options: dict[str, Any], iterations: int) -> dict[str, float]:
    """Restore one photograph without a prior and measure."""
    from diffbcp_cli.jobs.session import restore
    from diffbcp_cli.options import check
    from diffbcp_cli.scoring.metrics import psnr

    pixels, observed = damage(truth, recipe, 0.025, 0, name)
    cfg = check({**options, "prior": "none", "iterations": iterations, "burn_in": iterations * 2 // 5})
    clock = Clock()
    restored = restore(pixels, observed, cfg, prior=None, name=name, watch=clock)
    steps = np.diff(clock.stamps[restored.options.burn_in :])
    return {
        "psnr": psnr(restored.mean.clip(0, 1), truth),
        "rank": restored.trace.rank[-1],
        "seconds": float(np.median(steps)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--image", action="append", default=[])
    parser.add_argument("--recipe", action="append", default=[])
    parser.add_argument("--rule", action="append", default=[], choices=list(RULES))
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    import torch

    torch.set_num_threads(args.threads)
    photos = photographs(args.data, args.image)
    rows, results = [["recipe", "rule", "PSNR", "rank", "s / iteration"]], []
    for recipe in args.recipe or ["paper-uniform-0.7"]:
        for rule, options in ((r, RULES[r]) for r in args.rule or RULES):
            found = [measure(truth, recipe, name, options, args.iterations) for name, truth in photos.items()]
            results.append({"recipe": recipe, "rule": rule, "photographs": list(photos), "found": found})
            mean = {key: statistics.mean(f[key] for f in found) for key in found[0]}
            cells = [f"{mean['psnr']:.2f}", f"{mean['rank']:.0f}", f"{mean['seconds']:.3f}"]
            rows.append([recipe, rule, *cells])
            print(*rows[-1], flush=True)
    print(table(rows))
    save(args.json, results)


if __name__ == "__main__":
    main()
