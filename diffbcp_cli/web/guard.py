"""Who may talk to the server: the page that holds the token, on this machine, and nobody else."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    b"content-security-policy": b"default-src 'self'; img-src 'self' blob: data:; style-src 'self'; "
    b"script-src 'self'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    b"referrer-policy": b"no-referrer",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"cross-origin-resource-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
}


def new_token() -> str:
    """The first part of every address: 192 random bits."""
    return secrets.token_urlsafe(24)


class Guard:
    """Refuse a request with a foreign Host, from another origin, or without the token; hand the rest on."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self.app, self.token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check a request; a lifespan event passes."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        refused = self._refusal(scope)
        if refused is not None:
            await _refuse(send, refused)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *HEADERS.items()]
            await send(message)

        prefix = f"/{self.token}"
        inner = dict(scope, path=scope["path"][len(prefix) :] or "/", root_path="")
        await self.app(inner, receive, with_headers)

    def _refusal(self, scope: Scope) -> str | None:
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get(b"host", "")
        if _name_of(host) not in LOOPBACK:
            return "this server is for this machine only"
        origin = headers.get(b"origin")
        if origin is not None and origin != f"http://{host}":
            return "another page may not use this server"
        if headers.get(b"sec-fetch-site", "none") not in ("none", "same-origin"):
            return "another page may not use this server"
        first = str(scope["path"]).removeprefix("/").split("/", 1)[0]
        if not secrets.compare_digest(first.encode(), self.token.encode()):
            return "the address has no valid token: use the one that diffbcp open printed"
        return None


def _name_of(host: str) -> str | None:
    """The name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


async def _refuse(send: Send, why: str) -> None:
    body = f"403: {why}\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 403, "headers": [*headers, *HEADERS.items()]})
    await send({"type": "http.response.body", "body": body})
