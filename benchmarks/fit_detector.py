"""Fit the judges of `mask detect`: small networks that give the odds that a candidate is damage.

Candidates come from made scans (`scans.py`) and from the same number of clean photographs, in two sizes. The odds by
which the limits are chosen are out of fold: no picture is judged by a network that was fitted to it. Keep the
photographs apart from those that `detect.py` measures on. The limits `evidence` and `usual` that ship were set
after that, on 50 scans and 50 clean photographs, to cover the most of the squared error that damage makes.

    python benchmarks/fit_detector.py train/ --save candidates.npz --out weights.json
    python benchmarks/fit_detector.py candidates.npz --out diffbcp_cli/photos/detect/weights.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from scans import KINDS, TONES, Scan, make_scan, stored, toned
from torch import nn

from diffbcp_cli.photos.detect import lines, specks, stamps
from diffbcp_cli.photos.detect.ground import Ground
from diffbcp_cli.photos.detect.judge import TOGETHER
from diffbcp_cli.photos.photo import read_photo

Floats = NDArray[np.float32]
HIDDEN = {"dust": 32, "scratch": 16, "fold": 16, "text": 8}
FARTHEST = 6.0  # standard deviations, as in judge.py
FOLDS = 4
ENOUGH, LITTLE = 0.4, 0.15  # of a candidate that is damage: it is, it is not; in between it teaches nothing
CLEAN = 0.005  # share of clean photographs in which a judge may find anything beyond doubt
TAKEN = 0.04  # share of clean photographs that may be taken for damaged ones, by the evidence of all judges
PRECISE = {
    "dust": 0.78,
    "scratch": 0.85,
    "fold": 0.85,
    "text": 0.85,
}  # of what the usual limit lets pass, in scans


@dataclass
class Rows:
    """Candidates of one kind. damaged: the share of each that is damage; size: its pixels; picture: its number."""

    features: Floats
    damaged: Floats
    size: Floats
    picture: Floats


def pictures(folder: Path, count: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Photographs, by turns a crop of 512 x 512 and three that are 256 pixels on their shorter side."""
    paths = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".png", ".jpg"))
    for index, path in enumerate(paths[:count]):
        pixels = read_photo(path).pixels
        pixels = np.ascontiguousarray(np.broadcast_to(pixels, (*pixels.shape[:2], 3)))
        height, width = pixels.shape[:2]
        if index % 4:
            scale = 256 / min(height, width)
            yield cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        else:
            side = min(512, height, width)
            top, left = (int(rng.integers(0, length - side + 1)) for length in (height, width))
            yield np.ascontiguousarray(pixels[top : top + side, left : left + side])


def candidates(scan: Scan) -> dict[str, tuple[Floats, Floats, Floats]]:
    """For each kind features, the share of each candidate that is damage, and its size."""
    ground, damage = Ground(scan.pixels), scan.any_damage
    found = specks.find_specks(ground)
    flat = found.labels.ravel()
    size = np.bincount(flat, minlength=len(found.features) + 1)[1:]
    share = np.bincount(flat, damage.ravel(), len(found.features) + 1)[1:] / np.maximum(size, 1)
    rows = {"dust": (found.features, share, size)}
    near = cv2.dilate(damage.astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    for kind in (lines.SCRATCH, lines.FOLD):
        traced = lines.find_lines(ground, kind)
        rows[kind.name] = (traced.features, _along(near, traced.paths), [len(path) for path in traced.paths])
    rows["text"] = _words(ground, damage)
    return {kind: tuple(np.asarray(part, np.float32) for part in parts) for kind, parts in rows.items()}


def _along(near: NDArray[np.bool_], paths: list[Floats]) -> list[float]:
    height, width = near.shape
    places = [np.rint(path).astype(int) for path in paths]
    return [
        float(near[y.clip(0, height - 1), x.clip(0, width - 1)].mean()) for x, y in (at.T for at in places)
    ]


def _words(ground: Ground, damage: NDArray[np.bool_]) -> tuple[Floats, list[float], list[int]]:
    found = stamps.find_stamps(ground)
    sizes = [int(mask.sum()) for mask in found.masks]
    where = [cv2.resize(damage.astype(np.uint8), mask.shape[::-1]) > 0 for mask in found.masks]
    return (
        found.features,
        [float(at[mask].mean()) for at, mask in zip(where, found.masks, strict=True)],
        sizes,
    )


def collect(folder: Path, count: int, seed: int) -> dict[str, Rows]:
    """Candidates of made scans (odd pictures) and of clean ones (even pictures)."""
    rng, parts = np.random.default_rng(seed), {kind: [] for kind in KINDS}
    for number, pixels in enumerate(pictures(folder, count, rng)):
        tone, quality = TONES[number % 3], (None, 95, 90, 80)[int(rng.integers(4))]
        if number % 2:
            chosen = tuple(kind for kind in KINDS if rng.random() < 0.45) or ("dust",)
            scan = make_scan(pixels, chosen, tone=tone, quality=quality, rng=rng)
        else:
            plain = stored(toned(pixels, tone), quality)
            scan = Scan(plain, plain)
        for kind, (features, share, size) in candidates(scan).items():
            parts[kind].append((features, share, size, np.full(len(share), number, np.float32)))
    return {
        kind: Rows(*(np.concatenate(part) for part in zip(*rows, strict=True)))
        for kind, rows in parts.items()
    }


def fit(features: Floats, target: Floats, hidden: int, seed: int) -> tuple[Floats, Floats, nn.Sequential]:
    """Mean and std of the features, and the network of log odds over them."""
    torch.manual_seed(seed)
    mean, std = features.mean(axis=0), features.std(axis=0) + np.float32(1e-6)
    z = torch.from_numpy(np.nan_to_num((features - mean) / std).clip(-FARTHEST, FARTHEST))
    y = torch.from_numpy(target)[:, None]
    net = nn.Sequential(nn.Linear(z.shape[1], hidden), nn.ReLU(), nn.Linear(hidden, 1))
    steps = 1500
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, weight_decay=0.03)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        some = torch.randint(len(z), (min(2048, len(z)),))
        loss = nn.functional.binary_cross_entropy_with_logits(net(z[some]), y[some])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return mean, std, net


