"""Start the server on this machine, and open the browser on it."""

from __future__ import annotations

import socket
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from ..errors import DiffbcpError, UsageError
from .guard import Guard, new_token
from .server import application
from .store import Store
from .work import Worker

HOST = "127.0.0.1"


def serve(
    photos: list[Path],
    folder: Path,
    *,
    port: int,
    browser: bool,
    max_pixels: int,
    tell: Callable[[str], None],
    refused: Callable[[DiffbcpError], None],
) -> None:
    """Serve until Ctrl-C. port 0: any that is free. tell: hears the address; refused: of each
    photograph of several that cannot be opened."""
    store = Store(folder, max_pixels=max_pixels)
    for path in reversed(photos):  # the first in front of what was open before
        try:
            store.add(path, first=True)
        except DiffbcpError as error:
            if len(photos) == 1:
                raise
            refused(error)
    worker, token = Worker(store), new_token()
    listening = listen(port)
    address = f"http://{HOST}:{listening.getsockname()[1]}/{token}/"
    config = uvicorn.Config(
        Guard(application(store, worker), token),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        ws="none",
    )
    tell(address)
    if browser:
        webbrowser.open(address)
    try:
        uvicorn.Server(config).run(sockets=[listening])
    finally:
        listening.close()
        worker.close()


def listen(port: int) -> socket.socket:
    """A socket on this machine only; port 0 is any that is free."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # before the address is told: whoever comes early waits and is not turned away
    except OSError as error:
        listening.close()
        raise UsageError(
            f"port {port} is taken: {error.strerror}", hint="--port 0 takes one that is free"
        ) from error
    return listening
