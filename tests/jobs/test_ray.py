"""A Ray cluster of two nodes, one of which is lost during the run: the same bytes as on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from PIL import Image

from diffbcp_cli.cli.app import run
from diffbcp_cli.jobs.plan import Request, make_plan
from diffbcp_cli.jobs.pool import run_here
from diffbcp_cli.jobs.session import Session
from diffbcp_cli.options import Options

CFG = Options(prior="none", iterations=60, burn_in=20, rank=12, threads=1)
IMAGES = 8


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(IMAGES):
        pixels = np.random.default_rng(number).integers(0, 256, (32, 32, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A cluster of a head without work and two nodes of one core each."""
    if not os.environ.get("CI"):
        pytest.importorskip("ray", reason="Ray is not installed: pip install 'diffbcp[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_worker_niceness", "0")  # at its usual 15 a busy machine starves the workers
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        yield made
    finally:
        ray.shutdown()
        made.shutdown()


def pictures(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".png", ".tiff")}


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")
def test_a_lost_node_changes_nothing_in_the_results(photos, tmp_path, cluster):
    from diffbcp_cli.jobs.ray import run_cluster

    cluster.add_node(num_cpus=1)
    doomed = cluster.add_node(num_cpus=1)
    here = tmp_path / "here"
    jobs = make_plan(Request((str(photos),), here)).jobs
    assert all(
        r.status == "done" for r in run_here(jobs, Session(CFG), tell=lambda s: None, stopping=lambda: False)
    )
    there = tmp_path / "there"
    there.mkdir()
    jobs = make_plan(Request((str(photos),), there)).jobs
    reports = []
    for report in run_cluster(
        jobs, Session(CFG), address=cluster.address, at_once=0, tell=lambda s: None, stopping=lambda: False
    ):
        reports.append(report)
        if len(reports) == 1:
            cluster.remove_node(doomed, allow_graceful=False)
    assert sorted((r.name, r.status, r.error) for r in reports) == [
        (f"{n}.png", "done", None) for n in range(IMAGES)
    ]
    assert pictures(there) == pictures(here)
    assert not [path for path in there.iterdir() if path.name.startswith(".")]


STRANGER = """
import sys, ray
try:
    ray.init(address=sys.argv[1], logging_level="error", log_to_driver=False)
    print("let in", ray.get(ray.remote(lambda: 42).remote(), timeout=20))
except Exception as error:
    print("refused", type(error).__name__)
"""


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks for sockets in /proc")
def test_a_cluster_of_our_own_listens_here_only_and_refuses_strangers(photos, tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'diffbcp[ray]'")
    command = [sys.executable, "-m", "diffbcp_cli", "denoise", str(photos), "-o", str(tmp_path / "out")]
    command += [
        "--prior",
        "none",
        "--engine",
        "ray",
        "-j",
        "1",
        "--iterations",
        "100000",
        "--rank",
        "4",
        "--quiet",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        main = psutil.Process(process.pid)
        end, address = time.monotonic() + 90, None
        while address is None or not list((tmp_path / "out").glob(".*.lock")):  # until it computes
            assert time.monotonic() < end
            assert process.poll() is None, process.communicate()
            for one in main.children(recursive=True):
                with suppress(psutil.Error):
                    address = next((a for a in one.cmdline() if a.startswith("--gcs-address=")), address)
            time.sleep(0.3)
        hosts = set()
        for one in [main, *main.children(recursive=True)]:
            with suppress(psutil.Error):
                hosts |= {c.laddr.ip for c in one.net_connections("inet") if c.status == "LISTEN"}
        assert hosts
        assert {host.removeprefix("::ffff:") for host in hosts} <= {"127.0.0.1", "::1"}
        stranger = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        stranger |= {"HOME": str(tmp_path), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # stay on loopback
        said = subprocess.run(
            [sys.executable, "-c", STRANGER, address.partition("=")[2]],
            env=stranger,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "let in" not in said.stdout
        assert "refused" in said.stdout, said
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=90)
    assert process.returncode == 130


@pytest.mark.slow
@pytest.mark.ray
def test_a_comparison_on_ray_has_one_cluster_and_the_results_of_this_machine(photos, tmp_path):
    """A second cluster in one process would not start."""
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'diffbcp[ray]'")
    for path in sorted(photos.iterdir())[2:]:
        path.unlink()
    for engine in ("local", "ray"):
        damage = ["--recipe", "paper-stripe", "--noise", "0.02", "--methods", "telea,navier-stokes"]
        words = ["compare", str(photos), *damage, "-o", str(tmp_path / engine), "--engine", engine]
        subprocess.run([sys.executable, "-m", "diffbcp_cli", *words, "--quiet", "-j", "1"], check=True)
    for method in ("telea", "navier-stokes"):
        here, there = (tmp_path / e / "runs" / "paper-stripe" / method for e in ("local", "ray"))
        assert len(pictures(here)) == 2
        assert pictures(there) == pictures(here)


def test_without_ray_the_engine_says_what_to_install(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "out"
    assert run(["denoise", str(photos), "-o", str(out), "--prior", "none", "--engine", "ray", "--quiet"]) == 2
    assert "diffbcp[ray]" in capsys.readouterr().err
