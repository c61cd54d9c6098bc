"""`diffbcp models` against a server that speaks the Hub's protocol, each command a process of its own."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hub_server import COMMIT, HubServer, Repo

pytestmark = pytest.mark.slow

CONTENT = bytes(range(256)) * 100_000  # 25.6 MB: the Hub's client takes 10 MiB at a time
SHA = hashlib.sha256(CONTENT).hexdigest()
REGISTRY = f"""
[natural]
folder = "natural"
licence = "MIT"

[bare]
about = "bare weights"
repo = "lab/bare"
file = "net.pt"
sha256 = "{SHA}"
licence = "for research"
noncommercial = true
config = {{ architecture = "adm" }}

[pinned]
repo = "lab/bare"
file = "net.pt"
revision = "{COMMIT}"
licence = "MIT"
config = {{ architecture = "adm" }}
"""

EACH = """  # the command, once for each name, in one process
import sys
from diffbcp_cli.cli.app import run
for name in sys.argv[2:]:
    print("exit", run(["models", sys.argv[1], name]), file=sys.stderr)
"""


@pytest.fixture
def repo() -> Repo:
    return Repo({"net.pt": CONTENT}, {"net.pt"})


@pytest.fixture
def diffbcp(tmp_path: Path):
    """A function that runs `diffbcp models ...` with a cache and a registry of its own."""
    models = tmp_path / "models"
    models.mkdir()
    (models / "registry.toml").write_text(REGISTRY)
    home = tmp_path / "home"
    base = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}

    def run(
        *words: str, hub: HubServer | str, each: bool = False, **env: str
    ) -> subprocess.CompletedProcess[str]:
        endpoint = hub if isinstance(hub, str) else hub.url
        env = {**base, "HF_HOME": str(home), "HF_ENDPOINT": endpoint, "DIFFBCP_MODELS": str(models), **env}
        start = ["-c", EACH] if each else ["-m", "diffbcp_cli", "models"]
        command = [sys.executable, *start, *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_first_pull_downloads_and_a_second_run_needs_no_server(diffbcp, repo):
    with HubServer(lab__bare=repo) as hub:
        first = diffbcp("pull", "bare", "--json", hub=hub)
        assert first.returncode == 0, first.stderr
        assert len(hub.downloads()) == 1
    result = json.loads(first.stdout)
    assert result["sha256"] == SHA
    assert result["revision"] == COMMIT
    assert Path(result["path"]).read_bytes() == CONTENT
    licence = first.stderr.index("licence of the prior bare: for research")
    assert first.stderr.index("downloading net.pt from lab/bare (26 MB)") < licence
    # the server is gone now
    second = diffbcp("pull", "bare", hub=hub.url, HF_HUB_OFFLINE="1")
    assert second.returncode == 0, second.stderr
    assert second.stdout.strip() == result["path"]
    assert "licence" not in second.stderr
    third = diffbcp("path", "bare", hub=hub.url)
    assert third.stdout.strip() == result["path"]


def test_an_interrupted_download_goes_on_where_it_stopped(diffbcp, repo):
    with HubServer(lab__bare=repo) as hub:
        hub.break_after = 15_000_000
        done = diffbcp("pull", "pinned", "--json", hub=hub)
        assert done.returncode == 0, done.stderr
        assert hub.downloads() == ["GET /cdn/lab/bare/net.pt", "GET /cdn/lab/bare/net.pt bytes=10485760-"]
    assert json.loads(done.stdout)["sha256"] == SHA
    assert "licence" not in done.stderr  # a free licence is not talked about


def test_other_weights_than_the_registry_knows_are_refused_before_the_download(diffbcp, repo):
    repo.files["net.pt"] = b"other" + CONTENT
    with HubServer(lab__bare=repo) as hub:
        done = diffbcp("pull", "bare", hub=hub)
        assert hub.downloads() == []
    assert done.returncode == 4
    assert "the Hub offers another net.pt than expected" in done.stderr


def test_a_damaged_download_is_refused_and_can_be_repeated(diffbcp, repo):
    with HubServer(lab__bare=repo) as hub:
        hub.damage = True
        done = diffbcp("pull", "bare", hub=hub)
        assert done.returncode == 4
        assert "net.pt is not the file it should be: sha256" in done.stderr
        assert "diffbcp models pull bare --force" in done.stderr
        again = diffbcp("verify", "bare", hub=hub)
        assert again.returncode == 4
        hub.damage = False
        repaired = diffbcp("pull", "bare", "--force", hub=hub)
        assert repaired.returncode == 0, repaired.stderr


REFUSALS = {
    "missing": (
        (401, "RepoNotFound"),
        [
            "there is no folder lab/missing, and the Hub shows no repository lab/missing (401)",
            "HF_TOKEN=... diffbcp models pull",
        ],
    ),
    "gone": ((404, "RepoNotFound"), ["shows no repository lab/gone (404)", "check the spelling"]),
    "secret": ((401, ""), ["does not let us into lab/secret (401)", "HF_TOKEN=... diffbcp models pull"]),
    "gated": ((403, "GatedRepo"), ["lab/gated is gated", "accept them at http://127.0.0.1"]),
    "empty": ((404, "EntryNotFound"), ["lab/empty on the Hub has no config.json", "(404)"]),
    "down": ((503, ""), ["the Hub answered 503 for lab/down"]),
}


def test_a_refusal_says_what_to_type(diffbcp):
    repos = {f"lab__{name}": Repo(refuse=refuse) for name, (refuse, _) in REFUSALS.items()}
    with HubServer(**repos) as hub:
        done = diffbcp("pull", *(f"lab/{name}" for name in REFUSALS), hub=hub, each=True)
    said = done.stderr.split("exit 4\n")
    assert len(said) == len(REFUSALS) + 1, done.stderr
    assert "Traceback" not in done.stderr
    for (_, words), answer in zip(REFUSALS.values(), said, strict=False):
        for word in words:
            assert word in answer


def test_no_network_and_no_cache(diffbcp, repo):
    with HubServer(lab__bare=repo) as hub:
        url = hub.url
    gone = diffbcp("pull", "bare", hub=url)
    assert gone.returncode == 4
    assert f"the prior bare is not in the cache, and {url} is out of reach" in gone.stderr
    offline = diffbcp("pull", "bare", hub=url, HF_HUB_OFFLINE="1")
    assert offline.returncode == 4
    assert "HF_HUB_OFFLINE forbids it" in offline.stderr
    assert "HF_HUB_OFFLINE=0 diffbcp models pull bare" in offline.stderr


def test_an_unknown_revision_of_a_hub_id(diffbcp, repo):
    with HubServer(lab__bare=repo) as hub:
        done = diffbcp("pull", "lab/bare@v9", hub=hub)
        bare = diffbcp("pull", "lab/bare", hub=hub)
    assert done.returncode == bare.returncode == 4
    assert "lab/bare has no revision v9" in done.stderr
    assert "lab/bare on the Hub has no config.json" in bare.stderr


def test_list_and_info_ask_nobody(diffbcp):
    listed = diffbcp("list", "--json", hub="http://127.0.0.1:9")
    rows = {row["name"]: row for row in json.loads(listed.stdout)}
    assert list(rows) == ["natural", "bare", "pinned"]
    assert rows["bare"]["here"] == "no"
    assert rows["bare"]["noncommercial"] is True
    assert rows["pinned"]["revision"] == COMMIT
    table = diffbcp("list", hub="http://127.0.0.1:9", COLUMNS="120")
    assert "for research" in table.stdout
    info = diffbcp("info", "bare", hub="http://127.0.0.1:9")
    assert "lab/bare" in info.stdout
    missing = diffbcp("path", "bare", hub="http://127.0.0.1:9")
    assert missing.returncode == 4
    assert "diffbcp models pull bare" in missing.stderr
