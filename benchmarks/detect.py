"""How well `mask detect` finds made damage, and whether it leaves clean photographs alone.

Forty scans of small photographs and of crops of large ones: grey, sepia and colour, PNG and JPEG, each with some of
dust, scratches, folds and stamps. Recall by kind counts its damaged pixels that the mask covers; precision the pixels
of the mask that lie within 3 pixels of damage; error the share of all damage's squared error that it covers.

    python benchmarks/detect.py --small dev256/ --large dev2048/ --seeds 3
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
from common import photographs
from scans import KINDS, TONES, Scan, make_scan

from diffbcp_cli.jobs.session import restore
from diffbcp_cli.photos.detect import CLASSICAL, Found, Settings, detect

CROP = 512
NEAR = 3  # pixels: what the mask covers beside damage is no false alarm
CLEAN = 0.0005  # share of a clean photograph that a mask may cover
Look = Callable[[np.ndarray], Found]


def scans(small: Path, large: Path | None, seed: int, count: int) -> list[tuple[str, Scan]]:
    """Made scans by name, each kind of damage in about half of them, none without any."""
    rng = np.random.default_rng(seed)
    pictures = list(photographs(small).items())
    for name, pixels in photographs(large).items() if large else ():
        for number in range(3):
            top, left = (int(rng.integers(0, side - CROP)) for side in pixels.shape[:2])
            pictures.append((f"{name}-{number}", pixels[top : top + CROP, left : left + CROP]))
    made = []
    for index in range(count):
        name, pixels = pictures[index % len(pictures)]
        chosen = tuple(kind for kind in KINDS if rng.random() < 0.45) or (KINDS[index % len(KINDS)],)
        quality = (None, 95, 90, 80)[int(rng.integers(4))]
        made.append((name, make_scan(pixels, chosen, tone=TONES[index % 3], quality=quality, rng=rng)))
    return made


Seen = list[tuple[str, Scan, np.ndarray]]  # a scan's name, the scan, and what of it is not masked, (H, W, 1)


def measure(made: Seen) -> dict[str, list[float]]:
    """Damaged and covered pixels by kind; found and rightly found ones; squared error, and what of it is covered."""
    totals = {kind: [0.0, 0.0] for kind in (*KINDS, "found", "error")}
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * NEAR + 1, 2 * NEAR + 1))
    for _, scan, observed in made:
        found = ~observed[..., 0]
        square = np.square(scan.pixels - scan.clean).sum(axis=-1) * scan.any_damage
        totals["error"][0] += square.sum()
        totals["error"][1] += square[found].sum()
        near = cv2.dilate(scan.any_damage.astype(np.uint8), disc) > 0
        totals["found"][0] += found.sum()
        totals["found"][1] += (found & near).sum()
        for kind, where in scan.damage.items():
            totals[kind][0] += where.sum()
            totals[kind][1] += (found & where).sum()
    return totals


def repaired(made: Seen, method: str) -> dict[str, float]:
    """PSNR on the damaged pixels of all scans: as they are, and restored with the found and the true mask."""
    squares, count = dict.fromkeys(("damaged", "found mask", "true mask"), 0.0), 0
    for name, scan, found in made:
        where = scan.any_damage
        disc = np.ones((3, 3), np.uint8)
        true = (
            cv2.dilate(where.astype(np.uint8), disc)[..., None] == 0
        )  # as far beyond the damage as --grow 1
        masks = {"found mask": found, "true mask": true}
        pictures = {"damaged": scan.pixels}
        for label, observed in masks.items():
            known = np.broadcast_to(observed, scan.pixels.shape)
            whole = known.all()
            restored = (
                None if whole else restore(scan.pixels, known, {"method": method}, prior=None, name=name).mean
            )
            pictures[label] = scan.pixels if restored is None else np.where(known, scan.pixels, restored)
        for label, picture in pictures.items():
            squares[label] += float(np.square(picture - scan.clean)[where].sum(dtype=np.float64))
        count += 3 * int(where.sum())
    return {label: -10 * float(np.log10(total / count)) for label, total in squares.items()}


def left_alone(pictures: list[np.ndarray], look: Look) -> list[float]:
    """The share of each clean picture that is marked; says how many are below CLEAN."""
    shares = [float((~look(pixels).observed).mean()) for pixels in pictures]
    good, empty = sum(share < CLEAN for share in shares), sum(share == 0 for share in shares)
    print(
        f"{good} of {len(shares)} clean photographs below {CLEAN:.2%} of their pixels, {empty} of them empty"
    )
    print(
        "the others:", ", ".join(f"{share:.3%}" for share in shares if share >= CLEAN) or "none", flush=True
    )
    return shares


def main() -> None:
    """Print a table of recall by kind, precision, and the clean photographs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", type=Path, required=True)
    parser.add_argument("--large", type=Path)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--sensitivity", type=float, default=1.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument(
        "--method", help="restore the scans too, by a method that needs no prior, such as telea"
    )
    parser.add_argument("--detector", default=CLASSICAL)
    parser.add_argument("--clean", type=Path, help="a folder of more clean photographs")
    given = parser.parse_args()
    settings, rows = Settings(sensitivity=given.sensitivity), {}

    def look(pixels: np.ndarray) -> Found:
        return detect(pixels, settings, detector=given.detector)

    for seed in range(given.first_seed, given.first_seed + given.seeds):
        made = [
            (name, scan, look(scan.pixels).observed)
            for name, scan in scans(given.small, given.large, seed, given.count)
        ]
        totals = measure(made)
        rows[seed] = {kind: right / max(all_, 1) for kind, (all_, right) in totals.items()}
        print(
            f"| {seed} | " + " | ".join(f"{rows[seed][kind]:.2f}" for kind in rows[seed]) + " |",
            flush=True,
        )
        if given.method:
            found = repaired(made, given.method)
            print(", ".join(f"{label} {value:.2f} dB" for label, value in found.items()), flush=True)
    clean = [*photographs(given.small).values(), *(photographs(given.large).values() if given.large else ())]
    shares = left_alone(clean, look)
    if given.clean:
        left_alone(list(photographs(given.clean).values()), look)
    if given.json:
        print(json.dumps({"rows": rows, "clean": shares}))


if __name__ == "__main__":
    main()
