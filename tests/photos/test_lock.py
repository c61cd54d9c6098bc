"""Two runs on one photograph: the second is refused or waits, and a dead one locks nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from diffbcp_cli.errors import OutputError
from diffbcp_cli.photos.lock import BusyError, lock_of, results_of


def test_a_photograph_has_one_owner_and_the_lock_leaves_no_file(tmp_path):
    with results_of(tmp_path, "a"):
        with pytest.raises(BusyError, match="another run") as refusal, results_of(tmp_path, "a"):
            pass
        with results_of(tmp_path, "b"):  # another photograph in the same folder
            pass
    assert "--wait" in (refusal.value.hint or "")
    assert refusal.value.exit_code == 2
    with results_of(tmp_path, "a"):
        pass
    assert not list(tmp_path.iterdir())


HOLD = """
import sys, time
from pathlib import Path
from diffbcp_cli.photos.lock import results_of
with results_of(Path(sys.argv[1]), "a"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_names_its_process_and_a_killed_one_locks_nothing(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BusyError, match=f"process {holder.pid} on"), results_of(tmp_path, "a"):
            pass
    finally:
        holder.kill()
        holder.communicate()
    assert lock_of(tmp_path, "a").exists()
    with results_of(tmp_path, "a"):
        pass
    assert not list(tmp_path.iterdir())


def held_for(folder: Path, seconds: float) -> tuple[threading.Thread, threading.Event]:
    """Another owner, who lets go after a while."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with results_of(folder, "a"):
            held.set()
            time.sleep(seconds)
            done.set()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(10)
    return thread, done


def test_waiting_ends_when_the_owner_does(tmp_path):
    owners: list[str] = []
    thread, done = held_for(tmp_path, 0.5)
    with results_of(tmp_path, "a", waiting=owners.append):
        assert done.is_set()
    thread.join()
    assert len(owners) == 1


def test_waiting_ends_when_the_user_asks_for_it(tmp_path):
    asked = iter([False, True])
    thread, _ = held_for(tmp_path, 2.0)
    with (
        pytest.raises(KeyboardInterrupt),
        results_of(tmp_path, "a", waiting=lambda owner: None, stop=lambda: next(asked)),
    ):
        pass
    thread.join()


def test_a_lock_that_is_a_link_is_not_written_through(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    lock_of(out, "a").symlink_to(victim)
    with pytest.raises(OutputError), results_of(out, "a"):
        pass
    assert victim.read_text() == "precious"


def test_many_processes_take_turns(tmp_path):
    """The file is removed while the lock is held, so nobody may end up with a lock on a file that is gone."""
    code = """
import sys, os
from pathlib import Path
from diffbcp_cli.photos import lock
lock._LOOK = 0.001
folder = Path(sys.argv[1])
for _ in range(60):
    with lock.results_of(folder, "a", waiting=lambda owner: None):
        os.close(os.open(folder / "inside", os.O_CREAT | os.O_EXCL))
        os.unlink(folder / "inside")
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    started = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in started:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    assert not list(tmp_path.iterdir())
