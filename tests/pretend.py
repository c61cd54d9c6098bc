"""A GPU that is not there: tensors that say they are on one, compute on the processor, and keep its rules.

    with Gpu("mps") as gpu:
        ...                       # "mps" is a device here; what it would refuse is a DeviceError
    gpu.waits, gpu.launches       # how often the host waited for it, how many operations it got

Values are those of the processor, so branches on data go the way they really would. Rules: the operands of an
operation are on one device, a generator draws on its own, NumPy gets nothing that is not on the host, and an Apple
GPU has no float64 and only the kernels that torch's own table (native_functions.yaml) names for it. `most`: bytes
that one result may take before the device is out of memory.
"""

from __future__ import annotations

import functools
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

from diffbcp_cli import random

PACKAGE = Path(random.__file__).parent
KINDS = ("cuda", "mps")
_Generator = torch.Generator
_gpus: list[Gpu] = []
_claimed: dict[int, torch.device] = {}  # by the C++ generator: dispatch makes a new wrapper for each call


class DeviceError(RuntimeError):
    """What the real device would have refused."""


class Elsewhere(torch.Tensor):
    """A tensor `inner` of the processor that says it is on `claimed`; to C++ it is a meta tensor with its keys."""

    @staticmethod
    def __new__(cls, inner, claimed, requires_grad=False):
        with torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunction():
            shell = torch.empty_strided(inner.shape, inner.stride(), dtype=inner.dtype, device="meta")
        made = torch.Tensor._make_subclass(cls, shell, requires_grad, device_for_backend_keys=claimed)
        made.inner, made.claimed = inner, claimed
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl

    @property
    def device(self):
        return self.claimed

    def __repr__(self):
        return f"Elsewhere({tuple(self.shape)}, {self.dtype}, {self.claimed})"

    def __deepcopy__(self, memo):
        return Elsewhere(self.inner.clone(), self.claimed, self.requires_grad)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if not _gpus:
            raise DeviceError(f"{func}: a tensor outlived its device")
        with _gpus[-1]:  # the thread of autograd has no modes of its own
            return func(*args, **(kwargs or {}))


class PretendGenerator(_Generator):
    """A generator of the processor that says it is on another device."""

    def __new__(cls, device="cpu"):
        made = super().__new__(cls)
        _claimed[made._cdata] = made.claimed = _indexed(torch.device(device))
        return made

    def __del__(self):
        _claimed.pop(self._cdata, None)  # the address may be given to another one

    @property
    def device(self):
        return self.claimed


class PretendTwin(PretendGenerator, random.Twin):
    """Both generators of a device, the first of which only says that it is there."""


def _indexed(device):
    there = device.type in KINDS and device.index is None
    return torch.device(device.type, 0) if there else device


def _named(value):
    """A device with its number, since C++ would ask the driver for the current one; anything else as it is."""
    if isinstance(value, str) and value.split(":")[0] in KINDS:
        value = torch.device(value)
    return _indexed(value) if isinstance(value, torch.device) else value


# --- what torch's own table says -------------------------------------------------------------------------

