"""The known priors: names in registry.toml, folders, and ids on the Hugging Face Hub."""

from __future__ import annotations

import difflib
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelError, typed

HUB_ID = re.compile(r"(?P<repo>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?", re.ASCII)


@dataclass(frozen=True)
class Source:
    """Where a prior comes from: a folder, a repo on the Hub, or an installed Python package.

    file: the weights in a repo or package that is no prior in our layout; `config` then describes the network.
    Unknown facts (revision, sha256, size in bytes, parameters, licence) are None. noncommercial: the licence says
    so, or no licence is stated.
    """

    name: str
    folder: Path | None = None
    repo: str | None = None
    package: str | None = None
    file: str | None = None
    revision: str | None = None
    sha256: str | None = None
    size: int | None = None
    parameters: int | None = None
    licence: str | None = None
    noncommercial: bool = False
    about: str = ""
    config: Mapping[str, Any] | None = None

    @property
    def bundled(self) -> bool:
        """Whether the prior is part of the package."""
        return self.folder is not None and self.folder.parent == models_folder()


def models_folder() -> Path:
    """The folder of registry.toml and the bundled priors.

    The environment variable DIFFBCP_MODELS overrides it. An installed package has the folder inside, a checkout
    has it beside the package.
    """
    if chosen := os.environ.get("DIFFBCP_MODELS"):
        return Path(chosen)
    package = Path(__file__).resolve().parent.parent
    inside = package / "models"
    return inside if inside.is_dir() else package.parent / "models"


def registry() -> dict[str, Source]:
    """All named priors, in the order of registry.toml."""
    path = models_folder() / "registry.toml"
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8"))
        return {name: _entry(name, table) for name, table in entries.items()}
    except OSError as error:
        raise ModelError(
            f"the list of priors is not at {path}", hint="install diffbcp again, or set DIFFBCP_MODELS"
        ) from error
    except (tomllib.TOMLDecodeError, TypeError) as error:
        raise ModelError(f"the list of priors at {path} cannot be read: {error}") from error


def _entry(name: str, table: dict[str, Any]) -> Source:
    folder = table.pop("folder", None)
    return Source(name, folder=models_folder() / folder if folder else None, **table)


def shortened(name: str) -> str:
    """A name as a message shows it."""
    return name if len(name) <= 100 else f"{name[:100]}…"


def find(name: str) -> Source:
    """The prior that `--prior` means: a name, a folder, or a Hub id `owner/name` or `owner/name@revision`."""
    known = registry()
    if name in known:
        return known[name]
    try:
        path = Path(name).expanduser()
        kind = path.stat().st_mode if "\0" not in name else 0
    except (FileNotFoundError, NotADirectoryError):
        kind = 0
    except (OSError, RuntimeError) as error:  # too long, forbidden, or ~someone without a home
        reason = (getattr(error, "strerror", None) or str(error)).rstrip(".").lower()
        raise ModelError(
            f"{shortened(name)} cannot be looked at: {reason}", hint="--prior FOLDER, or diffbcp models list"
        ) from error
    if stat.S_ISDIR(kind):
        return Source(name, folder=path)
    if kind:
        raise ModelError(
            f"{name} is a file; a prior is a folder with config.json", hint=f"--prior {typed(path.parent)}"
        )
    if name.startswith((".", "~", "/")):
        raise ModelError(f"there is no folder {shortened(name)}", hint="diffbcp models list")
    if match := HUB_ID.fullmatch(name):
        return Source(name, repo=match["repo"], revision=match["revision"], noncommercial=True)
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise ModelError(
        f"there is no prior {shortened(name)!r}: not a name, not a folder, and not an id owner/name on the Hub",
        hint=f"{hint}diffbcp models list",
    )
