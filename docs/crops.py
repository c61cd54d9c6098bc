"""Make docs/images/large.jpg: crops at 100 % of what `benchmarks/highres.py --save` has restored.

    python docs/crops.py --data photos/ --restored results/

From left to right: what is known, Telea's inpainting, diffbcp, the truth.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "benchmarks"))

from common import Pixels, opencv_inpaint, photographs  # noqa: E402
from highres import damaged  # noqa: E402

SIDE, GAP = 320, 4
CROPS = {  # where a crop begins: row, column
    ("chicago", "uniform-0.9"): (930, 1420),
    ("kitten", "uniform-0.9"): (940, 540),
    ("chicago", "irregular"): (1500, 1450),
    ("kitten", "irregular"): (1380, 900),
}


def main() -> None:
    """Cut and join the crops."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--restored", type=Path, required=True)
    args = parser.parse_args()
    rows = []
    for (name, mask), (top, left) in CROPS.items():
        truth = photographs(args.data, [name])[name]
        pixels, observed = damaged(truth, mask, name)
        restored = np.asarray(Image.open(args.restored / f"{name}-{mask}-patch.png")) / 255
        shown = [np.where(observed, pixels, 0), opencv_inpaint(1)(pixels, observed), restored, truth]
        rows.append(joined([picture[top : top + SIDE, left : left + SIDE] for picture in shown], axis=1))
    panel = joined(rows, axis=0)
    path = HERE / "images" / "large.jpg"
    Image.fromarray(np.rint(panel.clip(0, 1) * 255).astype(np.uint8)).save(path, quality=88)
    print(path)


def joined(parts: list[Pixels], axis: int) -> Pixels:
    """Put pictures in a row or a column, with a white gap between them."""
    margin = [(0, GAP if n == axis else 0) for n in range(3)]
    whole = np.concatenate([np.pad(part, margin, constant_values=1) for part in parts], axis)
    return whole.take(range(whole.shape[axis] - GAP), axis)


if __name__ == "__main__":
    main()
