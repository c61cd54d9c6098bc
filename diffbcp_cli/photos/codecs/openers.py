"""Formats that Pillow opens only with another package, or only if it is new enough."""

from __future__ import annotations

from PIL import features

from ...errors import InputError
from .signatures import suffix_of


def find_opener(data: bytes, name: str) -> None:
    """Let Pillow open HEIC, or say which package it needs for it and for AVIF."""
    suffix = suffix_of(data)
    if suffix == ".heic":
        try:
            import pillow_heif
        except ImportError:
            raise InputError(
                f"{name} is a HEIC picture, which needs the package pillow-heif",
                hint="pip install 'diffbcp[heif]', or export it as PNG",
            ) from None
        pillow_heif.register_heif_opener()
    if suffix == ".avif" and not features.check("avif"):
        raise InputError(
            f"{name} is an AVIF picture, which needs Pillow 11.3 or newer with AVIF",
            hint="pip install --upgrade pillow, or export it as PNG",
        )
