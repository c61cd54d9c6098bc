"""How good the restoration is: PSNR and SSIM over a folder of photographs, beside classical inpainting.

    python benchmarks/quality.py --data photos/ --prior none
    python benchmarks/quality.py --data photos/ --prior none --prior natural --seeds 3 --json quality.json
    python benchmarks/quality.py --data photos/ --prior natural --set 'sampler="split-gibbs"'

Each recipe damages each photograph (noise 0.025 in [0, 1] units, clipped and rounded to 8 bits), and every
method gets the same damaged pixels.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from common import CLASSICAL, Pixels, damage, photographs, save, table, write

Z90 = 1.6448536  # half the width of a 90 % interval, in standard deviations
RECIPES = ("paper-uniform-0.7", "paper-uniform-0.9", "paper-stripe", "paper-irregular")


def score(task: dict[str, Any]) -> dict[str, Any]:
    """Damage one photograph, restore it with one method, and measure."""
    import torch

    from diffbcp_cli.jobs.session import open_prior, restore
    from diffbcp_cli.options import check
    from diffbcp_cli.scoring.metrics import psnr, ssim

    if task["one_thread"]:
        torch.set_num_threads(1)
    truth = task["truth"]
    pixels, observed = damage(truth, task["recipe"], task["noise"], task["seed"], task["name"])
    started = time.perf_counter()
    extra: dict[str, Any] = {}
    if task["method"] in CLASSICAL:
        mean = CLASSICAL[task["method"]](pixels, observed)
    else:
        cfg = check({**task["options"], "prior": task["method"], "seed": task["seed"]})
        restored = restore(pixels, observed, cfg, prior=open_prior(cfg), name=task["name"])
        mean = restored.mean
        error, spread = np.abs(mean - truth)[~observed], restored.std[~observed]
        calibration, raw = restored.numbers["calibration"], restored.maps.get("raw_std", restored.std)
        extra = {
            "noise": restored.noise["std"],
            "crps": crps(mean[~observed], spread, truth[~observed]),
            "raw90": float((error <= Z90 * raw[~observed]).mean()),
            "pixels_converged": restored.numbers["diagnostics"]["pixels_converged"],
        }
        if calibration is not None:
            extra["calibrated90"] = float((error <= Z90 * spread).mean())
    mean = mean.clip(0, 1)
    if task["save"] is not None:
        name = f"{task['name']}-{task['recipe']}-{Path(task['method']).name}-{task['seed']}.png"
        write(task["save"] / name, np.hstack([np.where(observed, pixels, 0), mean, truth]))
    return {
        **{key: task[key] for key in ("name", "recipe", "method", "seed")},
        "psnr": psnr(mean, truth),
        "ssim": ssim(mean, truth),
        "seconds": time.perf_counter() - started,
        **extra,
    }


def crps(mean: Pixels, std: Pixels, truth: Pixels) -> float:
    """Continuous ranked probability score of normal predictions: s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi))."""
    from scipy.stats import norm

    std = np.maximum(std, 1e-6)
    z = (truth - mean) / std
    return float((std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - np.pi**-0.5)).mean())


def report(results: list[dict[str, Any]], methods: list[str], recipes: list[str]) -> str:
    """Means over photographs and seeds, a row per recipe and method."""
    head = [
        "recipe",
        "method",
        "runs",
        "PSNR",
        "SSIM",
        "median s",
        "noise",
        "CRPS",
        "90 % covers, raw",
        "calibrated",
    ]
    rows = [head]
    for mask in recipes:
        for method in methods:
            mine = [r for r in results if r["recipe"] == mask and r["method"] == method]
            if not mine:
                continue

            def mean(key: str, digits: int = 3, mine: list[dict[str, Any]] = mine) -> str:
                values = [r[key] for r in mine if key in r]
                return f"{np.mean(values):.{digits}f}" if values else ""

            seconds = f"{np.median([r['seconds'] for r in mine]):.1f}"
            scores = [mean("psnr", 2), mean("ssim"), seconds, mean("noise", 4), mean("crps", 4)]
            rows.append([mask, method, str(len(mine)), *scores, mean("raw90"), mean("calibrated90")])
    return table(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="a folder of photographs")
    parser.add_argument(
        "--prior", action="append", default=[], help="none, natural, a folder; may be repeated"
    )
    parser.add_argument("--recipe", action="append", default=[], choices=RECIPES)
    parser.add_argument("--image", action="append", default=[], help="only this stem; may be repeated")
    parser.add_argument(
        "--set", action="append", default=[], metavar="OPTION=VALUE", help="an option of the run"
    )
    parser.add_argument("--noise", type=float, default=0.025)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--no-classical", action="store_true")
    parser.add_argument(
        "--jobs", type=int, default=1, help="photographs at a time, one thread each if above 1"
    )
    parser.add_argument("--save", type=Path, help="a folder for pictures: damaged, restored, truth")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    import tomllib

    options = tomllib.loads("\n".join(args.set))
    recipes = args.recipe or list(RECIPES)
    methods = ([] if args.no_classical else list(CLASSICAL)) + (args.prior or ["none"])
    tasks = [
        {
            "name": name,
            "truth": truth,
            "recipe": mask,
            "method": method,
            "seed": seed,
            "noise": args.noise,
            "options": options,
            "one_thread": args.jobs > 1,
            "save": args.save,
        }
        for seed in range(args.first_seed, args.first_seed + args.seeds)
        for mask in recipes
        for method in methods
        for name, truth in photographs(args.data, args.image).items()
    ]
    results = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for found in pool.map(score, tasks):
            results.append(found)
            save(args.json, results)  # what has been measured stays, whatever comes
    print(report(results, methods, recipes))


if __name__ == "__main__":
    main()
