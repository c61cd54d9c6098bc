"""Photoshop's image resources, in which JPEG and PNG files keep IPTC records."""

from __future__ import annotations

import struct

_MARK, _IPTC = b"8BIM", 0x0404


def resource(iptc: bytes) -> bytes:
    """IPTC records as a resource."""
    return _MARK + struct.pack(">HHI", _IPTC, 0, len(iptc)) + iptc + bytes(len(iptc) % 2)


def iptc_of(data: bytes) -> bytes | None:
    """The IPTC records among resources; what does not begin with a resource is taken for the records."""
    if not data.startswith(_MARK):
        return data or None
    at = 0
    while data[at : at + 4] == _MARK:
        (number,) = struct.unpack_from(">H", data, at + 4)
        name = data[at + 6] + 1
        at += 6 + name + name % 2
        (length,) = struct.unpack_from(">I", data, at)
        if number == _IPTC:
            return data[at + 4 : at + 4 + length]
        at += 4 + length + length % 2
    return None
