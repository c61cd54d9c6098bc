"""Frozen dataclasses of tensors to checkpoints and back: the state of any method can be saved.

`pack` takes a value apart into named tensors and plain JSON values; `unpack` puts it together again. A value is a
tensor, an array, a number, a string, None, a list, tuple or dictionary of values, or a dataclass whose fields are
values. Only dataclasses that the caller names are built, so a checkpoint cannot name code to run. What was on the
processor stays there; the rest goes to the device that the caller names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .errors import InputError

Tensors = dict[str, Tensor]
_CLASS, _TENSOR, _ARRAY, _HOST, _DICT, _TUPLE = "class", "tensor", "array", "host", "dict", "tuple"


def pack(value: Any) -> tuple[Tensors, Any]:
    """Take a value apart: tensors by name, on the CPU, and plain values that refer to them."""
    tensors: Tensors = {}
    return tensors, _pack(value, "state", tensors)


def _pack(value: Any, name: str, tensors: Tensors) -> Any:
    if isinstance(value, Tensor):
        tensors[name] = value.detach().cpu().contiguous()
        return {_TENSOR: name, _HOST: value.device.type == "cpu"}
    if isinstance(value, np.ndarray):
        tensors[name] = torch.from_numpy(np.ascontiguousarray(value))
        return {_ARRAY: name}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _pack(getattr(value, f.name), f"{name}.{f.name}", tensors) for f in fields(value)}
        return {_CLASS: type(value).__name__, _DICT: parts}
    if isinstance(value, Mapping):
        return {_DICT: {key: _pack(part, f"{name}.{key}", tensors) for key, part in value.items()}}
    if isinstance(value, tuple):
        return {_TUPLE: _pack(list(value), name, tensors)}
    if isinstance(value, list):
        return [_pack(part, f"{name}.{index}", tensors) for index, part in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name}: a {type(value).__name__} cannot be saved")


def unpack(
    plain: Any, tensors: Mapping[str, Tensor], *, classes: Iterable[type], device: torch.device | None = None
) -> Any:
    """Put together what `pack` took apart; classes: the dataclasses that may occur."""
    known = {one.__name__: one for one in classes}
    try:
        return _unpack(plain, tensors, known, device)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise damaged() from error


def _unpack(plain: Any, tensors: Mapping[str, Tensor], known: dict[str, type], device: Any) -> Any:
    if isinstance(plain, list):
        return [_unpack(part, tensors, known, device) for part in plain]
    if not isinstance(plain, dict):
        return plain
    if _TENSOR in plain:
        found = tensors[plain[_TENSOR]]
        return found if device is None or plain[_HOST] else found.to(device)
    if _ARRAY in plain:
        return tensors[plain[_ARRAY]].numpy()
    if _TUPLE in plain:
        return tuple(_unpack(plain[_TUPLE], tensors, known, device))
    parts = {key: _unpack(part, tensors, known, device) for key, part in plain[_DICT].items()}
    return known[plain[_CLASS]](**parts) if _CLASS in plain else parts


def damaged() -> InputError:
    """The error of a checkpoint that lacks something."""
    return InputError("the checkpoint is damaged: parts are missing", hint="run without --resume")
