"""Files from the Hugging Face Hub: from the cache if they are there, otherwise downloaded.

`huggingface_hub` does the work, so HF_HOME, HF_TOKEN, HF_ENDPOINT and HF_HUB_OFFLINE have their usual meaning.
The server is not trusted: `guard` limits what it can do. Each failure becomes a ModelError that says what to type.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from .. import __version__
from ..errors import ModelError
from .guard import LARGEST, SMALL_FILE, Limits, guarded, in_time, without_login
from .registry import Source

SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Download:
    """A download that is about to begin. size: bytes, or None if the Hub does not say."""

    source: Source
    file: str
    size: int | None
    revision: str | None


class Hub:
    """One repo at one revision. The first file that is found fixes the commit of the others.

    refresh: ask the Hub even if a file is in the cache. force: download even what is in the cache.
    """

    def __init__(
        self,
        source: Source,
        *,
        announce: Callable[[Download], None] | None = None,
        bars: bool = False,
        refresh: bool = False,
        force: bool = False,
    ) -> None:
        if source.repo is None:
            raise ValueError(f"{source.name} is not on the Hub")
        self.source = source
        self.repo = source.repo
        self.revision = source.revision
        self.announce = announce
        self.bars = bars
        self.refresh = refresh or force
        self.force = force
        self.out_of_reach: ModelError | None = None

    def cached(self, file: str) -> Path | None:
        """The file in the cache, or None."""
        from huggingface_hub import errors, try_to_load_from_cache

        try:
            found = try_to_load_from_cache(self.repo, file, revision=self.revision)
        except errors.HFValidationError as error:
            raise self._explain(error) from error
        return Path(found) if isinstance(found, str) else None

    def get(self, file: str, *, weights: bool = False) -> Path | None:
        """The file in the cache, downloaded first if necessary; None if the repo does not have it.

        If the Hub is out of reach, the result is None too, and `out_of_reach` says why.
        """
        if (not self.refresh or self.out_of_reach) and (path := self.cached(file)):
            return self.pin(path)
        if self.out_of_reach:
            return None
        from huggingface_hub.errors import RepositoryNotFoundError, RevisionNotFoundError

        try:
            size = self._ask(file, weights=weights)
            found = self._download(file, Limits(size if weights else SMALL_FILE), bars=self.bars and weights)
        except Exception as error:  # its HTTP library may raise anything
            if _status(error) == 404 and not isinstance(
                error, (RepositoryNotFoundError, RevisionNotFoundError)
            ):
                return None
            failure = self._explain(error)
            if self.force or not _unreachable(error):
                raise failure from error
            self.out_of_reach = failure
            return self.get(file, weights=weights)
        return self.pin(Path(found))

    def pin(self, path: Path) -> Path:
        """Take the commit from the path of a file in the cache, snapshots/COMMIT/file."""
        parts = path.parts[::-1]
        if "snapshots" in parts:
            self.revision = parts[parts.index("snapshots") - 1]
        return path

    def _download(self, file: str, limits: Limits, *, bars: bool) -> str:
        from huggingface_hub import hf_hub_download

        def work() -> str:
            return hf_hub_download(
                self.repo,
                file,
                revision=self.revision,
                force_download=self.force,
                library_name="diffbcp",
                library_version=__version__,
            )

        with guarded(limits), _progress_bars(bars):
            return in_time(limits, work)

    def _ask(self, file: str, *, weights: bool) -> int:
        """Ask the Hub about the file first, and return its size.

        This fails at once where the download would retry for a long time.
        """
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        url, limits = hf_hub_url(self.repo, file, revision=self.revision), Limits(SMALL_FILE)
        with guarded(limits):
            facts = in_time(limits, lambda: get_hf_file_metadata(url))
        if not facts.commit_hash or not facts.etag:
            raise ModelError(
                f"{_endpoint()} does not answer like the Hub",
                hint="check HF_ENDPOINT and the proxy settings",
            )
        if facts.size is None or facts.size > (LARGEST if weights else SMALL_FILE):
            size = "has no size" if facts.size is None else f"has {facts.size:,} bytes, too many for it"
            raise ModelError(
                f"{_endpoint()} says that {file} {size}", hint="check HF_ENDPOINT and the proxy settings"
            )
        if not weights:
            return facts.size
        wanted, offered = self.source.sha256, facts.etag
        if wanted and SHA256.fullmatch(offered) and offered != wanted:
            raise ModelError(
                f"the Hub offers another {file} than expected: sha256 {offered[:12]}…, not {wanted[:12]}…",
                hint=f"nothing was downloaded; to use it anyway: --prior {self.repo} if it has a config.json",
            )
        if self.announce and (self.force or self.cached(file) is None):
            self.announce(Download(self.source, file, facts.size, facts.commit_hash))
        return facts.size

    @property
    def _need(self) -> str:
        if self.force:
            return "is to be downloaded again"
        return "is neither a folder nor in the cache" if self.named_by_id else "is not in the cache"

    @property
    def named_by_id(self) -> bool:
        """Whether the user typed owner/name, and may have meant a folder."""
        return "/" in self.source.name

    def _explain(self, error: Exception) -> ModelError:
        """Explain a failure of huggingface_hub, and what to type."""
        from huggingface_hub import errors

        name, repo, again = self.source.name, self.repo, f"diffbcp models pull {self.source.name}"
        page = f"{_endpoint()}/{repo}"
        status, no_folder = _status(error), f"there is no folder {name}, and " if self.named_by_id else ""
        if isinstance(error, ModelError):
            return error
        if isinstance(error, errors.GatedRepoError):
            return ModelError(
                f"{repo} is gated: its owner wants you to accept terms first",
                hint=f"accept them at {page}, then: HF_TOKEN=... {again}",
            )
        if isinstance(error, errors.RevisionNotFoundError):
            return ModelError(f"{repo} has no revision {self.revision}", hint=f"see {page}/commits/main")
        if isinstance(error, errors.RepositoryNotFoundError):
            return ModelError(
                f"{no_folder}the Hub shows no repository {repo} ({status}): it is private, or does not exist",
                hint=f"check the spelling at {page}; for a private one: HF_TOKEN=... {again}",
            )
        if status in (401, 403):
            return ModelError(
                f"the Hub does not let us into {repo} ({status}): it is private, or the token is not valid",
                hint=f"HF_TOKEN=... {again}, with a token from {_endpoint()}/settings/tokens",
            )
        if isinstance(error, errors.OfflineModeIsEnabled):
            return ModelError(
                f"the prior {name} {self._need}, and HF_HUB_OFFLINE forbids it to be downloaded",
                hint=f"HF_HUB_OFFLINE=0 {again}",
            )
        if status is not None:
            return ModelError(f"the Hub answered {status} for {repo}", hint=f"later: {again}")
        return self._explain_connection(error, again)

    def _explain_connection(self, error: Exception, again: str) -> ModelError:
        from huggingface_hub import constants, errors

        if isinstance(error, errors.HFValidationError):
            return ModelError(f"{self.repo} is not an id on the Hub", hint="ids look like owner/name")
        if _unreachable(error):
            return ModelError(
                f"the prior {self.source.name} {self._need}, and {_endpoint()} is out of reach",
                hint=f"check the connection, then: {again}; or copy a folder here: --prior FOLDER",
            )
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return ModelError(
                f"the disk is full: {constants.HF_HUB_CACHE}",
                hint="make room, or set HF_HOME to a larger disk",
            )
        reason = without_login(str(error).strip().split("\n")[0]) or type(error).__name__
        if "TooManyRedirects" in _names(error):
            reason = f"{_endpoint()} sends us from one address to the next without end"
        return ModelError(f"the download of {self.repo} broke off: {reason}", hint=f"again: {again}")


def _endpoint() -> str:
    """The address of the Hub, without a password."""
    from huggingface_hub import constants

    return without_login(constants.ENDPOINT)


def _status(error: Exception) -> int | None:
    """The HTTP status of the Hub's answer, or None if there was none."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _unreachable(error: Exception) -> bool:
    """Whether there was no answer at all, by the names of the exceptions of httpx and requests."""
    return bool(_names(error) & {"TransportError", "ConnectionError", "Timeout", "LocalEntryNotFoundError"})


def _names(error: Exception) -> set[str]:
    return {kind.__name__ for kind in type(error).__mro__}


@contextmanager
def _progress_bars(shown: bool) -> Iterator[None]:
    """Show or hide the progress bar of huggingface_hub, then restore its setting."""
    from huggingface_hub.utils import (  # type: ignore[attr-defined]
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if shown or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
