"""Which format a file has, by its first bytes."""

from __future__ import annotations

LONGEST = 16  # bytes that are looked at
_AVIF = (b"avif", b"avis")
_HEIF = (b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1")
_STARTS = {
    b"\x89PNG\r\n\x1a\n": ".png",
    b"\xff\xd8\xff": ".jpg",
    b"II*\0": ".tiff",
    b"MM\0*": ".tiff",
    b"II+\0": ".tiff",
    b"MM\0+": ".tiff",
    b"\x93NUMPY": ".npy",
    b"GIF87a": ".gif",
    b"GIF89a": ".gif",
}


def suffix_of(data: bytes) -> str | None:
    """The suffix of the format that the bytes begin like; None if it is none of those known here.

    >>> suffix_of(b"GIF89a..."), suffix_of(b"BMW.png")
    ('.gif', None)
    """
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return ".webp"
    if data[:2] == b"BM" and data[6:10] == bytes(4):  # a list of names may begin with BM
        return ".bmp"
    if data[4:8] == b"ftyp":
        return ".avif" if data[8:12] in _AVIF else ".heic" if data[8:12] in _HEIF else None
    return next((suffix for start, suffix in _STARTS.items() if data.startswith(start)), None)
