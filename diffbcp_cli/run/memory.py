"""What a run takes in memory, and the windows that a photograph is cut into when it takes too much."""

from __future__ import annotations

import math

from ..methods.diffbcp import IN_CHUNKS
from ..options import Options, takes

_SMALLEST_SIDE = 512  # of a window: smaller ones would learn poor atoms
_IMAGES = 18  # float32 copies of the picture that a run holds at its peak: moments, X, Z, the network's input
_NETWORK = 700 * 2**20  # bytes that the bundled network takes for one of its tiles
_MATRICES = 6  # of U x V floats that an observation in chunks holds
_WHOLE_MATRICES = 14  # of U x V floats that a sweep over everything at once holds


def working_set(options: Options, height: int, width: int, channels: int) -> int:
    """Estimate the bytes that a run of one whole photograph takes."""
    pixels = height * width * channels
    if not takes(options.method, "tensorize"):
        entries, matrices, rows = 0, 0, 0
    elif options.tensorize == "reshape":
        entries, matrices, rows = pixels, _WHOLE_MATRICES, 0
    else:
        patches = math.ceil(height / options.stride) * math.ceil(width / options.stride)
        entries, rows = patches * channels * options.patch_size**2, patches
        matrices = _MATRICES if patches > IN_CHUNKS else _WHOLE_MATRICES
    network = 0 if options.prior == "none" else int(_NETWORK * min(1, height * width / 1024**2))
    state = 5 * rows * options.rank  # the right factor, and copies of it while it is drawn
    return 4 * (_IMAGES * pixels + matrices * entries + state) + network + options.memory_budget // 8


def window_side(options: Options, height: int, width: int, channels: int) -> int | None:
    """The side of the windows that a photograph must be restored in to fit the budget, None if it fits whole."""
    if options.window:
        return options.window if max(height, width) > options.window else None
    if working_set(options, height, width, channels) <= options.memory_budget:
        return None
    side = _SMALLEST_SIDE
    while windows_need(options, side + 256, height, width, channels) <= options.memory_budget:
        side += 256
    return side


def windows_need(options: Options, side: int, height: int, width: int, channels: int) -> int:
    """Estimate the bytes that a run in windows takes: one window, the picture, its mask, the sums of the blend."""
    kept = (13 + 4 * ("prior" in options.save)) * height * width * channels
    return working_set(options, min(side, height), min(side, width), channels) + kept
