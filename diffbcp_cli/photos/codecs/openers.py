"""Formats that Pillow opens only with another package, or only if it is new enough."""

from __future__ import annotations

from PIL import features

from ...errors import InputError
from .signatures import suffix_of

_USUAL = ("PNG", "JPEG", "WEBP", "TIFF", "BMP", "GIF")


def formats_of(data: bytes, name: str) -> tuple[str, ...]:
    """What Pillow may take the file for. HEIC and AVIF are an error where Pillow cannot open them."""
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
        return ("HEIF",)
    if suffix != ".avif":
        return _USUAL
    if not features.check("avif"):
        raise InputError(
            f"{name} is an AVIF picture, which needs Pillow 11.3 or newer with AVIF",
            hint="pip install --upgrade pillow, or export it as PNG",
        )
    return ("AVIF",)
