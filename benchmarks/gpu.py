"""A whole run on the processor and on whatever GPU there is, as the table of the README has it.

    python benchmarks/gpu.py [--photo photo.png] [--device cuda] [--method diffbcp] [--json gpu.json]
    python benchmarks/gpu.py --pretend cuda        # no GPU needed: waits and operations of one iteration

Without a photograph the picture is smooth noise, 256 x 256: the cost hardly depends on the picture. A pretended
GPU says nothing about time.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from common import Pixels, save, table

sys.path.append(str(Path(__file__).parents[1] / "tests"))
PRETENDED: dict[str, dict[str, Any]] = {
    "diffbcp, blocks of 25": {"block": 25},
    "diffbcp, blocks of 100": {"block": 100},
    "diffbcp, tensor train": {"decomposition": "tt", "rank": 60},
    "diffbcp, tensor ring": {"decomposition": "tr", "rank": 8},
    "langevin": {"method": "langevin", "noise_std": None},
    "pnp-dm": {"method": "pnp-dm"},
    "daps": {"method": "daps"},
}


def smooth_noise(side: int = 256) -> Pixels:
    """A picture (side, side, 3) on [0, 1]."""
    import cv2

    coarse = np.random.default_rng(0).random((side // 12, side // 12, 3)).astype(np.float32)
    return cv2.resize(coarse, (side, side), interpolation=cv2.INTER_CUBIC).clip(0, 1)


def whole_run(device: str, method: str, photo: Path | None, iterations: int | None) -> dict[str, Any]:
    """Seconds by part of a run on a device, and the memory that it took there."""
    import torch
    from chain import measure_pixels

    from diffbcp_cli.photos.photo import read_photo

    options: dict[str, Any] = {"method": method, "device": device}
    if iterations is not None:
        options |= {"iterations": iterations, "burn_in": iterations // 3}
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
    pixels, name = (smooth_noise(), "noise") if photo is None else (read_photo(photo).pixels, photo.stem)
    found = {"device": device, "method": method}
    found |= measure_pixels(pixels, name, "paper-uniform-0.7", options)
    if device.startswith("cuda"):
        found["peak GB"] = torch.cuda.max_memory_allocated() / 2**30
    elif device == "mps":
        found["peak GB"] = torch.mps.driver_allocated_memory() / 2**30
    return found


def pretended(kind: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """Waits and operations of an iteration at 256 x 256, rank 200, with a tiny prior."""
    import on_gpu
    import torch
    from pretend import Gpu

    usual = {"side": 256, "rank": 200, "patch_size": 16, "iterations": 60, "adapt_rank": False}
    with Gpu(kind) as gpu:
        dtype = torch.bfloat16 if kind == "cuda" else torch.float32
        prior = on_gpu.tiny_prior(kind, dtype)
        steps = on_gpu.chains(kind, prior=prior, **{**usual, **given}).steps(8)
        for _ in range(5):
            next(steps)
        gpu.reset()
        next(steps)
    return {"iteration of": name, "waits": gpu.waits.total(), "operations": gpu.launches}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photo", type=Path)
    parser.add_argument("--device", action="append", default=[], help="default: cpu, and what auto takes")
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--iterations", type=int)
    parser.add_argument("--pretend", choices=("cuda", "mps"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()

    from diffbcp_cli.devices import pick_device
    from diffbcp_cli.options import Options

    if args.pretend:
        results = [pretended(args.pretend, name, given) for name, given in PRETENDED.items()]
    else:
        devices = dict.fromkeys(args.device or ["cpu", str(pick_device("auto"))])
        methods = args.method or [Options.method]
        results = [whole_run(d, m, args.photo, args.iterations) for m in methods for d in devices]
    head = list(results[0])
    rows = [[f"{r[k]:.2f}" if isinstance(r[k], float) else str(r[k]) for k in head] for r in results]
    print(table([head, *rows]))
    save(args.json, results)


if __name__ == "__main__":
    main()