NO_LAUNCH = {
    *("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "detach", "alias", "view"),
    *("_unsafe_view", "_reshape_alias", "lift_fresh", "resize_", "set_", "_local_scalar_dense"),
    *("is_same_size", "_to_copy", "copy_", "_has_compatible_shallow_copy_type"),
}
WAITS = {
    *("_local_scalar_dense", "nonzero", "unique_dim", "_unique2", "masked_select", "equal", "bincount"),
    *("is_nonzero", "_linalg_check_errors", "_linalg_eigh", "linalg_eigh", "_linalg_svd", "linalg_svd"),
}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put_"}
COPYING = {"copy_", "_to_copy", "copy"}


@functools.cache
def table():
    """The operations of torch: overload to its entry in native_functions.yaml."""
    import torchgen
    import yaml

    path = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return {entry["func"].split("(")[0]: entry for entry in yaml.load(path.read_text(), Loader=loader)}


@functools.cache
def has_mps_kernel(overload):
    """Whether an Apple GPU runs an operation; those that the table does not have are left open."""
    entry = table().get(overload)
    if entry is None:
        return True
    if "structured_delegate" in entry:
        return has_mps_kernel(entry["structured_delegate"])
    keys = {key.strip() for group in entry.get("dispatch", {}) for key in group.split(",")}
    return not keys or "MPS" in keys or any(key.startswith("Composite") for key in keys)


@functools.cache
def _is_view(func):
    aliases = (result.alias_info for result in func._schema.returns)
    return any(alias is not None and not alias.is_write for alias in aliases)


# --- the device ------------------------------------------------------------------------------------------

LOWER = {
    *(torch.conv2d, torch.conv1d, torch.nn.functional.linear),
    torch.nn.functional.scaled_dot_product_attention,
}


class _Calls(TorchFunctionMode):
    """Calls that C++ would answer before dispatch sees them, and by the wrong device."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = {
            name: _named(value) if name == "device" else value for name, value in (kwargs or {}).items()
        }
        first = args[0] if args else None
        if func is torch.Tensor.to:
            args = tuple(_named(value) for value in args)
            if len(args) > 1 and isinstance(args[1], Elsewhere):
                args = (first, args[1].claimed, args[1].dtype, *args[2:])
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            where = kwargs.pop("device")
            if isinstance(first, torch.Tensor):
                return first.to(torch.device(where), kwargs.get("dtype") or first.dtype)
            return func(*args, **kwargs).to(where)
        if func is torch.Tensor.pin_memory:
            first.pinned = True
            return first
        if isinstance(first, Elsewhere):
            if func is torch.Tensor.tolist:
                return first.cpu().tolist()
            if func is torch.Tensor.numpy:
                raise TypeError(
                    f"can't convert {first.claimed} device type tensor to numpy. Use Tensor.cpu()"
                )
        if func in LOWER | {torch.group_norm} and torch.is_autocast_enabled(self.kind):
            dtype = torch.get_autocast_dtype(self.kind) if func in LOWER else torch.float32
            args, kwargs = tree_map(functools.partial(_cast, dtype), (args, kwargs))
        return func(*args, **kwargs)


def _cast(dtype, value):
    floats = isinstance(value, Elsewhere) and value.is_floating_point()
    return value.to(dtype) if floats else value


class Gpu(TorchDispatchMode):
    """Run what is inside as if a GPU of this kind, "cuda" or "mps", were there.

    waits: how often the host waited, by the line of the package that made it. launches: operations on the device.
    types: number types of convolutions and matrix products. rough: where such a product of float32 numbers was left
    to TF32. loose: collect faults instead of raising them.
    """

    def __init__(self, kind="cuda", *, loose=False, most=None, free=8 * 2**30, bf16=True):
        super().__init__()
        self.kind, self.loose, self.most, self.free, self.bf16 = kind, loose, most, free, bf16
        self.here = torch.device(kind, 0)
        self.faults = Counter()
        self.reset()

    def reset(self):
        """Begin to count anew."""
        self.waits, self.launches, self.types, self.asynchronous = Counter(), 0, Counter(), 0
        self.rough = Counter()

    def __enter__(self):
        stack, cuda = ExitStack(), self.kind == "cuda"
        for target, name, value in (
            (torch, "Generator", PretendGenerator),
            (random, "Twin", PretendTwin),
            (torch.cuda, "_lazy_init", lambda: None),
            (torch.cuda, "is_available", lambda: cuda),
            (torch.cuda, "device_count", lambda: int(cuda)),
            (torch.cuda, "is_bf16_supported", lambda including_emulation=True: self.bf16),
            (torch.cuda, "get_device_capability", lambda device=None: (8, 0) if self.bf16 else (7, 5)),
            (torch.cuda, "empty_cache", lambda: None),
            (torch.cuda, "synchronize", lambda device=None: None),
            (torch.cuda, "mem_get_info", lambda device=None: (self.free, 2 * self.free)),
            (torch.backends.mps, "is_available", lambda: not cuda),
            (torch.mps, "empty_cache", lambda: None),
            (Thread, "run", self._in_thread),
            (torch.mps, "synchronize", lambda: None),
            (torch.mps, "recommended_max_memory", lambda: self.free),
            (torch.mps, "driver_allocated_memory", lambda: 0),
        ):
            stack.enter_context(mock.patch.object(target, name, value))
        stack.enter_context(_Calls(self.kind))
        before = torch.__future__.get_swap_module_params_on_conversion()
        stack.callback(torch.__future__.set_swap_module_params_on_conversion, before)
        torch.__future__.set_swap_module_params_on_conversion(True)  # ours cannot become `param.data`
        self._stacks = [*getattr(self, "_stacks", []), stack]
        _gpus.append(self)
        return super().__enter__()

    @property
    def _in_thread(self):
        real = Thread.run

        def run(thread):  # modes belong to a thread
            with _Calls(self.kind), _Same(self):
                real(thread)

        return run

    def __exit__(self, *error):
        super().__exit__(*error)
        _gpus.pop()
        self._stacks.pop().close()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = func.__name__.split(".")[0]
        tensors = [value for value in tree_flatten((args, kwargs))[0] if isinstance(value, torch.Tensor)]
        ours = [tensor for tensor in tensors if isinstance(tensor, Elsewhere)]
        asked = kwargs.get("device")
        if asked is not None:  # C++ takes ours for meta tensors
            asked = torch.device("cpu") if torch.device(asked).type == "cpu" else self.here
        there = asked == self.here if asked is not None else bool(ours)
        if name == "_to_copy" and ours and asked == self.here and _stays(args[0], kwargs):
            return args[0]
        self._check(func, name, args, kwargs, tensors, ours, there)
        plain, named = tree_map(lambda v: v.inner if isinstance(v, Elsewhere) else v, (args, kwargs))
        if asked is not None:
            named["device"] = torch.device("cpu")
        if name == "_to_copy":
            named.pop("non_blocking", None)
        result = func(*plain, **named)
        if name == "_to_copy" and asked is not None and result is plain[0]:
            result = result.clone()
        if there or ours:
            self._count(func, name, args, kwargs, tensors, there, result)
        if not there or name == "_local_scalar_dense":
            return result
        self._hold(result)
        known = {id(tensor.inner): tensor for tensor in ours}
        return tree_map(lambda value: self._put(value, known), result)

    def _put(self, value, known):
        if not isinstance(value, torch.Tensor) or isinstance(value, Elsewhere):
            return value
        return known[id(value)] if id(value) in known else Elsewhere(value, self.here)

    def _hold(self, result):
        """Refuse a result that is too large for the device."""
        sizes = [v.numel() * v.element_size() for v in tree_flatten(result)[0] if isinstance(v, torch.Tensor)]
        if self.most is not None and max(sizes, default=0) > self.most:
            if self.kind == "cuda":
                raise torch.OutOfMemoryError(f"CUDA out of memory. Tried to allocate {max(sizes)} bytes.")
            raise RuntimeError(
                f"MPS backend out of memory (MPS allocated: 0). Tried to allocate {max(sizes)}"
            )

    # ---- rules ----

    def _refuse(self, text):
        text = f"{text} [{_place()}]"
        if not self.loose:
            raise DeviceError(text)
        self.faults[text] += 1

    def _check(self, func, name, args, kwargs, tensors, ours, there):
        strangers = [t for t in tensors if not isinstance(t, Elsewhere) and t.dim() > 0]
        if ours and name not in COPYING:
            if name in INDEXING:  # the indices may be on the host
                indices = {id(value) for value in tree_flatten(args[1])[0]}
                strangers = [t for t in strangers if id(t) not in indices]
                if not isinstance(args[0], Elsewhere):
                    self._refuse(f"{func}: a tensor of the host with indices on {self.here}")
            if strangers:
                self._refuse(f"{func}: all tensors must be on {self.here}, one is on the host")
            if func._schema.is_mutable and args and not isinstance(args[0], Elsewhere | list | tuple):
                self._refuse(f"{func}: changes a tensor of the host by ones on {self.here}")
        for value in tree_flatten((args, kwargs))[0]:
            if isinstance(value, _Generator):
                claimed = _claimed.get(value._cdata, torch.device("cpu"))
                if claimed != (self.here if there else torch.device("cpu")):
                    self._refuse(f"{func}: a generator of {claimed}")
        if self.kind == "mps" and there:
            if kwargs.get("dtype") is torch.float64 or any(t.dtype is torch.float64 for t in ours):
                self._refuse(f"{func}: no float64")
            listed = func.namespace == "aten" and name not in NO_LAUNCH
            if listed and not has_mps_kernel(func.name().removeprefix("aten::")):
                self._refuse(f"{func}: no kernel for Apple GPUs")

    # ---- counts ----

    def _count(self, func, name, args, kwargs, tensors, there, result):
        if name in COPYING:
            source = args[0] if name == "_to_copy" else args[1]
            target_there = there if name == "_to_copy" else isinstance(args[0], Elsewhere)
            if isinstance(source, Elsewhere) == target_there:
                self.launches += 1
            elif target_there and getattr(source, "pinned", False) and _asks_not_to_wait(name, args, kwargs):
                self.asynchronous += 1
            else:
                self.waits[f"{_place()} copy"] += 1
            return
        if name in WAITS:
            self.waits[f"{_place()} {name}"] += 1
        if name in INDEXING:
            for index in (value for value in tree_flatten(args[1])[0] if isinstance(value, torch.Tensor)):
                if not isinstance(index, Elsewhere):
                    self.waits[f"{_place()} indices of the host"] += 1
                if index.dtype in (torch.bool, torch.uint8):
                    self.waits[f"{_place()} mask"] += 1
        if name in NO_LAUNCH or _is_view(func):
            return
        self.launches += 1
        if name in ("convolution", "mm", "bmm", "addmm"):
            dtype = tensors[0].dtype
            self.types[f"{name} {dtype}"] += 1
            library = torch.backends.cudnn if name == "convolution" else torch.backends.cuda.matmul
            if self.kind == "cuda" and dtype is torch.float32 and library.allow_tf32:
                self.rough[_place()] += 1


class _Same(TorchDispatchMode):
    """The same device in another thread."""

    def __init__(self, gpu):
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.gpu.__torch_dispatch__(func, types, args, kwargs)


def _asks_not_to_wait(name, args, kwargs):
    return kwargs.get("non_blocking") or (name == "copy_" and len(args) > 2 and args[2])


def _stays(tensor, kwargs):
    kept = kwargs.get("dtype") in (None, tensor.dtype)
    return kept and kwargs.get("memory_format") in (None, torch.preserve_format)


def _place():
    """The line of the package that is running."""
    frame = sys._getframe(1)
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(PACKAGE):
            return f"{path.relative_to(PACKAGE)}:{frame.f_lineno}"
        frame = frame.f_back
    return "outside"
