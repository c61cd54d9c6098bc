"""Tiny seeded runs whose results are kept: `python tests/golden_runs.py` records them anew.

Each run is a command line, so the record survives any change of the inside. What is kept of a run is its mean, its
std and the numbers of its JSON file, and on which kind of processor it was made: on the same kind the bytes must be
the same, on another the values must be close.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import tifffile
import torch
from conftest import picture
from PIL import Image

from diffbcp_cli.cli import app

HOME = Path(__file__).parent / "data" / "golden"
SHORT = "--iterations 8 --burn-in 4 --rank 6 --calls 2 --finish 3 --precision fp32 --threads 1 --seed 5"
MANY = f"{SHORT} --iterations 60 --burn-in 20 --finish 2 --checkpoint-every 0.1"
LANGEVIN = "--precision fp32 --threads 1 --seed 5"
RUNS = {
    "langevin": f"inpaint photo.png --mask entries.png --iterations 12 {LANGEVIN}",
    "langevin-calibrated": f"inpaint photo.png --mask pixels.png --iterations 14 --burn-in 8 --calibrate {LANGEVIN}",
    "langevin-denoise": f"denoise photo.png {LANGEVIN}",
    "per-entry": f"inpaint photo.png --mask entries.png {SHORT}",
    "per-pixel": f"inpaint photo.png --mask pixels.png {SHORT}",
    "stripes": f"inpaint photo.png --mask stripes.png {SHORT}",
    "denoise": f"denoise photo.png {SHORT}",
    "reshape": f"inpaint photo.png --mask pixels.png --tensorize reshape {SHORT}",
    "windows": f"inpaint wide.png --mask wide-mask.png --window 64 {SHORT}",
    "calibrate": f"inpaint photo.png --mask entries.png --calibrate --save samples {SHORT}",
    "two-chains": f"inpaint photo.png --mask pixels.png --chains 2 {SHORT}",
    "resumed": f"inpaint photo.png --mask pixels.png {MANY}",
    "keep": f"inpaint photo.png --mask stripes.png --observed keep {SHORT}",
    "grey": f"inpaint grey.png --mask pixels.png {SHORT}",
    "deep-alpha": f"inpaint deep.tiff --mask pixels.png {SHORT}",
}
NUMBERS = (
    *("noise", "tensor_noise", "finish_level", "finish_weights", "rank", "mean_std", "iterations", "draws"),
    *("diagnostics", "calibration", "trace", "missing_share", "finished"),
)
"""What is kept of the JSON file."""


def kind_of_machine() -> dict[str, str]:
    """What the last bits of a result depend on."""
    return {
        "capability": torch.backends.cpu.get_cpu_capability(),
        "bfloat16": str(bool(torch.cpu.get_capabilities().get("avx512_bf16"))),
        "torch": torch.__version__.partition("+")[0],
    }


def make_inputs(folder: Path) -> None:
    """Write the photographs and masks that the runs name."""
    rng = np.random.default_rng(3)
    photo = (picture(40, 48) * 255).astype(np.uint8)
    Image.fromarray(photo).save(folder / "photo.png")
    Image.fromarray(photo[..., 0]).save(folder / "grey.png")
    deep = (picture(40, 48, 4) * 65535).astype(np.uint16)
    tifffile.imwrite(folder / "deep.tiff", deep, photometric="rgb", extrasamples=["unassalpha"])
    Image.fromarray(np.where(rng.random((40, 48, 3)) < 0.5, 255, 0).astype(np.uint8)).save(
        folder / "entries.png"
    )
    Image.fromarray(np.where(rng.random((40, 48)) < 0.5, 255, 0).astype(np.uint8)).save(folder / "pixels.png")
    stripes = np.zeros((40, 48), np.uint8)
    stripes[8:11], stripes[25:27], stripes[:, 20:24] = 255, 255, 255
    Image.fromarray(stripes).save(folder / "stripes.png")
    Image.fromarray((picture(48, 100) * 255).astype(np.uint8)).save(folder / "wide.png")
    wide = np.where(rng.random((48, 100)) < 0.5, 255, 0).astype(np.uint8)
    Image.fromarray(wide).save(folder / "wide-mask.png")


COMMON = ["-o", "out", "--quiet", "--device", "cpu"]


def start(folder: Path, line: str) -> subprocess.Popen[bytes]:
    """Start the command line in a folder of inputs."""
    words = [sys.executable, "-m", "diffbcp_cli", *line.split(), *COMMON]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        words, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )


def finish(process: subprocess.Popen[bytes]) -> int:
    """Wait for a run; its exit code."""
    _, talk = process.communicate(timeout=300)
    if process.returncode not in (0, 130):
        raise RuntimeError(talk.decode())
    return process.returncode


def interrupt(folder: Path, line: str) -> None:
    """Start a run and press Ctrl-C when its first checkpoint is there."""
    process = start(folder, line)
    checkpoint = folder / "out" / f"{Path(line.split()[1]).stem}.checkpoint.safetensors"
    while process.poll() is None and not checkpoint.exists():
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert finish(process) == 130, "the run was over before it could be interrupted"


def run(name: str, folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Make one run: its arrays, and the numbers of its record."""
    make_inputs(folder)
    line = RUNS[name]
    if name == "resumed":
        interrupt(folder, line)
        line += " --resume"
    with contextlib.chdir(folder), contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())):
        assert app.run([*line.split(), *COMMON]) == 0
    stem = Path(line.split()[1]).stem
    record = json.loads((folder / "out" / f"{stem}.json").read_text())
    arrays = {
        "mean": cv2.imread(str(folder / "out" / f"{stem}.mean.png"), cv2.IMREAD_UNCHANGED),
        "std": tifffile.imread(folder / "out" / f"{stem}.std.tiff"),
    }
    samples = folder / "out" / f"{stem}.samples.npz"
    if samples.exists():
        arrays["samples"] = np.load(samples)["samples"]
    return arrays, {key: record[key] for key in NUMBERS if key in record}


def main(names: list[str]) -> None:
    """Record some runs anew, all without names."""
    HOME.mkdir(parents=True, exist_ok=True)
    numbers: dict[str, Any] = {"machine": kind_of_machine(), "runs": {}}
    if names:
        numbers = json.loads((HOME / "numbers.json").read_text())
    for name in names or RUNS:
        with tempfile.TemporaryDirectory() as folder:
            arrays, numbers["runs"][name] = run(name, Path(folder))
        np.savez_compressed(HOME / f"{name}.npz", **arrays)
    (HOME / "numbers.json").write_text(json.dumps(numbers, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
