"""Quality against time: every preset and every method on the same damaged photographs, in a table and one plot.

    python benchmarks/frontier.py --data photos/ --image house --image dog --json frontier.json --plot frontier.png
    python benchmarks/frontier.py --data photos/ --only default --only fast --only telea

Time is processor time of one thread, without loading the program and the prior. CRPS is over the missing entries, in
thousandths, of the methods that say how sure they are.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from common import damage, photographs, save, table
from quality import RECIPES, crps

RUNS: dict[str, dict[str, Any]] = {
    "default": {},
    "fast": {"preset": "fast"},
    "thorough": {"preset": "thorough"},
    "split-gibbs": {"sampler": "split-gibbs"},
    "paper": {"preset": "paper"},
    "no prior": {"prior": "none"},
    **{
        name: {"method": name}
        for name in ("pnp-dm", "diffpir", "ddrm", "daps", "dps", "bcp", "btr", "tctv", "hlrtf", "telea")
    },
}
"""Names and options, as on the command line."""
SLOW = ("thorough", "paper", "dps", "daps", "btr", "hlrtf")


def score(task: dict[str, Any]) -> dict[str, Any]:
    """Damage one photograph, restore it, and measure."""
    import torch

    from diffbcp_cli.jobs.session import open_prior, restore
    from diffbcp_cli.options import check
    from diffbcp_cli.scoring.metrics import psnr

    torch.set_num_threads(1)
    truth = task["truth"]
    pixels, observed = damage(truth, task["recipe"], task["noise"], task["seed"], task["name"])
    given = check({**task["options"], "seed": task["seed"]})
    prior = open_prior(given)
    started = time.process_time()
    restored = restore(pixels, observed, given, prior=prior, name=task["name"])
    found = {
        **{key: task[key] for key in ("name", "recipe", "run", "seed")},
        "psnr": psnr(restored.mean.clip(0, 1), truth),
        "seconds": time.process_time() - started,
    }
    if restored.std is not None:
        found["crps"] = crps(restored.mean[~observed], restored.std[~observed], truth[~observed])
    return found


def means(results: list[dict[str, Any]], recipe: str | None = None) -> dict[str, dict[str, float]]:
    """run -> mean of each number over photographs, seeds, and recipes unless one is given."""
    found: dict[str, dict[str, float]] = {}
    for run in RUNS:
        mine = [one for one in results if one["run"] == run and recipe in (None, one["recipe"])]
        if mine:
            keys = [key for key in ("psnr", "crps", "seconds") if all(key in one for one in mine)]
            found[run] = {key: float(np.mean([one[key] for one in mine])) for key in keys}
    return found


def report(results: list[dict[str, Any]], recipes: list[str]) -> str:
    """A row for each run: PSNR by recipe, then the means of PSNR, CRPS and seconds over all."""
    rows = [["run", *recipes, "PSNR", "CRPS", "CPU s"]]
    by_recipe = {recipe: means(results, recipe) for recipe in recipes}
    for run, mean in means(results).items():
        parts = [f"{by_recipe[recipe][run]['psnr']:.2f}" for recipe in recipes if run in by_recipe[recipe]]
        score = f"{1000 * mean['crps']:.1f}" if "crps" in mean else ""
        rows.append([run, *parts, f"{mean['psnr']:.2f}", score, f"{mean['seconds']:.1f}"])
    return table(rows)


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """PSNR and CRPS against seconds, one point for each run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    found = means(results)
    titles = {"psnr": "PSNR in dB (higher is better)", "crps": "CRPS (lower is better)"}
    for axes, (key, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        for run, mean in found.items():
            if key not in mean:
                continue
            colour = "tab:red" if run in ("fast", "default", "thorough") else "tab:grey"
            axes.plot(mean["seconds"], mean[key] * (1000 if key == "crps" else 1), "o", color=colour)
            place = (mean["seconds"], mean[key] * (1000 if key == "crps" else 1))
            axes.annotate(run, place, xytext=(5, 4), textcoords="offset points", fontsize=8, color=colour)
        axes.set(xscale="log", xlabel="processor seconds a photograph", title=title)
        axes.grid(alpha=0.3)
        axes.margins(x=0.18)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="a folder of photographs")
    parser.add_argument("--image", action="append", default=[], help="only this stem; may be repeated")
    parser.add_argument("--recipe", action="append", default=[], choices=RECIPES)
    parser.add_argument("--only", action="append", default=[], choices=list(RUNS))
    parser.add_argument("--quick", action="store_true", help=f"without {', '.join(SLOW)}")
    parser.add_argument("--noise", type=float, default=0.025)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()

    runs = args.only or [run for run in RUNS if not (args.quick and run in SLOW)]
    recipes = args.recipe or list(RECIPES)
    tasks = [
        {
            **{"name": name, "truth": truth, "recipe": recipe, "run": run, "options": RUNS[run]},
            **{"noise": args.noise, "seed": args.seed},
        }
        for run in runs
        for recipe in recipes
        for name, truth in photographs(args.data, args.image).items()
    ]
    results = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for one in pool.map(score, tasks):
            results.append(one)
            save(args.json, results)
    print(report(results, recipes))
    if args.plot is not None:
        draw(results, args.plot)


if __name__ == "__main__":
    main()
