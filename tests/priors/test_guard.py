"""A server that means harm: it writes nowhere but in the cache, fills no disk, keeps no one waiting."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hub_server import HubServer, Repo

pytestmark = pytest.mark.slow
PULL = """
import sys
from diffbcp_cli.priors import guard
guard.PATIENCE = float(sys.argv[1])
from diffbcp_cli.cli.app import run
sys.exit(run(["models", "pull", "lab/net", "--quiet"]))
"""
CONFIG = b'{"architecture": "natural"}'


@pytest.fixture
def pull(tmp_path: Path):
    base = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}

    def run(url: str, patience: float = 60.0) -> subprocess.CompletedProcess[str]:
        env = {**base, "HF_HOME": str(tmp_path / "home"), "HF_ENDPOINT": url}
        return subprocess.run(
            [sys.executable, "-c", PULL, str(patience)],
            env=env,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    return run


def hub_of(weights: bytes = bytes(1000)) -> HubServer:
    files = {"config.json": CONFIG, "model.safetensors": weights}
    return HubServer(lab__net=Repo(files, {"model.safetensors"}))


def refused(done: subprocess.CompletedProcess[str], words: str) -> None:
    assert done.returncode == 4, done
    assert "Traceback" not in done.stderr
    assert words in done.stderr


def outside(tmp_path: Path) -> list[Path]:
    """Files that are not where huggingface_hub puts them."""
    return [path for path in tmp_path.rglob("*") if path.is_file() and "hub" not in path.parts]


@pytest.mark.parametrize("polite", [0, 1])
@pytest.mark.parametrize("header", ["ETag", "X-Repo-Commit"])
def test_a_name_that_is_a_path_creates_nothing(pull, tmp_path, header, polite):
    with hub_of() as hub:
        hub.headers, hub.polite = {header: '"../../../../../escaped"'}, polite
        refused(pull(hub.url), "is not a name")
    assert not list(tmp_path.rglob("*escaped*"))
    assert not outside(tmp_path)


def test_a_missing_file_with_a_commit_that_is_a_path_creates_nothing(pull, tmp_path):
    with HubServer(lab__net=Repo(refuse=(404, "EntryNotFound"))) as hub:
        hub.headers = {"X-Repo-Commit": "../../../../../escaped"}
        refused(pull(hub.url), "is not a name")
    assert not list(tmp_path.rglob("*escaped*"))


def test_a_body_without_end_stops(pull, tmp_path):
    with hub_of() as hub:
        hub.endless = True
        refused(pull(hub.url), "the server sends more than")
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 10**7


def test_one_byte_at_a_time_is_not_waited_for(pull):
    with hub_of() as hub:
        hub.drip = 0.5
        began = time.monotonic()
        refused(pull(hub.url, patience=3), "too slowly")
        assert time.monotonic() - began < 40


@pytest.mark.parametrize("size", ["99999999999999", "-5"])
def test_an_absurd_length_is_named(pull, size):
    with hub_of() as hub:
        hub.headers = {"X-Linked-Size": size}
        refused(pull(hub.url), "bytes")


def test_redirects_in_a_circle_end_in_a_sentence(pull):
    with hub_of() as hub:
        hub.loop = True
        refused(pull(hub.url), "from one address to the next")


def test_a_password_in_the_address_is_not_printed(pull):
    with hub_of() as hub:
        url = hub.url.replace("//", "//me:s3cret@")
        hub.repos["lab/net"].refuse = (503, "")
        down = pull(url)
    gone = pull(url)
    for done in (down, gone):
        assert done.returncode == 4
        assert "s3cret" not in done.stderr + done.stdout
    assert "is out of reach" in gone.stderr
