"""The demo: damage a real photograph, restore it, and leave a picture of both.

    python docs/demo.py FOLDER

The photograph is Grace Hopper's portrait (U.S. Navy, public domain), which matplotlib carries as sample data.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.cbook import get_sample_data
from PIL import Image

from diffbcp_cli.cli.app import run


def portrait() -> Image.Image:
    """The portrait's face and shoulders, 256 x 256."""
    with get_sample_data("grace_hopper.jpg") as file:
        photo = Image.open(file).convert("RGB")
    side = min(photo.size)
    return photo.crop((0, 0, side, side)).resize((256, 256), Image.Resampling.LANCZOS)


def diffbcp(line: str) -> None:
    """Run a command line in this process, after showing it."""
    print(f"$ diffbcp {line}", flush=True)
    code = run(line.split())
    if code:
        sys.exit(code)


def main(folder: Path) -> None:
    """Four commands, and the picture."""
    folder.mkdir(parents=True, exist_ok=True)
    portrait().save(folder / "truth.png")
    diffbcp(f"mask make --kind uniform --missing 0.8 --like {folder}/truth.png --seed 1 -o {folder}/mask.png")
    diffbcp(f"mask apply {folder}/truth.png --mask {folder}/mask.png --noise 0.025 -o {folder}/photo.png")
    diffbcp(f"inpaint {folder}/photo.png --mask {folder}/mask.png -o {folder} --save panel --overwrite")
    diffbcp(f"eval {folder}/photo.mean.png {folder}/truth.png")
    print(f"\nLook at {folder}/photo.panel.png")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
