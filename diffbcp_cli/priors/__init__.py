"""Priors: denoisers of photographs, found by name, downloaded, checked and loaded."""

from __future__ import annotations

from .base import Prior, Traits, as_prior, can_fill
from .fetch import Download, Files, Identity, fetch, identify, sha256_of
from .load import SCALES, LoadedPrior, build, load_prior
from .registry import Source, find, models_folder, registry

__all__ = [
    "SCALES",
    "Download",
    "Files",
    "Identity",
    "LoadedPrior",
    "Prior",
    "Source",
    "Traits",
    "as_prior",
    "build",
    "can_fill",
    "fetch",
    "find",
    "identify",
    "load_prior",
    "models_folder",
    "registry",
    "sha256_of",
]
