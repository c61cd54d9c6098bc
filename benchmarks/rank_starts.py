"""Where the rank goes from different starts: its trace, and the PSNR, on crops of photographs.

    python benchmarks/rank_starts.py --data photos/ --image house --image coffee [--plot rank.png] [--json rank.json]

Bayesian CP without a prior, so that the rank alone decides. 70 % of the entries are missing, the noise is 0.025.
The rank adapts up to the end of burn-in, four fifths of the iterations.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from common import damage, photographs, save, table

STARTS = (10, 50, 200, 400)


def measure(truth: Any, name: str, start: int, iterations: int) -> dict[str, Any]:
    """Restore one crop from one start; its ranks by iteration, and the PSNR of the mean."""
    from diffbcp_cli.jobs.session import restore
    from diffbcp_cli.options import check
    from diffbcp_cli.scoring.metrics import psnr

    pixels, observed = damage(truth, "paper-uniform-0.7", 0.025, 0, name)
    burn_in = iterations * 4 // 5
    given = {"method": "bcp-gibbs", "rank": start, "iterations": iterations, "burn_in": burn_in, "threads": 1}
    found = restore(pixels, observed, check(given), prior=None, name=name)
    return {
        "photograph": name,
        "start": start,
        "psnr": psnr(found.mean.clip(0, 1), truth),
        "rank": found.trace.rank,
        "contributing": found.trace.contributing_rank,
    }


def crop(photo: Any, side: int) -> Any:
    """The middle of a photograph."""
    top, left = ((length - side) // 2 for length in photo.shape[:2])
    return photo[top : top + side, left : left + side]


def plot(path: Path, results: list[dict[str, Any]]) -> None:
    """Contributing components by iteration, a panel for each photograph, a line for each start."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(one["photograph"] for one in results))
    figure, axes = pyplot.subplots(1, len(names), figsize=(4.5 * len(names), 3.2), sharey=True, squeeze=False)
    for panel, name in zip(axes[0], names, strict=True):
        for one in results:
            if one["photograph"] == name:
                panel.plot(one["contributing"], label=f"from {one['start']}: {one['psnr']:.2f} dB", lw=1.2)
        panel.set(title=name, xlabel="iteration")
        panel.legend(frameon=False, fontsize=8)
    axes[0][0].set_ylabel("contributing components")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--image", action="append", default=[])
    parser.add_argument("--side", type=int, default=128)
    parser.add_argument("--start", type=int, action="append", default=[])
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    results = []
    for name, photo in photographs(args.data, args.image).items():
        for start in args.start or STARTS:
            results.append(measure(crop(photo, args.side), name, start, args.iterations))
            save(args.json, results)
    head = ["photograph", "start", "rank at the end", "contributing", "PSNR"]
    ends = [(r["photograph"], r["start"], r["rank"][-1], r["contributing"][-1]) for r in results]
    rows = [[*map(str, end), f"{r['psnr']:.2f}"] for end, r in zip(ends, results, strict=True)]
    print(table([head, *rows]))
    if args.plot is not None:
        plot(args.plot, results)


if __name__ == "__main__":
    main()