@torch.no_grad()
def odds(found: tuple[Floats, Floats, nn.Sequential], features: Floats) -> Floats:
    """Log odds of candidates."""
    mean, std, net = found
    z = np.nan_to_num((features - mean) / std).clip(-FARTHEST, FARTHEST)
    return net(torch.from_numpy(z))[:, 0].numpy()


def judge(rows: Rows, kind: str) -> tuple[object, Floats]:
    """Fit the judge of a kind and choose its limits; and the evidence of each picture by it, out of fold."""
    clear = (rows.damaged > ENOUGH) | (rows.damaged < LITTLE)
    target = (rows.damaged > ENOUGH).astype(np.float32)
    fold, apart = (rows.picture // 2) % FOLDS, np.zeros(len(target), np.float32)
    for number in range(FOLDS):
        inside = clear & (fold != number)
        found = fit(rows.features[inside], target[inside], HIDDEN[kind], number)
        apart[fold == number] = odds(found, rows.features[fold == number])
    limits = _limits(rows, target, apart, kind)
    mean, std, net = fit(rows.features[clear], target[clear], HIDDEN[kind], 0)
    layers = [(layer.weight.T.tolist(), layer.bias.tolist()) for layer in net if isinstance(layer, nn.Linear)]
    evidence = np.zeros(int(rows.picture.max()) + 1)
    (np.maximum if kind in TOGETHER else np.add).at(evidence, rows.picture.astype(int), np.maximum(apart, 0))
    return _rounded({"mean": mean.tolist(), "std": std.tolist(), "layers": layers, **limits}), evidence


def _limits(rows: Rows, target: Floats, apart: Floats, kind: str) -> dict[str, float]:
    """strict: few clean photographs have anything above it. usual: PRECISE of what passes it in scans is damage."""
    scan = rows.picture % 2 == 1
    clean = np.unique(rows.picture[~scan])
    highest = np.asarray([apart[rows.picture == number].max() for number in clean])
    total = int(rows.picture.max()) // 2 + 1
    strict = float(np.sort(highest)[::-1][: int(CLEAN * total) + 1].min())
    order = np.argsort(-apart[scan])
    right, size = target[scan][order] * rows.size[scan][order], rows.size[scan][order]
    precise = np.cumsum(right) / np.cumsum(size) >= PRECISE[kind]
    last = int(np.flatnonzero(precise).max()) if precise.any() else 0
    usual = min(strict, float(apart[scan][order][last]))
    for name, limit in (("strict", strict), ("usual", usual)):
        passed = apart[scan] > limit
        recall = (target[scan] * rows.size[scan])[passed].sum() / (target * rows.size)[scan].sum()
        print(f"{kind:8} {name:6} {limit:6.2f}: {recall:.2f} of the damaged candidates of scans")
    return {"strict": strict, "usual": usual}


def _rounded(value: object) -> object:
    if isinstance(value, dict):
        return {key: _rounded(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(part) for part in value]
    return float(f"{value:.5g}")


def main() -> None:
    """Collect candidates, or take those that were saved; fit; write the weights."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path, help="a folder of photographs, or candidates that were saved")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--count", type=int, default=900)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.source.is_dir():
        found = collect(given.source, given.count, given.seed)
    else:
        with np.load(given.source) as file:
            found = {kind: Rows(*(file[f"{kind}-{part}"] for part in Rows.__annotations__)) for kind in KINDS}
    if given.save:
        kept = {
            f"{kind}-{part}": getattr(rows, part)
            for kind, rows in found.items()
            for part in Rows.__annotations__
        }
        np.savez_compressed(given.save, **kept)
    fitted = {kind: judge(rows, kind) for kind, rows in found.items()}
    count = max(len(evidence) for _, evidence in fitted.values())
    total = sum(np.pad(evidence, (0, count - len(evidence))) for _, evidence in fitted.values())
    enough = float(np.quantile(total[::2], 1 - TAKEN))
    print(f"evidence {enough:.2f}: {(total[1::2] > enough).mean():.2f} of the scans are seen to be damaged")
    judges = {"evidence": round(enough, 2), **{kind: one for kind, (one, _) in fitted.items()}}
    given.out.write_text(json.dumps(judges), encoding="utf-8")


if __name__ == "__main__":
    main()
