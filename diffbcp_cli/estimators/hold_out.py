"""Hold-out: known pixels that the sampler is not shown, chosen to look like the missing ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from ..errors import InputError
from ..operators.mask import Mask
from ..problem import Problem
from ..random import Seeds
from ..units import Bools

SHARE = 0.05  # of the known entries
MOST, FEWEST = 30_000, 100  # entries held out
TRIAL_SHARE = 0.04  # of the known entries are held out to choose how to refine
TRIAL_WINDOW = 10  # pixels a side: where holes are wide, pieces of this size are held out
_SCATTERED = 0.7
_TRIES = 20000


@dataclass(frozen=True)
class HeldOut:
    """Known entries (H, W, C) that the sampler is not shown; strokes: in pieces shaped like the holes."""

    entries: Bools
    strokes: bool


def can_hold_out(observed: Bools) -> bool:
    """Whether enough is known to hold some of it out."""
    return bool(observed.sum() >= 4 * FEWEST)


def hold_out(observed: Bools, *, rng: Generator) -> HeldOut:
    """Choose known entries to hold out, observed (H, W, C): single ones if the missing are, else strokes."""
    wanted = min(MOST, max(FEWEST, int(SHARE * observed.sum())))
    if not can_hold_out(observed):
        raise InputError("too few known pixels to hold some out", hint="run without --calibrate")
    strokes = not is_scattered(observed)
    return HeldOut(like_missing(observed, wanted, side=min(observed.shape[:2]) // 6, rng=rng), strokes)


def like_missing(observed: Bools, wanted: int, *, side: int, rng: Generator) -> Bools:
    """Choose about `wanted` known entries: single ones if the missing are, else strokes in windows of this side."""
    if is_scattered(observed):
        return scatter(observed, wanted, rng=rng)
    return _strokes(observed, wanted, max(4, side), rng)


def is_scattered(observed: Bools) -> bool:
    """Whether missing entries have about as many known neighbours as known ones have."""
    if observed.all() or not observed.any():
        return True
    padded = np.pad(observed.astype(np.float32), ((1, 1), (1, 1), (0, 0)), mode="edge")
    height, width = observed.shape[:2]
    around = sum(
        padded[1 + down : 1 + down + height, 1 + right : 1 + right + width]
        for down in (-1, 0, 1)
        for right in (-1, 0, 1)
        if down or right
    )
    counts = np.asarray(around)
    return bool(counts[~observed].mean() >= _SCATTERED * counts[observed].mean())


def scatter(observed: Bools, wanted: int, *, rng: Generator) -> Bools:
    """Choose known entries at random; whole pixels if the mask is the same in every channel."""
    whole = bool((observed == observed[..., :1]).all())
    choices = np.flatnonzero(observed[..., 0] if whole else observed)
    count = max(1, wanted // observed.shape[2]) if whole else wanted
    held = np.zeros(observed.shape[:2] if whole else observed.shape, bool)
    held.flat[rng.choice(choices, min(count, len(choices) // 2), replace=False)] = True
    return np.repeat(held[..., None], observed.shape[2], axis=2) if whole else held


def _strokes(observed: Bools, wanted: int, side: int, rng: Generator) -> Bools:
    """Pieces of the missing pattern itself, `side` pixels wide, mirrored and moved to known places."""
    height, width = observed.shape[:2]
    held = np.zeros_like(observed)
    missing = np.flatnonzero((~observed).any(2))
    known = np.flatnonzero(observed.any(2))
    count = 0
    for _ in range(_TRIES):
        if count >= wanted:
            break
        (row, column), (top, left) = (divmod(int(rng.choice(places)), width) for places in (missing, known))
        across, down = (rng.choice([-1, 1]) * np.arange(-(side // 2), side - side // 2) for _ in range(2))
        pattern = ~observed[(row + down)[:, None] % height, (column + across) % width]
        window = (
            slice(max(0, top - side // 2), top - side // 2 + side),
            slice(max(0, left - side // 2), left - side // 2 + side),
        )
        there = observed[window] & ~held[window]
        piece = there & pattern[-there.shape[0] :, -there.shape[1] :]
        held[window] |= piece
        count += int(piece.sum())
    return held


def trial(observed: Bools, *, rng: Generator) -> Bools:
    """Known entries (H, W, C) by which a refinement chooses its level."""
    side = min(TRIAL_WINDOW, min(observed.shape[:2]) // 4)
    return like_missing(observed, int(TRIAL_SHARE * observed.sum()), side=side, rng=rng)


@dataclass(frozen=True)
class Split:
    """Which known entries play which part, all (C, H, W) bool.

    shown: known and not held out to calibrate by. trial: of these, held out to choose the refinement by; None if
    nothing is chosen. held: held out to calibrate by, None if nothing is calibrated. puts_back: the method itself
    holds them out during burn-in and uses them afterwards.
    """

    known: Tensor
    shown: Tensor
    trial: Tensor | None = None
    held: HeldOut | None = None
    puts_back: bool = False

    @property
    def given(self) -> Tensor:
        """What the method may see."""
        return self.shown if self.trial is None else self.shown & ~self.trial

    def problem(self, problem: Problem) -> Problem:
        """The problem that the method may see."""
        if self.puts_back and self.held is not None:
            return replace(problem, later=_tensor(self.held.entries, self.known))
        if self.given is self.known:
            return problem
        operator = Mask(self.given)
        return replace(problem, y=operator.forward(problem.y), operator=operator)


def split(
    problem: Problem, seeds: Seeds, *, calibrates: bool, refines: bool, puts_back: bool = False
) -> Split:
    """Hold out what a run needs; no entry is held out for two purposes. puts_back: as in `Split`."""
    known = problem.known
    observed = np.ascontiguousarray(known.permute(1, 2, 0).cpu().numpy())
    held = hold_out(observed, rng=seeds.numpy("held-out")) if calibrates else None
    shown = observed if held is None else observed & ~held.entries
    tested = trial(shown, rng=seeds.numpy("trial")) if refines and not shown.all() else None
    return Split(
        known,
        known if held is None else _tensor(shown, known),
        None if tested is None else _tensor(tested, known),
        held,
        puts_back,
    )


def _tensor(entries: Bools, like: Tensor) -> Tensor:
    return torch.from_numpy(entries.transpose(2, 0, 1).copy()).to(like.device)
