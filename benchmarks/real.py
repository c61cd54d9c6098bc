"""Real damage and real noise, made from clean photographs: camera noise, JPEG, scans with drawn damage, and times.

python benchmarks/real.py noise  --data photos/ [--image house]
python benchmarks/real.py damage --data photos/
python benchmarks/real.py times

noise: PSNR before and after, the level that is reported and the true one, beside BM3D and non-local means with the
true level given. damage: PSNR in the holes, high-pass std inside and around, seconds, beside Telea. times: seconds by
damaged share and size, from one window of each picture.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from common import photographs, save, table
from numpy.typing import NDArray
from PIL import Image

from diffbcp_cli.jobs.session import open_prior, restore
from diffbcp_cli.problem import NORMAL_90
from diffbcp_cli.scoring.metrics import psnr

Picture = NDArray[np.float32]
LEVELS = (0.015, 0.03, 0.05)
KINDS = ("white", "light", "camera", "soft")
QUALITIES = (75, 85, 95)
SHARES, SIZES = (0.001, 0.01, 0.05, 0.2, 0.5), ((1000, 1000), (3000, 4000), (4000, 6000))


def mosaicked(clean: Picture, level: float, rng: np.random.Generator) -> Picture:
    """Bayer mosaic in linear light with gain and read noise, bilinear demosaicing, gamma."""
    mask = np.zeros(clean.shape, np.float32)
    mask[0::2, 0::2, 0] = mask[0::2, 1::2, 1] = mask[1::2, 0::2, 1] = mask[1::2, 1::2, 2] = 1
    light = clean**2.2 * mask
    std = 2.2 * level * np.sqrt(0.5 * light + 0.02)
    light = (light + std * rng.standard_normal(clean.shape)) * mask
    kernel = np.outer([1, 2, 1], [1, 2, 1]).astype(np.float32)
    blurred = [
        cv2.filter2D(image.astype(np.float32), -1, kernel, borderType=cv2.BORDER_REFLECT101)
        for image in (light, mask)
    ]
    return np.asarray((blurred[0] / blurred[1]).clip(0, 1) ** (1 / 2.2), np.float32)


def noisy(kind: str, clean: Picture, level: float, seed: int) -> tuple[Picture, Picture]:
    """A photograph with one kind of noise, and what it would be without."""
    rng = np.random.default_rng(seed)
    if kind == "camera":
        return mosaicked(clean, level, rng), mosaicked(clean, 0.0, rng)
    noise = rng.standard_normal(clean.shape)
    if kind == "light":
        noise *= np.sqrt(2 * clean)
    if kind == "soft":
        noise = cv2.GaussianBlur(noise, (0, 0), 0.8)
        noise /= noise.std()
    return np.asarray(clean + level * noise, np.float32), clean


def eight_bit(picture: Picture, quality: int | None) -> Picture:
    """Rounded to 8 bits, through a JPEG with 4:2:0 if a quality is given."""
    levels = np.rint(picture.clip(0, 1) * 255).astype(np.uint8)
    if quality is not None:
        file = io.BytesIO()
        Image.fromarray(levels).save(file, "JPEG", quality=quality, subsampling=2)
        levels = np.asarray(Image.open(file))
    return levels.astype(np.float32) / 255


def noise_cases() -> Iterator[tuple[str, str, float, int | None]]:
    """Name, kind, level and JPEG quality of each case; the first are clean."""
    yield "clean", "white", 0.0, None
    for quality in QUALITIES:
        yield f"clean, JPEG {quality}", "white", 0.0, quality
    for kind in KINDS:
        for level in LEVELS:
            yield f"{kind} {level:g}", kind, level, None
    for quality in QUALITIES:
        for level in LEVELS:
            yield f"camera {level:g}, JPEG {quality}", "camera", level, quality


def noise(photos: dict[str, Picture], only: str) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """Denoise every case of every photograph; a row for each case has means over the photographs."""
    prior, rows, results = open_prior({}), [], []
    rows.append(
        [
            *("case", "true", "reported", "covered", "model", "pixels covered"),
            *("before", "diffbcp", "BM3D", "NLM", "worst gain"),
        ]
    )
    for case, kind, level, quality in noise_cases():
        if only not in case:
            continue
        found = [_denoised(clean, kind, level, quality, prior, name) for name, clean in photos.items()]
        results += [{"case": case, **one} for one in found]
        mean = {key: np.mean([one[key] for one in found]) for key in found[0] if key not in ("name", "model")}
        models = "/".join(sorted({one["model"] for one in found}))
        worst = min(one["diffbcp"] - one["before"] for one in found)
        numbers = [f"{mean['true']:.4f}", f"{mean['reported']:.4f}", f"{mean['covered']:.0%}", models]
        numbers.append(f"{mean['coverage']:.0%}")
        scores = [f"{mean[key]:.2f}" for key in ("before", "diffbcp", "bm3d", "nlm")]
        rows.append([case, *numbers, *scores, f"{worst:+.2f}"])
        print(*rows[-1], sep=" | ", flush=True)
    return rows, results


def _denoised(
    clean: Picture, kind: str, level: float, quality: int | None, prior: Any, name: str
) -> dict[str, Any]:
    picture, base = noisy(kind, clean, level, seed=0)
    picture, everything = eight_bit(picture, quality), np.ones(clean.shape, bool)
    true = float(np.sqrt(np.square(picture - base).mean()))
    done = restore(picture, everything, {"observed": "posterior"}, prior=prior, name=name)
    assert done.noise is not None
    assert done.std is not None
    error = done.mean.clip(0, 1) - base
    inside = float((np.abs(error) <= NORMAL_90 * done.std).mean())
    scores = {
        "before": _score(picture, base),
        "diffbcp": _score(done.mean.clip(0, 1), base),
        "coverage": inside,
    }
    for method in ("bm3d", "nlm"):
        given = {"method": method, "sigma": max(true, 1e-3), "observed": "posterior"}
        scores[method] = _score(restore(picture, everything, given, prior=prior).mean.clip(0, 1), base)
    covered = done.noise["lower"] <= true <= done.noise["upper"]
    model = str(done.numbers.get("noise_model"))
    return {
        "name": name, "true": true, "reported": done.noise["std"], "covered": covered, "model": model, **scores
    }  # fmt: skip


def _score(found: Picture, truth: Picture) -> float:
    """PSNR, 99 dB at most."""
    return min(99.0, psnr(found, truth))


def scanned(clean: Picture, tone: str, seed: int) -> tuple[Picture, NDArray[np.bool_]]:
    """A sepia or grey scan with grain and paper, and where scratches, dust and a stain are."""
    rng, (height, width) = np.random.default_rng(seed), clean.shape[:2]
    grey = clean.mean(axis=2, keepdims=True)
    paper = 0.9 * grey + 0.05 * np.array([1.0, 0.85, 0.65] if tone == "sepia" else [1.0, 1.0, 1.0]) ** 2
    grain = cv2.GaussianBlur(rng.standard_normal((height, width)), (0, 0), 0.7)
    scan = np.asarray(paper + 0.02 * grain[..., None] / grain.std(), np.float32)
    holes = np.zeros((height, width), np.uint8)
    for _ in range(3):
        ends = [tuple(int(v) for v in rng.integers(0, [width, height])) for _ in range(2)]
        cv2.line(holes, *ends, 1, 3)
    for _ in range(12):
        cv2.circle(
            holes, tuple(int(v) for v in rng.integers(0, [width, height])), int(rng.integers(1, 4)), 1, -1
        )
    cv2.circle(holes, tuple(int(v) for v in rng.integers(40, [width - 40, height - 40])), 14, 1, -1)
    return eight_bit(scan, None), holes > 0


def roughness(picture: Picture, where: NDArray[np.bool_]) -> float:
    """High-pass std in levels, by the median of its absolute value, so that edges do not count."""
    fine = picture - cv2.GaussianBlur(picture, (0, 0), 1.5)
    return float(255 * np.median(np.abs(fine[where])) / 0.6745)


def damage(photos: dict[str, Picture], only: str) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """Fill the damage of scans, with grain, without it, and by Telea's method."""
    prior, rows, results = open_prior({}), [], []
    rows.append(
        [
            "photograph",
            "tone",
            "filled",
            "method",
            "PSNR in the holes",
            "high-pass std: around",
            "inside",
            "CPU s",
        ]
    )
    for name, clean in photos.items():
        for tone in ("sepia", "grey"):
            scan, holes = scanned(clean, tone, seed=len(name))
            observed = np.repeat(~holes[..., None], 3, axis=2)
            damaged = np.where(observed, scan, np.float32(1))
            wide, thin = (cv2.dilate(holes.astype(np.uint8), np.ones((n, n))) > 0 for n in (17, 5))
            inner = cv2.erode(holes.astype(np.uint8), np.ones((3, 3))) > 0
            for method, given in _FILLS.items():
                if only not in method:
                    continue
                begun = time.process_time()
                done = restore(damaged, observed, given, prior=prior, name=name)
                spent = time.process_time() - begun
                around, inside = roughness(scan, wide & ~thin), roughness(done.mean, inner)
                score = psnr(done.mean[holes], scan[holes])
                results.append(
                    {
                        "name": name,
                        "tone": tone,
                        "method": method,
                        "psnr": score,
                        "around": around,
                        "inside": inside,
                    }
                )
                numbers = [f"{score:.2f}", f"{around:.2f}", f"{inside:.2f}", f"{spent:.1f}"]
                rows.append([name, tone, f"{holes.mean():.1%}", method, *numbers])
                print(*rows[-1], sep=" | ", flush=True)
    return rows, results


