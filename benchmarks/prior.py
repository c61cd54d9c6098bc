"""How well a prior denoises, beside classical denoisers, by noise level.

    python benchmarks/prior.py --prior models/natural --prior ffdnet --data photos/ [--json]

Gaussian noise with a known standard deviation of 15, 25, 50 or 75 of 255 is added to every photograph,
without clipping or rounding; the table gives the mean PSNR in dB. BM3D and OpenCV's non-local means are told
the noise level too (non-local means through its best strength on these photographs; it needs 8-bit input). A prior
of `diffbcp train` also sees the picture in four quarter turns, and its answers are averaged, as in `diffbcp denoise`.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from diffbcp_cli.estimators.plug_and_play import refine
from diffbcp_cli.priors import load_prior

Photo = NDArray[np.float64]  # (H, W, 3) on [0, 1]
Denoise = Callable[[Photo, float], Photo]  # the noisy photograph and its noise level on [0, 1]
LEVELS = (15, 25, 50, 75)
STRENGTHS = (0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


def network_denoiser(name: str, *, calls: int = 1, precision: str = "auto") -> Denoise:
    """One call of the prior, or as many as `diffbcp denoise` takes for a picture whose noise is known."""
    prior = load_prior(name, device="cpu", precision=precision)

    def denoise(noisy: Photo, noise_std: float) -> Photo:
        x = torch.from_numpy(2 * noisy - 1).permute(2, 0, 1).float()
        found = refine(prior, x, torch.ones_like(x, dtype=torch.bool), x, 2 * noise_std, calls=calls)
        return (found.permute(1, 2, 0).double().numpy() + 1) / 2

    return denoise


def non_local_means(strength: float) -> Denoise:
    import cv2

    def denoise(noisy: Photo, noise_std: float) -> Photo:
        bytes_in = np.clip(np.rint(255 * noisy), 0, 255).astype(np.uint8)
        h = strength * 255 * noise_std
        return cv2.fastNlMeansDenoisingColored(bytes_in, None, h, h, 7, 21) / 255

    return denoise


def bm3d_denoiser() -> Denoise | None:
    try:
        import bm3d
    except ImportError:
        return None
    return lambda noisy, noise_std: bm3d.bm3d_rgb(noisy, noise_std)


def psnr(clean: Photo, restored: Photo) -> float:
    return -10 * math.log10(np.mean((np.clip(restored, 0, 1) - clean) ** 2))


def add_noise(clean: Photo, name: str, level: int) -> Photo:
    rng = np.random.default_rng([level, zlib.crc32(name.encode())])
    return clean + level / 255 * rng.standard_normal(clean.shape)


def measure(denoise: Denoise, photos: dict[str, Photo], level: int) -> tuple[float, float]:
    """Mean PSNR, and seconds per photograph."""
    began, values = time.perf_counter(), []
    for name, clean in photos.items():
        values.append(psnr(clean, denoise(add_noise(clean, name, level), level / 255)))
    return float(np.mean(values)), (time.perf_counter() - began) / len(photos)


def best_non_local_means(photos: dict[str, Photo], level: int) -> tuple[float, float]:
    return max(measure(non_local_means(strength), photos, level) for strength in STRENGTHS)


def run(
    priors: list[str], folder: Path, *, classical: bool, precision: str
) -> dict[str, dict[int, tuple[float, float]]]:
    paths = sorted(p for p in folder.iterdir() if p.suffix.lower() in {".png", ".jpg", ".jpeg"})
    photos = {p.stem: np.asarray(Image.open(p).convert("RGB")) / 255.0 for p in paths}
    bm3d = bm3d_denoiser()
    table = {"noisy": {level: measure(lambda noisy, _: noisy, photos, level) for level in LEVELS}}
    if classical:
        table["non-local means"] = {level: best_non_local_means(photos, level) for level in LEVELS}
        if bm3d is not None:
            table["BM3D"] = {level: measure(bm3d, photos, level) for level in LEVELS}
    for prior in priors:
        for kind, calls in (("one call", 1), ("four turns", 4)):
            network = network_denoiser(prior, calls=calls, precision=precision)
            table[f"{Path(prior).name}, {kind}"] = {
                level: measure(network, photos, level) for level in LEVELS
            }
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description="Denoising PSNR of a prior, by noise level.")
    parser.add_argument("--prior", action="append", default=[], help="a name or a folder; may be repeated")
    parser.add_argument("--precision", default="auto", help="of the networks")
    parser.add_argument("--data", type=Path, required=True, help="a folder of clean photographs")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--only-prior", action="store_true", help="leave out the classical denoisers")
    arguments = parser.parse_args()
    table = run(
        arguments.prior or ["natural"],
        arguments.data,
        classical=not arguments.only_prior,
        precision=arguments.precision,
    )
    if arguments.json:
        shape = {
            name: {str(k): {"psnr": v[0], "seconds": v[1]} for k, v in row.items()}
            for name, row in table.items()
        }
        print(json.dumps(shape, indent=2))
        return
    print("| noise of 255 | " + " | ".join(str(level) for level in LEVELS) + " | ms a photograph |")
    print("| --- |" + " ---: |" * (len(LEVELS) + 1))
    for name, row in table.items():
        cells = " | ".join(f"{value:.2f}" for value, _ in row.values())
        print(f"| {name} | {cells} | {1000 * np.mean([seconds for _, seconds in row.values()]):.0f} |")


if __name__ == "__main__":
    main()
