"""The segments of a JPEG file that describe the picture."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from . import photoshop, png
from .described import Metadata

START = b"\xff\xd8\xff"
EXTENDED = b"http://ns.adobe.com/xmp/extension/\0"
_XMP, _PHOTOSHOP, _JFIF = b"http://ns.adobe.com/xap/1.0/\0", b"Photoshop 3.0\0", b"JFIF\0"
COMMENT = "Comment"  # the one text of a JPEG file
_APP0, _APP1, _APP13, _COMMENT, _SCAN = 0xE0, 0xE1, 0xED, 0xFE, 0xDA
_ALONE = (0x01, *range(0xD0, 0xD9))  # markers without a segment
_MOST = 65533  # bytes of a segment
MOST_XMP, MOST_IPTC = _MOST - len(_XMP), _MOST - len(_PHOTOSHOP) - 13
_UNITS = {1: 1.0, 2: 2.54}  # of the density, in inches


def segments(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Each segment before the pixels: its marker, where it begins, and its content."""
    at = 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or marker in _ALONE:
            at += 1 if marker == 0xFF else 2
            continue
        if marker == _SCAN:
            return
        (length,) = struct.unpack_from(">H", data, at + 2)
        yield marker, at, data[at + 4 : at + 2 + length]
        at += 2 + length


def read(data: bytes) -> Metadata:
    """What the segments of a file say."""
    dpi = xmp = comment = None
    resources = b""
    for marker, _, body in segments(data):
        if marker == _APP0 and body.startswith(_JFIF) and len(body) >= 12 and body[7] in _UNITS:
            across, down = struct.unpack_from(">HH", body, 8)
            dpi = across * _UNITS[body[7]], down * _UNITS[body[7]]
        elif marker == _APP1 and body.startswith(_XMP):
            xmp = body[len(_XMP) :]
        elif marker == _APP13 and body.startswith(_PHOTOSHOP):
            resources += body[len(_PHOTOSHOP) :]
        elif marker == _COMMENT:
            comment = body
    texts = () if comment is None else (png.text(COMMENT, comment),)
    return Metadata(dpi, xmp, photoshop.iptc_of(resources), texts)


def embed(data: bytes, held: Metadata) -> bytes:
    """The same file with these segments after its first ones; what is too long is left out."""
    if held.dpi and data[2:4] == b"\xff\xe0" and data[6:11] == _JFIF:
        density = struct.pack(">BHH", 1, *(round(value) or 1 for value in held.dpi))
        data = data[:13] + density + data[18:]
    made = b""
    if held.xmp and len(held.xmp) <= MOST_XMP:
        made += _segment(_APP1, _XMP + held.xmp)
    if held.iptc and len(held.iptc) <= MOST_IPTC:
        made += _segment(_APP13, _PHOTOSHOP + photoshop.resource(held.iptc))
    for one in held.texts:
        if png.keyword(one) == COMMENT:
            made += _segment(_COMMENT, png.plain(one)[:_MOST])
    place = next((at for marker, at, _ in segments(data) if marker not in (_APP0, _APP1)), 2)
    return data[:place] + made + data[place:]


def _segment(marker: int, body: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body
