"""Limits on what a server may do to us: the names it sends, how much it sends, and how long it takes.

HF_ENDPOINT may name any server. huggingface_hub makes paths in the cache of the ETag and the commit in an answer,
writes a body for as long as one comes, and waits as long as an answer says. The limits hold for every request that
it makes inside `guarded`.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from ..errors import ModelError

SMALL_FILE = 2**20  # bytes of a file that is not weights
ENCODED = 2**16  # bytes of a body that is compressed although we asked for a plain one
LARGEST = 20 * 10**9  # bytes of weights
PATIENCE = 60.0  # seconds that pass before speed counts
SLOWEST = 10_000  # bytes a second
_LOOK = 0.1  # seconds between two looks at the clock
_PLAIN = re.compile(r"[0-9A-Za-z_-]{1,128}")
_LOGIN = re.compile(r"(?<=://)[^/?#\s]*@")
_HINT = "check HF_ENDPOINT and the proxy settings"
T = TypeVar("T")


class Limits:
    """What one file may take. most: bytes. It counts what has come so far, over all attempts."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.received = 0
        self.began = time.monotonic()

    def check(self) -> None:
        """Raise a ModelError once there is too much, or too little for the time."""
        if self.received > 2 * self.most:  # a download that broke off sends some of it twice
            raise ModelError(
                f"the server sends more than the {self.most:,} bytes that the file may have", hint=_HINT
            )
        if time.monotonic() - self.began > PATIENCE + self.received / SLOWEST:
            raise ModelError("the server answers too slowly to be waited for", hint=f"later, or {_HINT}")


def without_login(text: str) -> str:
    """The text with user name and password left out of every address.

    >>> without_login("http://me:secret@hub.example/x is out of reach")
    'http://hub.example/x is out of reach'
    """
    return _LOGIN.sub("", text)


@contextmanager
def guarded(limits: Limits) -> Iterator[None]:
    """Hold every request of huggingface_hub to the limits, and keep its log, which shows addresses, quiet."""
    from huggingface_hub import set_client_factory
    from huggingface_hub.utils import _http

    before: Callable[[], Any] = getattr(_http, "_GLOBAL_CLIENT_FACTORY", _http.default_client_factory)

    def factory() -> Any:
        client = before()
        hooks = client.event_hooks
        client.event_hooks = {
            "request": [*hooks["request"], _ask_for_plain],
            "response": [*hooks["response"], lambda one: _inspect(one, limits)],
        }
        return client

    log = logging.getLogger("huggingface_hub")
    quiet, log.disabled = log.disabled, True
    children = [
        logging.getLogger(name) for name in logging.root.manager.loggerDict if name.startswith(log.name)
    ]
    levels = [(one, one.level) for one in children]
    for one in children:
        one.setLevel(logging.CRITICAL)
    set_client_factory(factory)
    try:
        yield
    finally:
        set_client_factory(before)
        log.disabled = quiet
        for one, level in levels:
            one.setLevel(level)


def in_time(limits: Limits, work: Callable[[], T]) -> T:
    """Do the work in a thread and wait for it only as long as the limits allow.

    The limit on single reads does not help against a server that sends one byte of a header at a time. A thread
    that is given up ends with the next bytes that it gets, or with the process.
    """
    found: list[T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True, name="download")
    thread.start()
    while thread.is_alive():
        thread.join(_LOOK)
        if thread.is_alive():
            limits.check()
    if failure:
        raise failure[0]
    return found[0]


def _inspect(response: Any, limits: Limits) -> None:
    """Look at the head of an answer, and count its body."""
    names = {"X-Repo-Commit": response.headers.get("X-Repo-Commit")}
    if response.request.method == "HEAD":  # huggingface_hub takes the name of a file in the cache from it
        names |= {key: response.headers.get(key) for key in ("ETag", "X-Linked-Etag")}
    for key, value in names.items():
        if value is not None and not _PLAIN.fullmatch(value.removeprefix("W/").strip('"')):
            raise ModelError(
                f"the server sent an {key} that is not a name, so nothing was taken from it: {value[:60]!r}",
                hint=_HINT,
            )
    with suppress(TypeError, ValueError):
        size = int(response.headers.get("X-Linked-Size") or response.headers.get("Content-Length"))
        if size < 0 or (response.is_success and size > LARGEST):
            raise ModelError(f"the server claims that the file has {size:,} bytes", hint=_HINT)
    encoded = response.headers.get("Content-Encoding", "identity") != "identity"
    response.stream = _counted(response.stream, limits, ENCODED if encoded else limits.most)


def _ask_for_plain(request: Any) -> None:
    request.headers["Accept-Encoding"] = "identity"


def _counted(stream: Any, limits: Limits, most: int) -> Any:
    """The same stream of bytes, which ends with an error when a limit is passed."""

    class Counted(type(stream)):  # type: ignore[misc]  # the client looks at the class
        def __init__(self) -> None:
            pass

        def __iter__(self) -> Iterator[bytes]:
            here = 0
            for part in stream:
                here += len(part)
                limits.received += len(part) if here <= most else 2 * limits.most + 1
                limits.check()
                yield part

        def close(self) -> None:
            stream.close()

    return Counted()
