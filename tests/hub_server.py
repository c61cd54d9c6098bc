"""A small server that speaks the Hub's protocol, as far as downloads need it.

HEAD and GET of /OWNER/NAME/resolve/REVISION/FILE. Small files are answered directly, with their git hash as
the ETag. Large ones (LFS) are redirected to another host name of this same server, as the Hub does to its
CDN, with X-Linked-Etag (their sha256) and X-Linked-Size on the way; the CDN knows Range. Errors carry
X-Error-Code.
"""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Repo:
    """Files by path. large: which of them are LFS. refuse: (status, X-Error-Code) for every request."""

    files: dict[str, bytes] = field(default_factory=dict)
    large: set[str] = field(default_factory=set)
    refuse: tuple[int, str] | None = None

    @classmethod
    def of(cls, folder: Path) -> Repo:
        """Everything in a folder; weights are LFS."""
        files = {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
        return cls(files, {name for name in files if not name.endswith(".json")})


class HubServer:
    """The server, in a thread of its own; a context manager.

    repos: by id. requests: a line "METHOD path [range]" for each request. break_after: the CDN closes the
    next connection after so many bytes. damage: the CDN changes the bytes it sends, but not their number.

    Hostile: headers replace those of every answer after the first `polite` ones. endless: bodies go on and on.
    drip: they come one byte at a time, so many seconds apart. loop: every answer sends the client elsewhere.
    """

    def __init__(self, **repos: Repo) -> None:
        self.repos = {name.replace("__", "/"): repo for name, repo in repos.items()}
        self.requests: list[str] = []
        self.break_after: int | None = None
        self.damage = False
        self.headers: dict[str, str] = {}
        self.polite = 0  # answers that do not get them
        self.endless = False
        self.drip: float | None = None
        self.loop = False
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def cdn(self) -> str:
        return f"http://localhost:{self._server.server_port}"

    def downloads(self) -> list[str]:
        """The requests for the contents of large files."""
        return [line for line in self.requests if line.startswith("GET /cdn/")]

    def __enter__(self) -> HubServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        """Quiet."""

    def _answer(self) -> None:
        wanted = self.headers.get("Range", "")
        self.hub.requests.append(f"{self.command} {self.path} {wanted}".strip())
        if self.hub.loop:
            self._send(302, {"Location": f"{self.path.partition('?')[0]}?{len(self.hub.requests)}"}, b"")
            return
        if self.path.startswith("/cdn/"):
            self._send_large(wanted)
            return
        owner, name, resolve, revision, *rest = self.path.strip("/").split("/")
        repo = self.hub.repos.get(f"{owner}/{name}")
        path = "/".join(rest)
        if repo is None or resolve != "resolve":
            self._error(401, "RepoNotFound")
        elif repo.refuse:
            self._error(*repo.refuse)
        elif revision not in ("main", COMMIT):
            self._error(404, "RevisionNotFound")
        elif path not in repo.files:
            self._error(404, "EntryNotFound")
        elif path in repo.large:
            self._redirect(f"{owner}/{name}", path, repo.files[path])
        else:
            content = repo.files[path]
            etag = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
            self._send(200, {"ETag": f'"{etag}"', "X-Repo-Commit": COMMIT}, content)

    def _redirect(self, repo: str, path: str, content: bytes) -> None:
        headers = {
            "Location": f"{self.hub.cdn}/cdn/{repo}/{path}",
            "X-Repo-Commit": COMMIT,
            "X-Linked-Etag": f'"{hashlib.sha256(content).hexdigest()}"',
            "X-Linked-Size": str(len(content)),
        }
        self._send(302, headers, b"")

    def _send_large(self, wanted: str) -> None:
        _, _, owner, name, *rest = self.path.split("/")
        content = self.hub.repos[f"{owner}/{name}"].files["/".join(rest)]
        if self.hub.damage:
            content = content[:-1] + bytes([content[-1] ^ 1])
        if wanted:
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
            extent = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self._send(206, {"Content-Range": extent}, content[start:])
        else:
            self._send(200, {}, content)

    def _error(self, status: int, code: str) -> None:
        headers = {"X-Error-Code": code, "X-Repo-Commit": COMMIT} if code else {}
        self._send(status, headers, b"")

    def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        all_headers = {**headers, "Content-Length": str(len(content))}
        if len(self.hub.requests) > self.hub.polite:
            all_headers |= self.hub.headers
        if self.hub.endless and self.command == "GET":
            del all_headers["Content-Length"]
            self.close_connection = True
        for key, value in all_headers.items():
            self.send_header(key, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if self.path.startswith("/cdn/") and self.hub.break_after is not None:
            content, self.hub.break_after = content[: self.hub.break_after], None
            self.close_connection = True
        with suppress(OSError):  # the client may have had enough
            self._write(content)

    def _write(self, content: bytes) -> None:
        while self.hub.endless:
            self.wfile.write(bytes(2**20))
        if self.hub.drip is None:
            self.wfile.write(content)
            return
        for byte in content:
            self.wfile.write(bytes([byte]))
            time.sleep(self.hub.drip)
