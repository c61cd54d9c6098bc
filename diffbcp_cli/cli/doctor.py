"""`diffbcp doctor`: what this machine offers, for the user and for a bug report."""

from __future__ import annotations

import platform
import shutil
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from . import render

PACKAGES = (
    "torch",
    "numpy",
    "pillow",
    "tifffile",
    "opencv-python-headless",
    "matplotlib",
    "huggingface-hub",
    "safetensors",
    "filelock",
    "psutil",
    "typer",
    "rich",
)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show the device, versions, cache and memory that a run would have."""
    found = examine()
    if as_json:
        render.as_json(found)
    else:
        render.facts(found)


def examine() -> dict[str, Any]:
    """Look at the machine."""
    return {
        "diffbcp": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} ({platform.machine()})",
        "packages": {name: _version(name) for name in PACKAGES},
        **_device(),
        **_memory(),
        **_cache(),
    }


def _version(name: str) -> str:
    from importlib import metadata  # slow to import, and no other command needs it

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "missing"


def _device() -> dict[str, Any]:
    import torch

    from ..devices import (
        device_memory,
        pick_device,
        pick_precision,
        usable_cores,
        why_no_apple_gpu,
        why_no_cuda,
    )

    device = pick_device("auto")
    memory = device_memory(device)
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    used = pick_precision("auto", device, tolerant=True)  # the bundled prior loses nothing by bfloat16
    apple = torch.backends.mps.is_available()
    return {
        "device": str(device),
        **({"apple_gpu": why_no_apple_gpu() or "used"} if apple else {}),
        **({} if memory is None else {"device_memory_gb": round(memory / 1e9, 1)}),
        "precision": str(used).removeprefix("torch."),
        **({} if gpus else {"cuda": why_no_cuda()}),
        "gpus": gpus,
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
    }


def _memory() -> dict[str, Any]:
    import psutil

    from ..devices import free_memory

    total = psutil.virtual_memory().total
    return {"memory_gb": round(total / 1e9, 1), "memory_free_gb": round(free_memory() / 1e9, 1)}


def _cache() -> dict[str, Any]:
    from huggingface_hub import constants

    from ..priors import models_folder

    cache = Path(constants.HF_HUB_CACHE)
    present = next(folder for folder in (cache, *cache.parents) if folder.exists())
    bundled = models_folder() / "natural" / "model.safetensors"
    return {
        "cache": str(cache),
        "cache_free_gb": round(shutil.disk_usage(present).free / 1e9, 1),
        "offline": bool(constants.HF_HUB_OFFLINE),
        "bundled_prior": str(bundled) if bundled.is_file() else None,
    }
