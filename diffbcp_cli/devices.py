"""Where the work runs, and how precisely the network computes there."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from .errors import UsageError

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "cuda:1", "mps")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
SHORT_SPIN = {
    "GOMP_SPINCOUNT": "1000",  # GNU OpenMP: rounds of a loop
    "KMP_BLOCKTIME": "1",  # LLVM and Intel OpenMP: milliseconds
}


def spin_briefly() -> None:
    """Let idle OpenMP threads spin only briefly before they sleep, unless the user has chosen otherwise.

    Threads that spin for long slow a network call down 2 to 30 times when other processes are busy. OpenMP
    reads these variables once, when torch is imported; worker processes inherit them.
    """
    if "torch" in sys.modules or "OMP_WAIT_POLICY" in os.environ:
        return
    for name, value in SHORT_SPIN.items():
        os.environ.setdefault(name, value)


def pick_device(name: str = "auto") -> torch.device:
    """Return the device that `--device` names. `auto` is the first CUDA GPU, or the CPU without one.

    An Apple GPU is used only when it is named: it has no float64, which the sampler needs.
    """
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, index = name.partition(":")
    if kind == "cpu" and not index:
        return torch.device("cpu")
    if kind == "mps" and not index:
        if not torch.backends.mps.is_available():
            raise UsageError("there is no Apple GPU that torch can use", hint="--device cpu")
        return torch.device("mps")
    if kind == "cuda" and (index.isdecimal() or name == "cuda"):
        return _cuda(int(index) if index else None)
    raise UsageError(f"unknown device {name!r}", hint=f"--device {'|'.join(DEVICES)}")


def _cuda(index: int | None) -> torch.device:
    import torch

    if not torch.cuda.is_available():
        raise UsageError("there is no CUDA GPU torch can use", hint="--device cpu; diffbcp doctor says more")
    count = torch.cuda.device_count()
    if index is None:
        return torch.device("cuda")
    if index >= count:
        raise UsageError(
            f"there is no GPU {index}: torch sees {count}",
            hint=f"--device cuda:0 .. cuda:{count - 1}",
        )
    return torch.device("cuda", index)


def pick_precision(name: str, device: torch.device, *, tolerant: bool = False) -> torch.dtype:
    """The number type of the network that `--precision` names.

    `auto` is bfloat16 on a CUDA GPU that computes in it and float16 on an older one. On the processor it is
    float32, or bfloat16 if the processor computes in it and the network is known to lose nothing by it
    (`tolerant`); on Apple GPUs float32. Everything but the network stays in the sampler's own type.
    """
    import torch

    types = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
    if name in types:
        return types[name]
    if name != "auto":
        raise UsageError(f"unknown precision {name!r}", hint=f"--precision {'|'.join(PRECISIONS)}")
    if device.type == "cpu":
        return torch.bfloat16 if tolerant and processor_has_bf16() else torch.float32
    if device.type != "cuda":
        return torch.float32
    native = torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.bfloat16 if native else torch.float16


def processor_has_bf16() -> bool:
    """Whether the processor multiplies bfloat16 numbers itself, twice as fast as float32 or faster."""
    import torch

    ask = getattr(torch.cpu, "get_capabilities", None)  # an older torch cannot say
    found = ask() if ask is not None else {}
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


def use_threads(count: int) -> int:
    """Compute with `count` threads from now on, 0 for as many as torch would take; return how many.

    The number is part of what fixes a result's bits: sums are split among threads.
    """
    import torch

    if count:
        torch.set_num_threads(count)
    return torch.get_num_threads()


def usable_cores() -> int:
    """How many cores this process may use."""
    import psutil

    ours = getattr(psutil.Process(), "cpu_affinity", None)  # macOS does not know it
    return len(ours()) if ours is not None else psutil.cpu_count() or 1


def free_memory() -> int:
    """Bytes that a new process could have without swapping."""
    import psutil

    return int(psutil.virtual_memory().available)
