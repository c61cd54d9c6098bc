"""Large photographs: PSNR, SSIM, time and peak memory, beside interpolation; and how time and memory grow.

    python benchmarks/highres.py --data photos/ [--image chicago] [--mask uniform-0.9] [--method patch] [--crop 1024]
    python benchmarks/highres.py --data photos/ --scaling --iterations 4

Masks lose whole pixels; noise of 0.025 is added, clipped and rounded to 8 bits. Every run is a process of its
own, so that its peak memory is its own; photographs, masks and metrics are outside of it.
"""

from __future__ import annotations

import argparse
import math
import resource
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from common import Pixels, opencv_inpaint, photographs, save, table, write

MASKS = {"uniform-0.9": 0.9, "uniform-0.95": 0.95, "irregular": 0.4}
RUNS: dict[str, dict[str, Any]] = {
    "patch": {},
    "patch, no prior": {"prior": "none"},
    "reshape": {"tensorize": "reshape", "prior_scale": "fit"},
    "reshape, no prior": {"tensorize": "reshape", "prior": "none"},
}
SQUARE = 128  # for biharmonic interpolation, whose cost grows faster than the number of unknowns
OVERLAP = 32
SIDES = (256, 512, 1024, 2048, 4096)


def linear(pixels: Pixels, observed: Any) -> Pixels:
    """Linear interpolation on a Delaunay triangulation of the observed pixels, the nearest one outside of it."""
    from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator

    known = observed[..., 0]  # masks here lose whole pixels
    places, values = np.argwhere(known), pixels[known]
    grid = np.argwhere(~known)
    filled = LinearNDInterpolator(places, values)(grid)
    outside = np.isnan(filled[:, 0])
    filled[outside] = NearestNDInterpolator(places, values)(grid[outside])
    result = pixels.copy()
    result[~known] = filled
    return result


def biharmonic(pixels: Pixels, observed: Any) -> Pixels:
    """scikit-image's biharmonic interpolation of squares, each with a margin, all channels at once."""
    from skimage.restoration import inpaint_biharmonic

    result = np.empty_like(pixels)
    height, width = pixels.shape[:2]
    for top in range(0, height, SQUARE):
        for left in range(0, width, SQUARE):
            above, before = max(0, top - OVERLAP), max(0, left - OVERLAP)
            part = np.s_[above : top + SQUARE + OVERLAP, before : left + SQUARE + OVERLAP]
            known = observed[part]
            filled = inpaint_biharmonic(np.where(known, pixels[part], 0), ~known[..., 0], channel_axis=-1)
            place = result[top : top + SQUARE, left : left + SQUARE]
            inner = filled[top - above :, left - before :]
            place[...] = inner[: place.shape[0], : place.shape[1]].clip(0, 1)
    return result


CLASSICAL: dict[str, Callable[[Pixels, Any], Pixels]] = {
    "linear": linear,
    "telea": opencv_inpaint(1),
    "biharmonic": biharmonic,
}


def damaged(truth: Pixels, mask: str, name: str, noise: float = 0.025) -> tuple[Pixels, Any]:
    """Noisy pixels, and what is observed."""
    from diffbcp_cli.photos.mask_kinds import make

    rng = np.random.default_rng([0, zlib.crc32(name.encode())])
    kind = mask.split("-")[0]
    observed = make(kind, truth.shape, missing=MASKS[mask], per="pixel", rng=rng)
    noisy = truth + noise * rng.standard_normal(truth.shape)
    return (np.rint(noisy.clip(0, 1) * 255) / 255).astype(np.float32), observed