_FILLS: dict[str, dict[str, Any]] = {
    "diffbcp": {},
    "diffbcp without grain": {"grain": "none"},
    "telea": {"method": "telea", "grain": "none"},
}


def times(only: str) -> tuple[list[list[str]], list[dict[str, Any]]]:
    """Windows around damage by share and size; one window of the median size is timed, the rest follow from it."""
    from diffbcp_cli.jobs.session import resolved
    from diffbcp_cli.run.damage import damage_windows

    prior, rows, results = open_prior({}), [], []
    rows.append(["size", "damaged", "windows", "worked on", "CPU s a megapixel", "CPU s"])
    for height, width in SIZES:
        for share in SHARES:
            if only not in f"{width}x{height}":
                continue
            observed = _spots(height, width, share)
            options = resolved({}, observed)
            found = damage_windows(observed, options, None)
            sizes = [(height, width)] if found is None else found.sizes
            side = int(min(np.median([np.sqrt(h * w) for h, w in sizes]), 512))
            rate = _rate(side, options, prior) / side**2
            worked = sum(h * w for h, w in sizes)
            one = {"size": f"{width} x {height}", "damaged": share, "windows": len(sizes), "worked": worked}
            results.append({**one, "seconds": rate * worked})
            numbers = [f"{worked / (height * width):.1%}", f"{1e6 * rate:.0f}", f"{rate * worked:.0f}"]
            rows.append([one["size"], f"{share:.1%}", str(len(sizes)), *numbers])
            print(*rows[-1], sep=" | ", flush=True)
    return rows, results


