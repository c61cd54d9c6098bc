"""Checkpoints: tensors and plain values in one safetensors file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import InputError
from .files import require_regular
from .tensors import write_tensors

FORMAT = 2
_KEY, _SUM = "diffbcp-run", "sha256"


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    """SHA-256 over the values, their names, shapes and types, and the plain values."""
    found = hashlib.sha256(text.encode())
    for name, value in sorted(tensors.items()):
        found.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        found.update(value.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def write(path: Path, tensors: dict[str, Tensor], plain: dict[str, Any]) -> Path:
    """Write a checkpoint and return its path."""
    text = json.dumps({"format": FORMAT, **plain})
    write_tensors(path, tensors, {_KEY: text, _SUM: _digest(tensors, text)})
    return path


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read a checkpoint. One that is damaged, of another program or of another format is refused."""
    hint = "run without --resume to start again"
    try:
        require_regular(path)
        with safe_open(path, framework="pt") as file:
            found = (file.metadata() or {}).get(_KEY)
            if found is None:
                raise InputError(f"{path} is not a checkpoint of a run", hint=hint)
            plain = json.loads(found)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            changed = (file.metadata() or {}).get(_SUM) != _digest(tensors, found)
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"the checkpoint {path} cannot be read: {reason}", hint=hint) from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise InputError(
            f"the checkpoint {path} was made by another version of diffbcp, whose runs cannot be resumed here",
            hint=hint,
        )
    if changed:
        raise InputError(f"the checkpoint {path} is damaged: its checksum is another", hint=hint)
    if any(value.is_floating_point() and not torch.isfinite(value).all() for value in tensors.values()):
        raise InputError(f"the checkpoint {path} is damaged: it holds values that are not numbers", hint=hint)
    return tensors, plain
