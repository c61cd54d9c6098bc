"""A Ray cluster of two nodes, one of which is lost during the run: the same bytes as on this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
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


def test_without_ray_the_engine_says_what_to_install(photos, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "out"
    assert run(["denoise", str(photos), "-o", str(out), "--prior", "none", "--engine", "ray", "--quiet"]) == 2
    assert "diffbcp[ray]" in capsys.readouterr().err
