"""How many network calls the reverse process needs, by solver.

    python benchmarks/reverse.py --prior models/natural --data photos/ [--json]

For each photograph x0 and coupling rho, x = x0 + rho eps is given to the reverse process several times.
Two things tell whether the draws are right, without an exact answer:
  mean   their average is E[x0 | x] = D(x, rho): root mean squared difference, less what averaging explains
  spread their standard deviation, beside that of a reference with many second-order calls; 1 is right
Both are averages over the photographs' middle parts.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from diffbcp_cli.priors import grids, load_prior, reverse

RHOS = (0.3, 0.8)
CALLS = (1, 2, 3, 4, 5, 6, 8, 12)


def middle(path: Path, size: int) -> Tensor:
    pixels = np.asarray(Image.open(path).convert("RGB")) / 127.5 - 1
    top, left = (pixels.shape[0] - size) // 2, (pixels.shape[1] - size) // 2
    return torch.from_numpy(pixels[top : top + size, left : left + size]).permute(2, 0, 1)[None].float()


def moments(draws: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance over the draws (n, C, H, W)."""
    return draws.mean(0), draws.var(0)


def judge(draws: Tensor, mean: Tensor, reference_var: Tensor) -> dict[str, float]:
    found_mean, found_var = moments(draws)
    squared = (found_mean - mean).square().mean() - found_var.mean() / len(draws)
    return {
        "mean": float(squared.clamp_min(0).sqrt()),
        "spread": float((found_var.mean() / reference_var.mean()).sqrt()),
    }


def run(prior_name: str, folder: Path, *, draws: int, size: int, photos: int) -> list[dict[str, Any]]:
    prior = load_prior(prior_name, device="cpu", precision="fp32")
    paths = sorted(folder.glob("*.png"))[:photos]
    rows: list[dict[str, Any]] = []
    for rho in RHOS:
        cells: dict[tuple[str, int], list[dict[str, float]]] = {}
        for index, path in enumerate(paths):
            rng = torch.Generator().manual_seed(index)
            clean = middle(path, size)
            x = (clean + rho * torch.randn(clean.shape, generator=rng)).expand(draws, -1, -1, -1)
            exact = prior.denoise(x[:1], rho)[0]
            levels = grids.power_grid(rho, 40, last=0.03)
            _, reference_var = moments(reverse.second_order(prior, x, levels, rng=rng).sample)
            todo = [(solver, calls) for solver in ("second-order", "ancestral") for calls in CALLS]
            for solver, calls in [*todo, ("paper", 0)]:
                draw = reverse.sample(prior, x, rho, solver=solver, calls=calls, rng=rng)
                cells.setdefault((solver, draw.calls), []).append(judge(draw.sample, exact, reference_var))
        for (solver, calls), values in cells.items():
            average = {key: float(np.mean([value[key] for value in values])) for key in ("mean", "spread")}
            rows.append({"rho": rho, "solver": solver, "calls": calls, **average})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="Mean and spread of the reverse process, by calls.")
    parser.add_argument("--prior", default="natural", help="a name or a folder")
    parser.add_argument("--data", type=Path, required=True, help="a folder of clean PNG photographs")
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--photos", type=int, default=4)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    rows = run(
        arguments.prior, arguments.data, draws=arguments.draws, size=arguments.size, photos=arguments.photos
    )
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return
    print("| rho | solver | calls | mean off by | spread |\n| ---: | --- | ---: | ---: | ---: |")
    for row in rows:
        cells = f"{row['rho']} | {row['solver']} | {row['calls']}"
        print(f"| {cells} | {row['mean']:.4f} | {row['spread']:.3f} |")


if __name__ == "__main__":
    main()
