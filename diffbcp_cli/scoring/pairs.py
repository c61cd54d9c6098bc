"""Find the truth of each result, and the files that belong to the result."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..photos import files
from ..photos.folders import images_in
from ..photos.masks import ALPHA
from ..photos.targets import is_result


@dataclass(frozen=True)
class Pair:
    """One result and its truth.

    name: the path of the photograph below its folder, without suffix. run: the JSON file of the run.
    mask: the mask that was given, or else the one beside the result.
    """

    name: str
    result: Path
    truth: Path
    std: Path | None = None
    samples: Path | None = None
    run: Path | None = None
    mask: Path | None = None


@dataclass(frozen=True)
class Matches:
    """The pairs, the results that could not be paired, and the files without a partner.

    problems: by name, for results with more than one truth or mask, or without a mask.
    """

    pairs: tuple[Pair, ...]
    problems: Mapping[str, InputError]
    lone_results: tuple[str, ...]
    lone_truths: tuple[str, ...]


def match(results: Path, truth: Path, *, mask: Path | None = None) -> Matches:
    """Pair results with their truth: two files, or two folders by relative path, else by file name.

    `photo.mean.png` is the result of `photo`. Its std, samples, mask and JSON file are those beside it.
    mask: one file for all, a folder that is matched like the truth, or "alpha" for the result's transparency.
    """
    for path in (results, truth, mask):
        if path is not None and not path.exists() and not (path is mask and str(mask) == ALPHA):
            raise InputError(f"{path} does not exist")
    if results.is_dir() != truth.is_dir():
        file, folder = (results, truth) if truth.is_dir() else (truth, results)
        raise InputError(
            f"{file} is a file but {folder} is a folder", hint="give two files or two folders to compare"
        )
    if not results.is_dir():
        name = _name_of(results)
        found = _mask_for(name, None, mask)
        return Matches((pair_of(name, results, truth, found),), {}, (), ())
    return _match_folders(results, truth, mask)


@dataclass(frozen=True)
class Run:
    """The inputs of a run. missing_share: the share of the picture that its mask left out."""

    photo: Path | None = None
    mask: Path | None = None
    polarity: str | None = None
    missing_share: float | None = None


def read_run(path: Path | None) -> Run:
    """Read the inputs of a run from its JSON file; they are all None if the file is missing or not ours.

    A file that cannot be read is an error: without it the filled pixels would go unscored without a word.
    """
    if path is None:
        return Run()
    try:
        record = json.loads(files.read_own(path))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged", hint="remove it, or restore the photograph again") from error
    if not isinstance(record, dict):
        return Run()

    def entry(key: str, kind: type) -> Any:
        value = record.get(key)
        return value if isinstance(value, kind) else None

    photo, mask = entry("photo", str), entry("mask", str)
    return Run(
        Path(photo) if photo else None,
        Path(mask) if mask else None,
        entry("mask_polarity", str),
        entry("missing_share", float),
    )


def _match_folders(results: Path, truth: Path, mask: Path | None) -> Matches:
    found = results_in(results, apart_from=truth)
    truths = Index.of(truth)
    masks = Index.of(mask) if mask is not None and mask.is_dir() else None
    pairs, lone = [], []
    problems: dict[str, InputError] = {}
    for name, result in found.items():
        try:
            partner = truths.find(name, what="truth")
            if partner is None:
                lone.append(name)
            else:
                pairs.append(pair_of(name, result, partner, _mask_for(name, masks, mask)))
        except InputError as error:
            problems[name] = error
    if not pairs and not problems:
        raise _nothing_matched(results, truth, found, truths)
    taken = {pair.truth for pair in pairs}
    lone_truths = sorted(path.relative_to(truth).as_posix() for path in truths.paths if path not in taken)
    return Matches(tuple(pairs), problems, tuple(lone), tuple(lone_truths))


class Index:
    """The files of a folder by relative path and by file name, each with and without suffix."""

    def __init__(self, paths: Iterable[Path], root: Path) -> None:
        self.paths = list(paths)
        self._by_path: defaultdict[str, list[Path]] = defaultdict(list)
        self._by_name: defaultdict[str, list[Path]] = defaultdict(list)
        for path in self.paths:
            relative = path.relative_to(root)
            for table, key in ((self._by_path, relative.as_posix()), (self._by_name, relative.name)):
                table[key].append(path)
                table[key.removesuffix(path.suffix)].append(path)

    @classmethod
    def of(cls, folder: Path) -> Index:
        """The images of a folder."""
        return cls(images_in(folder, results=True), folder)

    def find(self, name: str, *, what: str) -> Path | None:
        """Return the file for `name`, or None. More than one is an InputError."""
        candidates = self._by_path.get(name) or self._by_name.get(name.rsplit("/", 1)[-1]) or []
        if len(candidates) > 1:
            listed = ", ".join(path.name for path in candidates[:3])
            raise InputError(f"{name} matches more than one {what}: {listed}", hint="rename all but one")
        return candidates[0] if candidates else None


def results_in(folder: Path, *, apart_from: Path | None = None) -> dict[str, Path]:
    """Results by name. `photo.mean.png` is preferred to a `photo.png` beside it, which may be its input."""
    found: dict[str, Path] = {}
    for path in images_in(folder, results=True, apart_from=[apart_from] if apart_from else []):
        if is_result(path) and not path.stem.endswith(".mean"):  # it belongs to a result
            continue
        name = (path.parent.relative_to(folder) / _name_of(path)).as_posix()
        if name not in found or path.stem.endswith(".mean"):
            found[name] = path
    return found


def _name_of(result: Path) -> str:
    return result.stem.removesuffix(".mean")


def pair_of(name: str, result: Path, truth: Path, mask: Path | None) -> Pair:
    """A result with its truth, and the files beside it."""
    base = _name_of(result)

    def beside(*endings: str) -> Path | None:
        candidates = (result.with_name(base + ending) for ending in endings)
        return next((path for path in candidates if path.is_file()), None)

    return Pair(
        name=name,
        result=result,
        truth=truth,
        std=beside(".std.tiff", ".std.tif", ".std.npy"),
        samples=beside(".samples.npz"),
        run=beside(".json"),
        mask=mask or beside(".mask.png", ".mask.npy"),
    )


def _mask_for(name: str, masks: Index | None, mask: Path | None) -> Path | None:
    if mask is None or not mask.is_dir():
        return mask
    index = masks or Index.of(mask)
    found = index.find(name, what="mask")
    if found is None:
        raise InputError(
            f"{name} has no mask in {mask}", hint="name it after the photograph, or give one file for all"
        )
    return found


def _nothing_matched(results: Path, truth: Path, found: Mapping[str, Path], truths: Index) -> InputError:
    if not found:
        return InputError(f"{results} holds no images to score", hint="diffbcp eval RESULTS TRUTH")
    if not truths.paths:
        return InputError(f"{truth} holds no images", hint="diffbcp eval RESULTS TRUTH, in this order")
    return InputError(
        f"no result in {results} has a truth of the same name in {truth} "
        f"(for example {next(iter(found.values())).name} and {truths.paths[0].name})",
        hint="photo.mean.png or photo.png matches photo.png, photo.jpg, ...; rename the files of one side",
    )
