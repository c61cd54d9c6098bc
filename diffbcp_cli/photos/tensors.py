"""Safetensors files, written whole or not at all."""

from __future__ import annotations

import os
import re
import secrets
import shutil
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from .files import replacing


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors and texts; what stood at `path` stays if that fails."""
    with replacing(path) as temporary:
        # safetensors first writes a file with a random name; in this folder a later run finds and removes it
        room = temporary.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        room.mkdir()
        try:
            save_file(_apart(tensors), room / "tensors", metadata=metadata)
            (room / "tensors").rename(temporary)
        except SafetensorError as error:
            raise _of_the_disk(error) from error
        finally:
            shutil.rmtree(room, ignore_errors=True)


def _apart(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same values. Those that are not contiguous or share memory are copied: safetensors refuses them."""
    found, taken = {}, set()
    for name, value in tensors.items():
        place = value.untyped_storage().data_ptr()
        alone = value.is_contiguous() and place not in taken
        found[name] = value if alone else value.clone(memory_format=torch.contiguous_format)
        taken.add(place)
    return found


def _of_the_disk(error: SafetensorError) -> OSError:
    """The error of the system, from the message of safetensors: '... (os error 28)'."""
    number = re.search(r"os error (\d+)", str(error))
    if number is None:
        return OSError(0, str(error))
    return OSError(int(number[1]), os.strerror(int(number[1])))
