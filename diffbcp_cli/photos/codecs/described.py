"""What a file says beside its pixels, its profile and its EXIF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Chunk: TypeAlias = tuple[bytes, bytes]
"""The kind of a chunk of a PNG, and its content."""


@dataclass(frozen=True)
class Metadata:
    """dpi: pixels an inch, across and down. xmp: the packet. iptc: the records. texts, time: chunks of a PNG."""

    dpi: tuple[float, float] | None = None
    xmp: bytes | None = None
    iptc: bytes | None = None
    texts: tuple[Chunk, ...] = ()
    time: bytes | None = None


NOTHING = Metadata()