def run(pixels: Pixels, observed: Any, method: str, options: dict[str, Any]) -> dict[str, Any]:
    """Restore by one method: the mean, seconds, seconds of all cores together, and the peak memory in MB."""
    started, busy = time.perf_counter(), time.process_time()
    extra: dict[str, Any] = {}
    if method in CLASSICAL:
        mean = CLASSICAL[method](pixels, observed)
    else:
        from diffbcp_cli.jobs.session import open_prior, restore
        from diffbcp_cli.options import check

        cfg = check({**RUNS[method], **options})
        restored = restore(pixels, observed, cfg, prior=open_prior(cfg))
        mean = restored.mean
        steps = len(restored.trace.rank)
        extra = {
            "noise": restored.noise["std"],
            "rank": restored.trace.rank[-1],
            "iterations": steps,
        }
    seconds, cpu = time.perf_counter() - started, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"mean": mean.clip(0, 1), "seconds": seconds, "cpu": cpu, "peak": peak, **extra}


def alone(*task: Any) -> dict[str, Any]:
    """`run` in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(run, *task).result()


def compare(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Every photograph, mask and method in turn."""
    from diffbcp_cli.scoring.metrics import psnr, ssim

    for name, whole in photographs(args.data, args.image).items():
        truth = middle(whole, args.crop) if args.crop else whole
        for mask in args.mask or MASKS:
            pixels, observed = damaged(truth, mask, name)
            for method in args.method or [*CLASSICAL, *RUNS]:
                found = alone(pixels, observed, method, args.options)
                mean = found.pop("mean")
                if args.save is not None:
                    picture = f"{name}-{mask}-{method.replace(', ', '-').replace(' ', '-')}.png"
                    write(args.save / picture, mean)
                scores = {"psnr": psnr(mean, truth), "ssim": ssim(mean, truth)}
                yield {"name": name, "mask": mask, "method": method, **scores, **found}


def middle(pixels: Pixels, side: int) -> Pixels:
    """The central square of a photograph."""
    top, left = ((length - side) // 2 for length in pixels.shape[:2])
    return np.ascontiguousarray(pixels[top : top + side, left : left + side])


def scaling(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The same few iterations on squares of growing size, cut from a photograph and its mirror images."""
    name, whole = next(iter(photographs(args.data, args.image).items()))
    options = {
        "iterations": args.iterations,
        "burn_in": 1,
        "size_defaults": False,
        "rank": 100,
        "calls": 1,
        "finish": 0,
    }
    for side in args.side or SIDES:
        tiled = np.pad(whole, [(0, max(0, side - n)) for n in whole.shape[:2]] + [(0, 0)], mode="symmetric")
        pixels, observed = damaged(middle(tiled, side), "uniform-0.9", name)
        for method in args.method or ["patch"]:
            found = alone(pixels, observed, method, {**options, **args.options})
            yield {"side": side, "method": method, **{key: found[key] for key in ("seconds", "cpu", "peak")}}


def slope(found: list[dict[str, Any]], key: str) -> float:
    """The slope of log `key` over the log of the number of pixels."""
    pixels = [2 * math.log(f["side"]) for f in found]
    return float(np.polyfit(pixels, [math.log(f[key]) for f in found], 1)[0])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--image", action="append", default=[])
    parser.add_argument("--mask", action="append", choices=list(MASKS))
    parser.add_argument("--method", action="append", choices=[*CLASSICAL, *RUNS])
    parser.add_argument("--crop", type=int, help="only the central square of this side")
    parser.add_argument("--set", action="append", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--save", type=Path, help="a folder for the restored pictures")
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--side", type=int, action="append")
    parser.add_argument("--iterations", type=int, default=4, help="of --scaling")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    import tomllib

    args.options = tomllib.loads("\n".join(args.set))
    results = []
    for found in scaling(args) if args.scaling else compare(args):
        results.append(found)
        save(args.json, results)  # what has been measured stays, whatever comes
        print(*(f"{v:.3f}" if isinstance(v, float) else v for v in found.values()), flush=True)
    names = list(dict.fromkeys(key for found in results for key in found))
    cells = [
        [f"{f[k]:.3f}" if isinstance(f.get(k), float) else str(f.get(k, "")) for k in names] for f in results
    ]
    print(table([names, *cells]))
    if args.scaling and len(results) > 1:
        slopes = ", ".join(f"{key} {slope(results, key):.2f}" for key in ("seconds", "cpu", "peak"))
        print(f"slopes in the number of pixels: {slopes}")


if __name__ == "__main__":
    main()
