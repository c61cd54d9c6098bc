"""From pixels to their restoration: a problem, a method, an estimator, and windows if the picture is too large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from .. import tree
from ..devices import defaults_of, pick_device
from ..errors import InputError
from ..estimators import hold_out
from ..estimators.grain import measure_grain, with_grain
from ..methods import state_classes
from ..options import Given, Options, resolve, uses
from ..priors import Download, LoadedPrior, load_prior
from ..priors.base import Prior
from ..priors.sizes import FIT_SIDE, Fitted
from ..problem import Restoration
from ..random import Seeds
from ..run.blend import Window
from ..run.blend import windows as all_over
from ..run.damage import DamageWindows, damage_windows, keeps_known
from ..run.loop import SNAPSHOT_CLASSES, Checkpoints
from ..run.memory import over_budget, window_side
from ..run.windows import WINDOWS_CLASSES, restore_in_windows
from ..units import Bools, Floats
from ..watch import Watch
from .noise import CAMERA, denoising, noise_of_known
from .whole import Whole

SMALLEST_SIDE = 16
Checkpoint = tuple[tree.Tensors, dict[str, Any]]
"""Tensors by name, and plain values; `steps` among them says how many iterations were done."""


@dataclass(frozen=True)
class Resume:
    """Where a restoration goes on from, and where it leaves checkpoints; the tensors and values are `tree`'s."""

    start: Checkpoint | None = None
    save: Callable[[Checkpoint], None] | None = None


@dataclass
class Session:
    """What is the same for every photograph of a run. It crosses processes before its prior is loaded.

    given: the options that were set, or all of them. resume: go on from checkpoints where there are some.
    overwrite: restore again what is there already. wait: for another run that works on the same photograph.
    at_once: photographs at work in this process. announce, bars: as in `load_prior`.
    """

    given: Given | Options
    resume: bool = False
    overwrite: bool = False
    wait: bool = False
    at_once: int = 1
    announce: Callable[[Download], None] | None = None
    bars: bool = False

    @property
    def usual(self) -> Options:
        """The options for a photograph of usual size."""
        return resolve(self.given)

    @cached_property
    def prior(self) -> LoadedPrior | None:
        """The prior, loaded when it is first asked for."""
        return open_prior(self.given, announce=self.announce, bars=self.bars)


def open_prior(
    given: Given | Options, *, announce: Callable[[Download], None] | None = None, bars: bool = False
) -> LoadedPrior | None:
    """Load the prior that a run asks for, None for `none`; announce and bars as in `load_prior`."""
    options = resolve(given)
    if options.prior == "none":
        return None
    return load_prior(
        options.prior,
        device=options.device,
        precision=options.precision,
        scale=options.prior_scale,
        compile=options.compile,
        announce=announce,
        bars=bars,
    )


def restore(
    pixels: Floats,
    observed: Bools,
    given: Given | Options,
    *,
    prior: Prior | None,
    name: str = "",
    watch: Watch | None = None,
    resume: Resume | None = None,
    jpeg: float | None = None,
) -> Restoration:
    """Restore pixels (H, W, C) on [0, 1] from the observed ones, (H, W, C) bool.

    name: the relative path of the photograph, which with the seed fixes every draw. jpeg: how strongly its file is
    compressed (`photos/jpeg.py`), if it is a JPEG. Ctrl-C, or a watch that asks for a stop, ends the run with what
    has been drawn so far.
    """
    watch, (height, width) = watch or Watch(), observed.shape[:2]
    if min(height, width) < SMALLEST_SIDE:
        raise InputError(
            f"the image is {width}x{height}, and the smallest that can be restored is "
            f"{SMALLEST_SIDE}x{SMALLEST_SIDE}"
        )
    options = resolved(given, observed)
    if options.prior_scale == "fit" and prior is not None and prior.traits.shrinks_to is None:
        prior = Fitted(prior, size=FIT_SIDE)
    checkpoints = _checkpoints(resume or Resume(), options)
    windows = _windows(observed, options, watch)
    options = replace(options, observed="keep" if keeps_known(observed, options) else "posterior")
    if not observed.all() or options.observed == "keep":
        options, back = noise_of_known(pixels, observed, options, prior, watch)
        restored = _restore(pixels, observed, options, windows, prior, name, watch, checkpoints)
        return _finish(back(restored), pixels, observed, name)
    how = denoising(pixels, options, prior, name, watch, jpeg=jpeg)
    found = _restore(how.pixels, observed, how.options, windows, how.prior, name, watch, checkpoints)
    return how.back(found)


