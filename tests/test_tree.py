"""States to checkpoints and back."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from diffbcp_cli import tree
from diffbcp_cli.errors import InputError


@dataclass(frozen=True)
class Leaf:
    weights: torch.Tensor
    count: int


@dataclass(frozen=True)
class Branch:
    leaves: tuple[Leaf, ...]
    trace: dict[str, list[float | None]]
    image: torch.Tensor | None
    map: np.ndarray
    name: str = "x"


def branch():
    leaves = tuple(Leaf(torch.arange(n, dtype=torch.float64), n) for n in (2, 3))
    return Branch(leaves, {"rho": [None, 0.25, 1e-300]}, None, np.eye(3, dtype=np.float32))


def test_a_value_comes_back_as_it_was():
    tensors, plain = tree.pack(branch())
    found = tree.unpack(json.loads(json.dumps(plain)), tensors, classes=(Leaf, Branch))
    assert isinstance(found, Branch)
    assert found.trace == branch().trace
    assert (found.image, found.name) == (None, "x")
    np.testing.assert_array_equal(found.map, branch().map)
    for one, other in zip(found.leaves, branch().leaves, strict=True):
        assert one.count == other.count
        assert one.weights.dtype == torch.float64
        assert torch.equal(one.weights, other.weights)


def test_only_named_classes_are_built():
    tensors, plain = tree.pack(branch())
    with pytest.raises(InputError, match="damaged"):
        tree.unpack(plain, tensors, classes=(Branch,))


def test_a_missing_tensor_or_field_is_a_damaged_checkpoint():
    tensors, plain = tree.pack(branch())
    with pytest.raises(InputError, match="damaged"):
        tree.unpack(plain, {}, classes=(Leaf, Branch))
    del plain["dict"]["map"]
    with pytest.raises(InputError, match="damaged"):
        tree.unpack(plain, tensors, classes=(Leaf, Branch))


@pytest.mark.parametrize(
    "plain", [{}, {"tensor": 3}, {"class": "Leaf"}, {"class": [], "dict": {}}, {"tuple": 5}]
)
def test_nonsense_is_a_damaged_checkpoint(plain):
    with pytest.raises(InputError, match="damaged"):
        tree.unpack(plain, {}, classes=(Leaf,))


def test_what_cannot_be_saved_is_said_by_name():
    with pytest.raises(TypeError, match=r"state\.a: a set"):
        tree.pack({"a": {1}})
