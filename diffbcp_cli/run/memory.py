"""What a run takes in memory, and the windows that a photograph is cut into when it takes too much."""

from __future__ import annotations

import math

from ..methods.cp_step import IN_CHUNKS
from ..methods.low_rank import BATCHES_IN_BUDGET
from ..options import Options, uses

_PROCESS = 300 * 2**20  # bytes of a process that has imported everything and holds no picture
_SMALLEST_SIDE = 512  # of a window: smaller ones would learn poor atoms
_IMAGES = 18  # float32 copies of the picture that a run holds at its peak: moments, X, Z, the network's input
_NETWORK = 900 * 2**20  # bytes that the bundled network takes for one of its tiles
_MATRICES = 6  # of U x V floats that an observation in chunks holds
_WHOLE_MATRICES = 14  # of U x V floats that a sweep over everything at once holds


def working_set(options: Options, height: int, width: int, channels: int) -> int:
    """Estimate the bytes of a process that restores one whole photograph."""
    pixels = height * width * channels
    if not uses(options, "tensorize"):
        entries, matrices, rows = 0, 0, 0
    elif options.tensorize == "reshape":
        entries, matrices, rows = pixels, _WHOLE_MATRICES, 0
    else:
        patches = math.ceil(height / options.stride) * math.ceil(width / options.stride)
        entries, rows = patches * channels * options.patch_size**2, patches
        matrices = _MATRICES if patches > IN_CHUNKS else _WHOLE_MATRICES
    network = 0 if options.prior == "none" else int(_NETWORK * min(1, height * width / 1024**2))
    state = 5 * rows * options.rank  # the right factor, and copies of it while it is drawn
    batch = options.memory_budget // BATCHES_IN_BUDGET
    return _PROCESS + 4 * (_IMAGES * pixels + matrices * entries + state) + network + batch


def window_side(options: Options, height: int, width: int, channels: int) -> int | None:
    """The side of the windows that a photograph must be restored in to fit the budget, None if it fits whole."""
    longer = max(height, width)
    if options.window:
        return options.window if longer > options.window else None
    if longer <= _SMALLEST_SIDE or working_set(options, height, width, channels) <= options.memory_budget:
        return None
    side = _SMALLEST_SIDE
    while (
        side < longer and windows_need(options, side + 256, height, width, channels) <= options.memory_budget
    ):
        side += 256
    return side


def windows_need(options: Options, side: int, height: int, width: int, channels: int) -> int:
    """Estimate the bytes of a process that restores a photograph in windows: at work on one, or as it saves."""
    work = working_set(options, min(side, height), min(side, width), channels)
    saving = _PROCESS + (5 + 8 * ("interval" in options.save)) * height * width * channels
    return max(work, saving) + kept_of_windows(options, height, width, channels)


def kept_of_windows(options: Options, height: int, width: int, channels: int) -> int:
    """Bytes of what a run in windows holds all the time: picture, mask, the sums of the blend, and the shares."""
    return ((13 + 4 * ("prior" in options.save)) * channels + 5) * height * width


def need(options: Options, side: int | None, height: int, width: int, channels: int) -> int:
    """Estimate the bytes of a process that restores a photograph, in windows of a side or whole."""
    if side is None:
        return working_set(options, height, width, channels)
    return windows_need(options, side, height, width, channels)


def over_budget(options: Options, side: int | None, height: int, width: int, channels: int) -> str | None:
    """What to say when a photograph takes more than the budget."""
    least, budget = need(options, side, height, width, channels), options.memory_budget
    if least <= budget:
        return None
    smallest = "" if options.window else "the smallest possible, "
    how = "whole" if side is None else f"in windows of {side} pixels"
    return (
        f"about {least / 2**30:.2f} GiB of memory are needed ({smallest}{how}), "
        f"more than the budget of {budget / 2**30:.2f} GiB"
    )
