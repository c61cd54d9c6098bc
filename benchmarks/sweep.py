"""How fast one sweep is at 256 x 256, beside a straightforward one, in one run, as ratios.

    python benchmarks/sweep.py [--rank 200] [--repeat 5] [--json sweep.json]

The image is smooth noise of a fixed seed: the cost does not depend on the picture. Peak memory is that of a
process of its own, with Python and torch in it.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from common import save, table

SHARES = (0.1, 0.3, 0.6, 1.0)


def setting(share: float) -> tuple[Any, Any]:
    """A smooth 256 x 256 image with noise, and its mask."""
    import torch
    from torch.nn import functional

    rng = torch.Generator().manual_seed(0)
    coarse = torch.randn(1, 3, 20, 20, generator=rng)
    image = functional.interpolate(coarse, size=(256, 256), mode="bicubic", align_corners=False)[0]
    image = 0.4 * image + 0.05 * torch.randn(image.shape, generator=rng)
    return image, torch.rand(image.shape, generator=rng) < share


def measure(method: str, share: float, rank: int, repeat: int) -> dict[str, float]:
    """Median seconds of a sweep, the rank it ran at, and the process's peak memory."""
    import torch
    from paper_sweep import paper_sweep

    from diffbcp_cli import random
    from diffbcp_cli.lowrank.cp import Hyper, adapt, initial
    from diffbcp_cli.lowrank.cp_sweep import sweep
    from diffbcp_cli.lowrank.likelihood import observe
    from diffbcp_cli.lowrank.tensorize import tensorize
    from diffbcp_cli.options import Options

    torch.set_num_threads(2)
    hyper, rng, cfg = Hyper(), random.generator(0), Options()
    image, mask = setting(share)
    observation = observe(image, mask, tensorize((3, 256, 256), "patch"), once=cfg.patch_weights == "once")
    state = initial(observation, rank, hyper, rng=rng)
    state = sweep(state, observation, hyper, rng=rng)[0]
    if method == "adapted":
        for _ in range(15):
            state = sweep(state, observation, hyper, block=cfg.block, rng=rng)[0]
            state = adapt(state, observation, hyper, floor=cfg.adapt_floor, rng=rng)
    blocks = {"adapted": cfg.block, "default": cfg.block, "joint": rank}
    step: Callable[[Any], Any] = (
        (lambda s: paper_sweep(s, observation, hyper, rng=rng))
        if method == "paper"
        else (lambda s: sweep(s, observation, hyper, block=blocks[method], rng=rng)[0])
    )
    seconds = []
    for _ in range(1 if method == "paper" else repeat):
        started = time.perf_counter()
        state = step(state)
        seconds.append(time.perf_counter() - started)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"seconds": statistics.median(seconds), "rank": state.rank, "peak_gb": peak}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rank", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows = [["observed", "sweep", "rank", "seconds", "times faster", "peak GB"]]
    results = []
    for share in SHARES:
        paper = None
        for method in ("paper", "joint", "default", "adapted"):
            with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
                found = pool.submit(measure, method, share, args.rank, args.repeat).result()
            paper = paper or found["seconds"]
            ratio = paper / found["seconds"]
            results.append({"share": share, "method": method, **found, "ratio": ratio})
            cells = [f"{found['seconds']:.3f}", f"{ratio:.1f}", f"{found['peak_gb']:.2f}"]
            rows.append([f"{share:.0%}", method, str(found["rank"]), *cells])
            print(*rows[-1], flush=True)
    print(table(rows))
    save(args.json, results)


if __name__ == "__main__":
    main()
