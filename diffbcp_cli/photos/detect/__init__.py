"""Find the damage of a scan: dust, scratches, folds, stamps.

Candidates of each kind come with numbers that describe them (`specks`, `lines`, `stamps`), and `judge` gives each
its odds of being damage. A detector of another package takes their place by an entry point `diffbcp.detectors`.
"""

from __future__ import annotations

from .find import CLASSICAL, KINDS, Detector, Found, Settings, detect, detectors

__all__ = ["CLASSICAL", "KINDS", "Detector", "Found", "Settings", "detect", "detectors"]
