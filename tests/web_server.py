"""A server of the page with small photographs, over real sockets."""

from __future__ import annotations

import http.client
import json
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from conftest import picture
from PIL import Image

from diffbcp_cli.web.guard import Guard
from diffbcp_cli.web.serve import HOST, listen
from diffbcp_cli.web.server import application
from diffbcp_cli.web.store import Store
from diffbcp_cli.web.work import Worker

TOKEN = "a-token-of-the-tests"


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Served:
    """A running server, and a client of it that sends what it is told to."""

    def __init__(self, folder: Path, *, max_pixels: int = 1_000_000) -> None:
        self.store = Store(folder, max_pixels=max_pixels)
        self.worker = Worker(self.store)
        self.listening = listen(0)
        self.port = self.listening.getsockname()[1]
        config = uvicorn.Config(
            Guard(application(self.store, self.worker), TOKEN), log_level="critical", ws="none"
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.listening]})
        self.thread.start()
        self.address = f"http://{HOST}:{self.port}/{TOKEN}/"
        while not self.server.started:
            time.sleep(0.01)

    def raw(self, path: str, *, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        """A request to a path without the token; names of headers with _ for -."""
        client = http.client.HTTPConnection(HOST, self.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        client.request(method, path, body=body, headers=named)
        got = client.getresponse()
        answer = Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read())
        client.close()
        return answer

    def ask(self, path: str, *, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        """A request with the token."""
        sent = json.dumps(body) if isinstance(body, dict) else body
        return self.raw(f"/{TOKEN}/{path}", method=method, body=sent, **headers)

    def wait(self, run: str, *statuses: str) -> Any:
        """Wait until a run has one of the statuses, and return it."""
        for _ in range(2000):
            found = next(one for one in self.ask("api/state").json["runs"] if one["id"] == run)
            if found["status"] in statuses:
                return found
            time.sleep(0.05)
        raise AssertionError(f"still {found['status']}: {found}")

    def close(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.worker.close()


def save_photo(path: Path, height: int = 48, width: int = 64, seed: int = 0) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((picture(height, width, seed=seed) * 255).astype(np.uint8)).save(path)
    return path


def save_mask(path: Path, height: int = 48, width: int = 64) -> Path:
    hole = np.zeros((height, width), np.uint8)
    hole[10:20, 20:40] = 255
    Image.fromarray(hole).save(path)
    return path
