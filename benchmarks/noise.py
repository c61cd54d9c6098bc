"""Inferred noise against the truth, for `denoise` and for `inpaint` with half of the pixels observed.

python benchmarks/noise.py --data photos/ --image house --image dog --image astronaut --iterations 20
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from common import photographs, save, table

LEVELS = (0.01, 0.025, 0.05, 0.1)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--image", action="append", default=[])
    parser.add_argument("--prior", default="natural")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    import torch

    from diffbcp_cli.jobs.session import open_prior, restore
    from diffbcp_cli.options import check
    from diffbcp_cli.scoring.metrics import psnr

    torch.set_num_threads(args.threads)
    plan = {"prior": args.prior, "iterations": args.iterations, "burn_in": args.iterations * 2 // 5}
    cfg = check(plan)
    prior = open_prior(cfg)
    head = ["photograph", "task", "true noise", "inferred", "90 % interval", "by the tensor model", "PSNR"]
    rows, results = [head], []
    for name, truth in photographs(args.data, args.image).items():
        for share, task in ((1.0, "denoise"), (0.5, "inpaint, 50 %")):
            for level in LEVELS:
                rng = np.random.default_rng(0)
                observed = rng.random(truth.shape) < share
                pixels = (truth + level * rng.standard_normal(truth.shape)).astype(np.float32)
                restored = restore(pixels, observed, cfg, prior=prior, name=name)
                noise = restored.noise
                quality = psnr(restored.mean.clip(0, 1), truth)
                interval = f"{noise['lower']:.4f} to {noise['upper']:.4f}"
                tensor = restored.numbers["tensor_noise"]["std"]
                found = [f"{noise['std']:.4f}", interval, f"{tensor:.4f}"]
                rows.append([name, task, f"{level:g}", *found, f"{quality:.2f}"])
                scores = {"tensor_noise": tensor, "psnr": quality}
                results.append({"name": name, "task": task, "true": level, **noise, **scores})
                print(*rows[-1], flush=True)
    print(table(rows))
    save(args.json, results)


if __name__ == "__main__":
    main()
