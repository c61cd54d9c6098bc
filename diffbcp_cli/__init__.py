"""Restore photographs and say how sure every pixel is.

>>> from diffbcp_cli import inpaint, denoise, load_prior

The names are loaded on first use, so that ``diffbcp --version`` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .devices import spin_briefly

if TYPE_CHECKING:
    from .errors import DiffbcpError
    from .jobs.arrays import (
        Progress,
        Restoration,
        denoise,
        denoise_many,
        inpaint,
        inpaint_many,
        load_prior,
    )
    from .jobs.comparison.arrays import Comparison, compare

__version__ = "0.1.0"
__all__ = [
    "Comparison",
    "DiffbcpError",
    "Progress",
    "Restoration",
    "__version__",
    "compare",
    "denoise",
    "denoise_many",
    "inpaint",
    "inpaint_many",
    "load_prior",
]

_HOME = {
    "inpaint": "jobs.arrays",
    "inpaint_many": "jobs.arrays",
    "denoise_many": "jobs.arrays",
    "Progress": "jobs.arrays",
    "denoise": "jobs.arrays",
    "load_prior": "jobs.arrays",
    "Restoration": "jobs.arrays",
    "Comparison": "jobs.comparison.arrays",
    "compare": "jobs.comparison.arrays",
    "DiffbcpError": "errors",
}

spin_briefly()


def __getattr__(name: str) -> Any:
    """Import the module behind a public name when the name is first used."""
    if name not in _HOME:
        raise AttributeError(f"module 'diffbcp_cli' has no attribute {name!r}")
    return getattr(import_module(f".{_HOME[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted(__all__)