def _spots(height: int, width: int, share: float) -> NDArray[np.bool_]:
    """Round spots of 16 pixels radius until so much is damaged: what is known, (H, W, 3)."""
    rng, holes = np.random.default_rng(0), np.zeros((height, width), np.uint8)
    while holes.mean() < share:
        for _ in range(max(1, int(0.2 * share * height * width / 800))):
            cv2.circle(holes, tuple(int(v) for v in rng.integers(0, [width, height])), 16, 1, -1)
    return np.repeat(holes[..., None] == 0, 3, axis=2)


def _rate(side: int, options: Any, prior: Any) -> float:
    """CPU seconds for one window with a spot in its middle."""
    y, x = np.mgrid[:side, :side] / 20
    picture = np.stack([0.5 + 0.3 * np.sin(x + c) * np.cos(y) for c in range(3)], -1).astype(np.float32)
    observed = np.ones(picture.shape, bool)
    observed[side // 2 - 14 : side // 2 + 14, side // 2 - 14 : side // 2 + 14] = False
    begun = time.process_time()
    restore(picture, observed, replace(options, observed="posterior"), prior=prior)
    return time.process_time() - begun


def main() -> None:
    """Measure, print the table, and keep the numbers."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("noise", "damage", "times"))
    parser.add_argument("--data", type=Path)
    parser.add_argument("--image", action="append", default=[])
    parser.add_argument("--only", default="", help="cases, methods or sizes whose name has this in it")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if args.what == "times":
        rows, results = times(args.only)
    else:
        if args.data is None:
            parser.error("--data is needed: a folder of photographs")
        measure = noise if args.what == "noise" else damage
        rows, results = measure(dict(photographs(args.data, args.image)), args.only)
    print(table(rows))
    save(args.json, results)


if __name__ == "__main__":
    main()
