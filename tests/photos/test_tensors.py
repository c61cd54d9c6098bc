"""Safetensors files: whole or not at all, without copies, and a disk that is full is said in a sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from diffbcp_cli.errors import OutputError
from diffbcp_cli.photos import tensors
from diffbcp_cli.photos.tensors import write_tensors

# a limit of the system for the size of a file stands for a full disk
LIMITED = """
import resource, signal, sys, torch
from pathlib import Path
from diffbcp_cli.errors import OutputError
from diffbcp_cli.photos.tensors import write_tensors
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    write_tensors(Path(sys.argv[1]), {"a": torch.zeros(100_000)}, {})
except OutputError as error:
    print(error.message)
"""


def test_views_come_back_as_they_were(tmp_path: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    given = {"whole": base, "turned": base.T, "part": base[1:3], "again": base, "none": torch.zeros(0)}
    write_tensors(tmp_path / "a", given, {"kind": "test"})
    found = load_file(tmp_path / "a")
    assert found.keys() == given.keys()
    assert all(torch.equal(found[name], given[name]) for name in given)


def test_tensors_of_their_own_are_not_copied() -> None:
    given = {"a": torch.zeros(3, 4), "b": torch.ones(5)}
    apart = tensors._apart(given)
    assert all(apart[name].data_ptr() == given[name].data_ptr() for name in given)


def test_a_disk_that_is_full_leaves_the_old_file_and_no_scraps(tmp_path: Path) -> None:
    path = tmp_path / "state.safetensors"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"cannot write {path}: file too large"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_gone_is_said(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="no such file"):
        write_tensors(tmp_path / "gone" / "a", {"a": torch.zeros(3)}, {})
