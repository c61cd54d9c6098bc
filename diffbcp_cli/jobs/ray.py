"""Work on a Ray cluster: each photograph is a task, and one whose machine is lost is done again elsewhere.

All machines must have diffbcp and see the photographs, the masks and the output folder under the same paths.
Whoever can reach a Ray cluster can run code on it. One of our own therefore listens on this machine only, and asks
for a token that is new for each run.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from ..errors import DiffbcpError, UsageError
from ..options import Options
from ..watch import Progress
from .job import Job
from .one import report_photo
from .pool import Stopping, Tell, Telling, Told
from .report import Report, failed
from .session import Session

RETRIES = 2  # of a photograph whose machine or process was lost
_LOOK = 0.2  # seconds between looks at the stop flag
_LOOPBACK_ONLY = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"
}  # Ray's word for "no other machine", on any system
_TOKEN_MODE, _TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"


def run_cluster(
    jobs: Sequence[Job],
    session: Session,
    *,
    address: str | None,
    at_once: int,
    tell: Tell,
    stopping: Stopping,
) -> Iterator[Report]:
    """Restore the photographs on the cluster at `address`, or on one of this machine's own.

    at_once: tasks that are handed over at a time, 0 for all.
    """
    with connected(address, at_once, session.usual) as ray:
        yield from _tasks(ray, jobs, session, at_once or len(jobs), tell, stopping)


@contextmanager
def connected(address: str | None, at_once: int, cfg: Options) -> Iterator[Any]:
    """Ray, connected to the cluster; one that is connected stays so, which keeps a cluster for several runs."""
    if address is None and not _is_connected():
        _keep_to_ourselves()  # before Ray is imported
    ray = _ray()
    started = _connect(ray, address, at_once, cfg)
    try:
        yield ray
    finally:
        if started:
            ray.shutdown()


def _is_connected() -> bool:
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _tasks(
    ray: Any, jobs: Sequence[Job], session: Session, at_once: int, tell: Tell, stopping: Stopping
) -> Iterator[Report]:
    """Hand the photographs over and collect the reports."""
    stop_file = jobs[0].target.folder / f".diffbcp.{secrets.token_hex(4)}.stop"
    try:
        restore = ray.remote(**_needs(ray, session.usual))(restore_on_worker)
        waiting, running = deque(jobs), dict[Any, Job]()
        while waiting or running:
            if stopping() and not stop_file.exists():
                waiting.clear()
                stop_file.parent.mkdir(parents=True, exist_ok=True)
                stop_file.touch()
            while waiting and len(running) < at_once:
                job = waiting.popleft()
                running[restore.remote(job, session, str(Path.cwd()), stop_file)] = job
            ready, _ = ray.wait(list(running), timeout=_LOOK) if running else ([], [])
            for reference in ready:
                report = _result(ray, reference, running.pop(reference))
                tell(Told(report.name, Progress("sampling", 0, session.usual.iterations)))
                yield report
    finally:
        stop_file.unlink(missing_ok=True)


def _keep_to_ourselves() -> None:
    """Let no other machine in, and no one without the token. Ray reads this until the process ends."""
    os.environ |= {**_LOOPBACK_ONLY, _TOKEN_MODE: "token", _TOKEN: secrets.token_hex(32)}


_kept: list[Session] = []  # of this process: the next photograph finds the prior loaded


def restore_on_worker(job: Job, session: Session, folder: str, stop_file: Path) -> Report:
    """One task, on whatever machine: from the driver's folder, with a prior that the process keeps."""
    os.chdir(folder)
    if _kept != [session]:
        _kept[:] = [session]
    _ = _kept[0].prior
    return report_photo(job, _kept[0], Telling(job.name, lambda told: None, stop_file.exists))


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UsageError("--engine ray needs Ray", hint="pip install 'diffbcp[ray]'") from error
    return ray


def _connect(ray: Any, address: str | None, at_once: int, cfg: Options) -> bool:
    """Connect unless that has been done; return whether to disconnect at the end."""
    if ray.is_initialized():
        return False
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address is None:
        options |= {"include_dashboard": False}
        if at_once:
            options["num_cpus"] = at_once * max(1, cfg.threads)
    try:
        with _signals_kept():
            ray.init(address=address or "local", **options)
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
        raise UsageError(
            f"there is no Ray cluster at {address or 'this machine'}: {reason}", hint="ray start --head"
        ) from error
    if address is None and not _listens_here_only(ray):
        ray.shutdown()
        raise UsageError(
            "Ray would listen to the network, where anyone could run code on it",
            hint="do not import ray before, or start a cluster of your own: ray start --head",
        )
    return True


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Ray answers SIGTERM with a stack trace and an abort; our own answer is to stop in good order."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                signal.signal(number, handler)


def _listens_here_only(ray: Any) -> bool:
    host = str(ray.get_runtime_context().gcs_address).rpartition(":")[0].strip("[]")
    return ip_address(host).is_loopback


def _needs(ray: Any, cfg: Options) -> dict[str, Any]:
    """What a task asks of its machine."""
    gpus = ray.cluster_resources().get("GPU", 0) > 0 and cfg.device not in ("cpu", "mps")
    return {"num_cpus": max(1, cfg.threads), "num_gpus": int(gpus), "max_retries": RETRIES}


def _result(ray: Any, reference: Any, job: Job) -> Report:
    try:
        report = ray.get(reference)
    except ray.exceptions.RayTaskError as error:  # the prior could not be loaded there
        return failed(job, error.cause if isinstance(error.cause, Exception) else error)
    except ray.exceptions.RayError as error:
        reason = str(error).strip().split("\n")[0]
        return failed(job, DiffbcpError(f"its Ray worker was lost {RETRIES + 1} times: {reason}"))
    assert isinstance(report, Report)
    return report
