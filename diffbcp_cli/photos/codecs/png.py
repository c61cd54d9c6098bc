"""The chunks of a PNG file, and those that describe the picture."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

from . import photoshop
from .described import Chunk, Metadata

SIGNATURE = b"\x89PNG\r\n\x1a\n"
METRE = 0.0254  # of an inch
_XMP, _IPTC = b"XML:com.adobe.xmp", b"Raw profile type iptc"
_PROFILE = b"Raw profile type "
_MOST_UNPACKED = 2**26  # bytes
_FIRST = len(SIGNATURE) + 25  # where the second chunk begins


def chunk(kind: bytes, body: bytes) -> bytes:
    """A chunk as it stands in the file."""
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def chunks(data: bytes) -> Iterator[Chunk]:
    """Every chunk of a file."""
    at = len(SIGNATURE)
    while at + 8 <= len(data):
        (length,) = struct.unpack_from(">I", data, at)
        yield data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        at += 12 + length


def keyword(one: Chunk) -> str:
    """The name of a text."""
    return one[1].split(b"\0", 1)[0].decode("latin-1")


def text(name: str, words: bytes) -> Chunk:
    """A text in Latin-1, or in UTF-8 if it is that."""
    head = name.encode("latin-1") + b"\0"
    try:
        plain = words.decode("utf-8")
    except UnicodeDecodeError:
        return b"tEXt", head + words.replace(b"\0", b"")
    return (b"tEXt", head + words) if plain.isascii() else (b"iTXt", head + b"\0\0\0\0" + words)


def plain(one: Chunk) -> bytes:
    """The words of a text: UTF-8, or Latin-1 in a tEXt or zTXt chunk."""
    kind, body = one
    _, _, rest = body.partition(b"\0")
    if kind == b"tEXt":
        return rest
    if kind == b"zTXt":
        return _unpacked(rest[1:])
    packed, rest = rest[:1] == b"\1", rest[2:].split(b"\0", 2)[2]
    return _unpacked(rest) if packed else rest


def read(data: bytes) -> Metadata:
    """What the chunks of a file say."""
    dpi = xmp = iptc = time = None
    texts = []
    for kind, body in chunks(data):
        if kind == b"pHYs" and len(body) == 9 and body[8] == 1:
            across, down = struct.unpack(">II", body[:8])
            dpi = across * METRE, down * METRE
        elif kind == b"tIME" and len(body) == 7:
            time = body
        elif kind in (b"tEXt", b"zTXt", b"iTXt"):
            name = body.split(b"\0", 1)[0]
            if name == _XMP:
                xmp = plain((kind, body))
            elif name == _IPTC:
                iptc = photoshop.iptc_of(_raw_profile(plain((kind, body))))
            elif not name.startswith(_PROFILE):  # that of EXIF is read with EXIF
                texts.append((kind, body))
    return Metadata(dpi, xmp, iptc, tuple(texts), time)


def embed(data: bytes, held: Metadata) -> bytes:
    """The same file with these chunks after its header."""
    made = []
    if held.dpi:
        made.append((b"pHYs", struct.pack(">IIB", *(round(value / METRE) for value in held.dpi), 1)))
    if held.time:
        made.append((b"tIME", held.time))
    if held.xmp:
        made.append((b"iTXt", _XMP + b"\0\0\0\0\0" + held.xmp))
    if held.iptc:
        record = photoshop.resource(held.iptc)
        digits = f"\niptc\n{len(record):8}\n{record.hex()}\n".encode()
        made.append((b"zTXt", _IPTC + b"\0\0" + zlib.compress(digits)))
    added = b"".join(chunk(*one) for one in (*made, *held.texts))
    return data[:_FIRST] + added + data[_FIRST:]


def _raw_profile(words: bytes) -> bytes:
    """The bytes of a profile that ImageMagick writes as text: a name, a length, and hexadecimal digits."""
    return bytes.fromhex("".join(words.decode("ascii").split()[2:]))


def _unpacked(packed: bytes) -> bytes:
    unpack = zlib.decompressobj()
    found = unpack.decompress(packed, _MOST_UNPACKED)
    if not unpack.eof:
        raise ValueError("a text that is cut short, or too long")
    return found