def _restore(
    pixels: Floats,
    observed: Bools,
    options: Options,
    windows: DamageWindows | list[Window] | None,
    prior: Prior | None,
    name: str,
    watch: Watch,
    checkpoints: Checkpoints,
) -> Restoration:
    """Restore a picture with white noise in one piece, or in windows."""
    if windows is None:
        return Whole(pixels, observed, options, prior, name, watch, checkpoints).restore()
    cut = windows.windows if isinstance(windows, DamageWindows) else windows
    one = partial(_restore_window, prior=prior, watch=watch)
    return restore_in_windows(
        pixels, observed, options, cut, one=one, name=name, watch=watch, checkpoints=checkpoints
    )


def resolved(given: Given | Options, observed: Bools) -> Options:
    """Every option for a picture, observed (H, W, C), and for the device where neither preset nor size has a say."""
    height, width = observed.shape[:2]
    options = resolve(given, height=height, width=width, known=float(observed.mean()))
    if isinstance(given, Options):
        return options
    suited = defaults_of(pick_device(options.device))
    free = {
        name: value
        for name, value in suited.items()
        if name not in given and uses(options, name) and getattr(options, name) == getattr(Options, name)
    }
    return replace(options, **free)


def _windows(observed: Bools, options: Options, watch: Watch) -> DamageWindows | list[Window] | None:
    """The windows that a picture is restored in: around its damage, or as its memory allows; None: in one piece."""
    height, width, channels = observed.shape
    side = window_side(options, height, width, channels)
    found = damage_windows(observed, options, side)
    if found is not None:
        count, share = len(found.pieces), found.pixels / (height * width)
        watch.note(
            f"the damage is in {count} place{'s' * (count > 1)}: {share:.2g} of the picture is worked on"
        )
        return found
    over = over_budget(options, side, height, width, channels)
    if over is not None:
        watch.note(over)
    return None if side is None else [*all_over(height, width, side)]


def _restore_window(
    pixels: Floats,
    observed: Bools,
    options: Options,
    name: str,
    checkpoints: Checkpoints,
    *,
    prior: Prior | None,
    watch: Watch,
) -> Restoration:
    """Restore one window; where too little of it is known it is not calibrated."""
    calibrates = options.calibrate and hold_out.can_hold_out(observed)
    if options.calibrate and not calibrates:
        watch.note("too little is known in it to calibrate its uncertainty")
    options = replace(options, calibrate=calibrates)
    return Whole(pixels, observed, options, prior, name, watch, checkpoints).restore()


def _finish(restored: Restoration, pixels: Floats, observed: Bools, name: str) -> Restoration:
    """Known pixels as they were given and grain in what was filled, if so asked."""
    options = restored.options
    if options.observed == "keep":
        std = None if restored.std is None else np.where(observed, np.float32(0), restored.std)
        restored = replace(restored, mean=np.where(observed, pixels, restored.mean), std=std)
    matches = options.grain == "match" or (options.grain == "auto" and options.observed == "keep")
    grain = measure_grain(restored.mean, observed) if matches and not observed.all() else None
    numbers = {**restored.numbers, "grain": None if grain is None else grain.std}
    if grain is None:
        return replace(restored, numbers=numbers)
    rng = Seeds(options.seed, name).generator("grain", torch.device("cpu"))
    mean = with_grain(restored.mean, ~observed, grain, rng=rng)
    return replace(restored, mean=mean, numbers=numbers, maps={**restored.maps, "plain": restored.mean})


def _checkpoints(resume: Resume, options: Options) -> Checkpoints:
    """Snapshots of a run as checkpoints of plain tensors and values."""
    start, save, keep = None, None, resume.save
    if resume.start is not None:
        tensors, plain = resume.start
        of_method = (*state_classes(options.method), *state_classes(CAMERA))
        classes = (*SNAPSHOT_CLASSES, *WINDOWS_CLASSES, *of_method)
        start = tree.unpack(plain.get("run"), tensors, classes=classes, device=pick_device(options.device))
    if keep is not None:

        def save(snapshot: Any) -> None:
            tensors, plain = tree.pack(snapshot)
            keep((tensors, {"run": plain, "steps": snapshot.steps}))

    return Checkpoints(start, save, options.checkpoint_every)
