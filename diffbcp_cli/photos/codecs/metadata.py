"""What a file says beside its pixels, its profile and its EXIF: resolution, XMP, IPTC, texts and a time."""

from __future__ import annotations

import io
import re
import struct
import zlib
from dataclasses import replace

import tifffile
from PIL import Image, TiffImagePlugin

from . import jpeg, png, tiff
from .described import Metadata

RESOLUTION = (282, 283, 296)  # tags of TIFF and EXIF: resolution across and down, and its unit
_XMP, _IPTC = 700, 33723  # tags of TIFF
_INCH = {2: 1.0, 3: 2.54}  # units of a resolution, in inches
_MOST_DPI = 65535
_TURNED = re.compile(rb"(tiff:Orientation(?:=[\"']|>))[2-8]")
_DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    OSError,
    SyntaxError,
    struct.error,
    zlib.error,
)


def read(data: bytes, exif: bytes | None, turn: int) -> tuple[Metadata, tuple[str, ...]]:
    """What the file `data` says, for the upright picture, and notes. turn: the orientation that was stored."""
    try:
        found = _read(data)
        found = replace(found, dpi=_sane(found.dpi or _dpi_of_exif(exif)))
    except _DAMAGE:
        return Metadata(), ("left out its resolution, XMP, IPTC and texts, which are damaged",)
    if turn != 1 and found.xmp:
        found = replace(found, xmp=_TURNED.sub(rb"\g<1>1", found.xmp))
    if turn in (5, 6, 7, 8) and found.dpi:
        found = replace(found, dpi=found.dpi[::-1])
    notes = ("left out its extended XMP",) if data.startswith(jpeg.START) and jpeg.EXTENDED in data else ()
    return found, notes


def _read(data: bytes) -> Metadata:
    if data.startswith(png.SIGNATURE):
        return png.read(data)
    if data.startswith(jpeg.START):
        return jpeg.read(data)
    if tiff.is_tiff(data):
        return _read_tiff(data)
    with Image.open(io.BytesIO(data)) as image:  # only the header
        comment = image.info.get("comment")
        texts = (png.text(jpeg.COMMENT, comment),) if isinstance(comment, bytes) else ()
        dpi = image.info.get("dpi")
        return Metadata(dpi if isinstance(dpi, tuple) else None, image.info.get("xmp") or None, None, texts)


def _read_tiff(data: bytes) -> Metadata:
    with tifffile.TiffFile(io.BytesIO(data)) as tif:
        tags = tiff.pictures(tif)[0].tags
        across, down, unit = (tags.valueof(tag) for tag in RESOLUTION)
        xmp, iptc = tags.valueof(_XMP), tags.valueof(_IPTC)
    inch = _INCH.get(int(unit or 2))
    dpi = None if inch is None or not (across and down) else (_number(across) * inch, _number(down) * inch)
    return Metadata(
        dpi,
        xmp if isinstance(xmp, bytes) else None,
        iptc if isinstance(iptc, bytes) else None,
    )


def _number(value: tuple[int, int] | float) -> float:
    return value[0] / value[1] if isinstance(value, tuple) else float(value)


def _dpi_of_exif(exif: bytes | None) -> tuple[float, float] | None:
    if not exif:
        return None
    found = Image.Exif()
    found.load(exif)
    inch = _INCH.get(int(found.get(RESOLUTION[2], 2)))
    if inch is None or not (found.get(RESOLUTION[0]) and found.get(RESOLUTION[1])):
        return None
    return float(found[RESOLUTION[0]]) * inch, float(found[RESOLUTION[1]]) * inch


def _sane(dpi: tuple[float, float] | None) -> tuple[float, float] | None:
    return dpi if dpi is not None and all(0.5 <= value <= _MOST_DPI for value in dpi) else None


def losses(suffix: str, held: Metadata) -> list[str]:
    """Say what a file with this suffix cannot hold, each in a few words."""
    jpg = suffix in (".jpg", ".jpeg")
    found = []
    if held.dpi and suffix == ".npy":
        found.append("resolution (DPI)")
    if held.xmp and (suffix in (".bmp", ".npy") or (jpg and len(held.xmp) > jpeg.MOST_XMP)):
        found.append("XMP of this length" if jpg else "XMP")
    if held.iptc and (suffix in (".bmp", ".npy", ".webp") or (jpg and len(held.iptc) > jpeg.MOST_IPTC)):
        found.append("IPTC of this length" if jpg else "IPTC")
    names = [png.keyword(one) for one in held.texts]
    lost = [] if suffix == ".png" else [name for name in names if not (jpg and name == jpeg.COMMENT)]
    if lost:
        found.append(f"texts ({', '.join(dict.fromkeys(lost))})")
    if held.time and suffix != ".png":
        found.append("time of change")
    return [f"{suffix} holds no {what}" for what in found]


def embed(data: bytes, suffix: str, held: Metadata) -> bytes:
    """Put into an encoded PNG, JPEG or BMP what it can hold; TIFF and WebP have theirs from `tags` and `with_dpi`."""
    if suffix == ".png":
        return png.embed(data, held)
    if suffix in (".jpg", ".jpeg"):
        return jpeg.embed(data, held)
    if suffix == ".bmp" and held.dpi:
        metres = (round(value / png.METRE) for value in held.dpi)
        return data[:38] + struct.pack("<ii", *metres) + data[46:]
    return data


def tags(held: Metadata) -> dict[int, object]:
    """The tags of a TIFF that hold it."""
    found: dict[int, object] = {}
    if held.dpi:
        found = {RESOLUTION[0]: held.dpi[0], RESOLUTION[1]: held.dpi[1], RESOLUTION[2]: 2}
    if held.xmp:
        found[_XMP] = held.xmp
    if held.iptc:
        found[_IPTC] = held.iptc
    return found


def with_dpi(exif: bytes | None, held: Metadata) -> bytes:
    """EXIF that also holds the resolution, for a format that has no other place for it."""
    if held.dpi is None or _dpi_of_exif(exif) is not None:
        return exif or b""
    found = Image.Exif()
    if exif:
        found.load(exif)
    for tag, value in zip(RESOLUTION, held.dpi, strict=False):
        found[tag] = TiffImagePlugin.IFDRational(value)
    found[RESOLUTION[2]] = 2
    return found.tobytes()
