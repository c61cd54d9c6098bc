"""Values as people write them: 90s, 1h30m, 2GB, samples,panel."""

from __future__ import annotations

import re

from ..errors import UsageError

_BYTES = {
    "": 1,
    **{letter: 1000**power for power, letter in enumerate("KMGT", 1)},
    **{f"{letter}I": 1024**power for power, letter in enumerate("KMGT", 1)},
}


def read_duration(text: str, flag: str = "the time") -> float:
    """Read seconds from 90, 90s, 2m or 1h30m.

    >>> read_duration("1h30m"), read_duration("90"), read_duration("2.5m")
    (5400.0, 90.0, 150.0)
    """
    match = re.fullmatch(r"\s*(?:([\d.]+)h)?\s*(?:([\d.]+)m)?\s*(?:([\d.]+)s?)?\s*", text)
    try:
        parts = [float(part or 0) for part in match.groups()] if match and any(match.groups()) else None
    except ValueError:
        parts = None
    if parts is None:
        raise UsageError(f"{flag} cannot be {text!r}: it is not a time", hint="for example 90s, 2m or 1h30m")
    return parts[0] * 3600 + parts[1] * 60 + parts[2]


def read_size(text: str, flag: str = "the size") -> int:
    """Read a number from 2GB, 512 MiB, 1.5G or 300000000. A bare letter is a power of ten, Ki and so on of two."""
    found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?) *([KMGT]?I?)B?", text.strip().upper())
    if found is None or found[2] not in _BYTES:
        raise UsageError(f"{flag} cannot be {text!r}", hint=f"{flag} 2GB, 512MiB or a number")
    return int(float(found[1]) * _BYTES[found[2]])


def written_size(count: float | None) -> str:
    """Write a number of bytes in MiB."""
    return f"{(count or 0) / 2**20:g}MiB"


def read_results(text: str, flag: str = "--save") -> tuple[str, ...]:
    """Read the results to write from a list with commas; mean and std are always among them."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return tuple(dict.fromkeys(["mean", "std", *names]))
