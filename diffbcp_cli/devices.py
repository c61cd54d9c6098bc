"""Where the work runs, and how precisely the network computes there."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .errors import UsageError

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "cuda:1", "mps")
PRECISIONS = ("auto", "fp32", "bf16", "fp16")
CUDA_BLOCK = 100  # components drawn together on CUDA: few large operations suit it
DEVICE_SHARE = 0.75  # of the memory of a GPU that a photograph may take, unless a budget is given
_NO_ROOM = ("out of memory", "can't allocate memory", "ALLOC_FAILED")
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
    """Return the device that `--device` names. `auto` is the first CUDA GPU, else an Apple GPU, else the CPU.

    An Apple GPU must be able to run what is needed (apple.py).
    """
    import torch

    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if why_no_apple_gpu() is None else "cpu")
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


def why_no_cuda() -> str:
    """Why torch finds no CUDA GPU."""
    import torch

    if not (torch.version.cuda or torch.version.hip):
        return "this torch was built without CUDA"
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = "" if visible is None else f" among CUDA_VISIBLE_DEVICES={visible}"
    return f"torch finds no driver or no GPU{hidden}"


def why_no_apple_gpu() -> str | None:
    """Why `auto` does not take an Apple GPU, None if it may."""
    import torch

    from .apple import lacking

    return lacking() if torch.backends.mps.is_available() else "there is none that torch can use"


def defaults_of(device: torch.device) -> dict[str, Any]:
    """Options that suit a device, where they are not given."""
    total = device_memory(device)
    found: dict[str, Any] = {} if total is None else {"memory_budget": int(DEVICE_SHARE * total)}
    return {**found, "block": CUDA_BLOCK} if device.type == "cuda" else found


def device_memory(device: torch.device) -> int | None:
    """Bytes of memory that a GPU has for us, None for the processor."""
    import torch

    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[1])
    return int(torch.mps.recommended_max_memory()) if device.type == "mps" else None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the memory of the device, or of the machine, ran out: not every device has a class for it."""
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error) for sign in _NO_ROOM)


def release_memory(device: torch.device) -> None:
    """Give back what torch keeps of a GPU's memory for later."""
    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()


def synchronize(device: torch.device) -> None:
    """Wait until a GPU has done what it was asked for, as a clock must."""
    import torch

    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()


@contextmanager
def full_precision(device: torch.device) -> Iterator[None]:
    """Compute float32 products in float32. CUDA rounds the factors of convolutions to 11 bits (TF32) otherwise."""
    import torch

    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = _rounding() if device.type == "cuda" else None
    if before is None:
        yield
        return
    matmul.allow_tf32 = cudnn.allow_tf32 = False
    try:
        yield
    finally:
        matmul.allow_tf32, cudnn.allow_tf32 = before


def _rounding() -> tuple[bool, bool] | None:
    """Whether matrix products and convolutions may use TF32, None if torch's newer switches were used to say so."""
    import torch

    try:
        return torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    except RuntimeError:
        return None


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
    native = torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)
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
