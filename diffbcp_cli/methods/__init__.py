"""Methods: what draws pictures given a problem. Each has one file, and one line in the table `options.METHODS`.

Other packages bring theirs by entry points: `options/plugins.py`.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from ..options import METHODS
from ..options.plugins import imported
from .base import Build, Info, Method

__all__ = ["REGISTRY", "Build", "Info", "Method", "builder", "state_classes"]

REGISTRY = {name: entry.module or name.replace("-", "_") for name, entry in METHODS.items()}
"""The module of each method, by the name that `--method` takes; `build` makes the method, and STATE_CLASSES are
the dataclasses of its states. The table of options says the rest, without torch."""


def builder(name: str) -> Build:
    """The function that builds a method."""
    found: Build = _module(name).build
    return found


def state_classes(name: str) -> tuple[type, ...]:
    """The dataclasses that the states of a method are made of; a checkpoint may hold no others."""
    found: tuple[type, ...] = _module(name).STATE_CLASSES
    return found


def _module(name: str) -> ModuleType:
    module = METHODS[name].module or name.replace("-", "_")
    return imported(module) if "." in module else import_module(f".{module}", __name__)
