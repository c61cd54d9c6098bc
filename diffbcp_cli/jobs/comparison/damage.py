"""What is restored: photographs as they are, or clean ones that are damaged for the purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import InputError, UsageError, typed
from ...photos import damage, files, mask_kinds, masks
from ...photos import photo as images
from ...photos.masks import Polarity
from ...random import Seeds
from ...scoring.pairs import Index
from ..find import Found, find_photos
from ..plan import Masks

INPUTS = "inputs"  # the folder of damaged photographs and their masks


@dataclass(frozen=True)
class Damage:
    """One kind of damage, done to the photographs.

    name: also that of its folder. inputs: the damaged photographs, as `diffbcp inpaint` takes them. truths: the
    clean one of each, by the name of the photograph; empty if nothing is known of them. recipe, noise: how it was
    simulated.
    """

    name: str
    inputs: tuple[str, ...]
    mask: Path | str | None
    truths: dict[str, Path]
    recipe: str | None = None
    noise: float | None = None


@dataclass(frozen=True)
class Wanted:
    """The damage that was asked for. masks: files, folders or "alpha". noise: None if the photographs are damaged."""

    photos: tuple[str, ...]
    masks: tuple[str, ...] = ()
    recipes: tuple[str, ...] = ()
    noise: float | None = None
    truth: Path | None = None
    polarity: Polarity = "white-fills"
    seed: int = 0

    @property
    def simulated(self) -> bool:
        """Whether the photographs are clean, and damaged here."""
        return bool(self.recipes) or self.noise is not None


def check_wanted(wanted: Wanted) -> None:
    """Refuse what contradicts itself, before anything is read."""
    if not wanted.photos:
        raise UsageError("there is no photograph", hint="diffbcp compare photo.png --mask mask.png -o out/")
    if wanted.recipes and wanted.masks:
        raise UsageError("--mask and --recipe are two ways to damage a photograph", hint="give one of them")
    if not (wanted.masks or wanted.simulated):
        raise UsageError(
            "nothing is missing, and there is no noise", hint="--mask mask.png, --recipe, --noise"
        )
    if wanted.simulated and wanted.truth is not None:
        raise UsageError("with --recipe or --noise the photographs are the truth", hint="leave --truth out")
    for name in wanted.recipes:
        if name not in mask_kinds.RECIPES:
            raise UsageError(f"there is no recipe {name!r}", hint=f"one of {', '.join(mask_kinds.RECIPES)}")
    for mask in wanted.masks:
        if mask != masks.ALPHA and not Path(mask).exists():
            raise InputError(f"the mask {mask} does not exist", hint="a file for all, a folder, or alpha")


def damages(wanted: Wanted, out: Path) -> tuple[Damage, ...]:
    """Every kind of damage; photographs that are damaged here are written below `out`."""
    photos = _photos(wanted, out)
    if not wanted.simulated:
        truths = _truths(wanted.truth, photos)
        labels = _labels(wanted.masks)
        pairs = zip(labels, wanted.masks, strict=True)
        return tuple(
            Damage(label, wanted.photos, mask if mask == masks.ALPHA else Path(mask), truths)
            for label, mask in pairs
        )
    if wanted.recipes:
        return tuple(_simulate(wanted, photos, out, name, recipe=name) for name in wanted.recipes)
    if wanted.masks:
        named = zip(_labels(wanted.masks), wanted.masks, strict=True)
        return tuple(_simulate(wanted, photos, out, label, mask=mask) for label, mask in named)
    return (_simulate(wanted, photos, out, f"noise-{wanted.noise:g}"),)


def _photos(wanted: Wanted, out: Path) -> tuple[Found, ...]:
    apart = [out, *(Path(mask) for mask in wanted.masks if mask != masks.ALPHA and Path(mask).is_dir())]
    found = find_photos(wanted.photos, apart_from=apart).photos
    for one in found:
        if one.problem is not None:
            raise one.problem
    if not found:
        raise InputError("there is no photograph to restore", hint="name files, folders or patterns")
    stems = [Path(one.name).with_suffix("").as_posix() for one in found]
    for one, stem in zip(found, stems, strict=True):
        if stems.count(stem) > 1:
            raise InputError(
                f"two photographs would have the results of {stem}", hint=f"rename {typed(one.path)}"
            )
    return found


def _labels(sources: Sequence[str]) -> list[str]:
    """Names for masks: those of their files or folders."""
    labels = [Path(source).stem or "mask" for source in sources]
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(f"two masks have the name {label}", hint="rename one")
    return labels


def _truths(truth: Path | None, photos: Sequence[Found]) -> dict[str, Path]:
    """The truth of each photograph: a file for a single one, or a folder in which it has its name."""
    if truth is None:
        return {}
    if not truth.exists():
        raise InputError(f"{truth} does not exist")
    if truth.is_file():
        if len(photos) > 1:
            raise UsageError(
                f"{truth} cannot be the truth of {len(photos)} photographs", hint="name a folder"
            )
        return {photos[0].name: truth}
    index, found = Index.of(truth), {}
    for one in photos:
        partner = index.find(Path(one.name).with_suffix("").as_posix(), what="truth")
        if partner is None:
            raise InputError(f"{one.name} has no truth in {truth}", hint="give it the name of the photograph")
        found[one.name] = partner
    return found


def _simulate(
    wanted: Wanted,
    photos: Sequence[Found],
    out: Path,
    label: str,
    *,
    recipe: str | None = None,
    mask: str | None = None,
) -> Damage:
    """Damage every photograph by a recipe, a mask, or noise alone, and write it with its mask.

    What is drawn follows from the seed and the name of the photograph, so a second run writes the same bytes.
    """
    folder, truths, found = out / INPUTS / label, {}, Masks(mask)
    for one in photos:
        photo, seeds = images.read_photo(one.path), Seeds(wanted.seed, one.name)
        observed = np.ones(photo.pixels.shape, bool)
        if recipe is not None:
            observed = mask_kinds.recipe(recipe, photo.pixels.shape, rng=seeds.numpy(recipe))
        elif mask is not None:
            source = found.find(one.path, one.name)
            observed = masks.read_mask(str(source), photo, polarity=wanted.polarity)
        noise = wanted.noise or 0.0
        hurt = damage.damaged(photo, observed, noise_std=noise, fill="black", rng=seeds.numpy("noise"))
        name = Path(one.name).with_suffix(".tiff" if photo.depth == "float32" else ".png")
        for part in ("photos", "masks"):
            files.ensure_writable((folder / part / name).parent)
        images.write_photo(folder / "photos" / name, hurt.pixels, photo)
        if not observed.all():
            masks.write_mask(folder / "masks" / name.with_suffix(".png"), observed)
        truths[name.as_posix()] = one.path
    whole = recipe is None and mask is None
    inputs = (str(folder / "photos"),)
    return Damage(label, inputs, None if whole else folder / "masks", truths, recipe, wanted.noise)
