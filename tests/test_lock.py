"""Two runs on one output folder: the second refuses or waits, parts live together, the dead lock nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from diffbcp_cli.errors import UsageError
from diffbcp_cli.photos.lock import FOLDER_LOCK, part_of_folder, whole_folder


def test_a_folder_has_one_owner_and_leaves_no_file(tmp_path):
    with whole_folder(tmp_path):
        with pytest.raises(UsageError, match="another run") as refusal, whole_folder(tmp_path):
            pass
        with pytest.raises(UsageError, match="another run"), part_of_folder(tmp_path, "a"):
            pass
    assert "--wait" in (refusal.value.hint or "")
    with whole_folder(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_parts_live_together_but_not_with_the_whole_or_with_themselves(tmp_path):
    with part_of_folder(tmp_path, "a"):
        with part_of_folder(tmp_path, "b"):
            with pytest.raises(UsageError), whole_folder(tmp_path):
                pass
            with pytest.raises(UsageError), part_of_folder(tmp_path, "a"):
                pass
        with pytest.raises(UsageError), whole_folder(tmp_path):  # the end of one part frees not the other
            pass
    assert not list(tmp_path.iterdir())


HOLD = """
import sys, time
from pathlib import Path
from diffbcp_cli.photos.lock import whole_folder
with whole_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_names_its_process_and_a_killed_one_locks_nothing(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UsageError, match=f"process {holder.pid} on"), whole_folder(tmp_path):
            pass
    finally:
        holder.kill()
        holder.communicate()
    assert (tmp_path / FOLDER_LOCK).exists()
    with whole_folder(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


def test_waiting_ends_when_the_owner_does(tmp_path):
    owners: list[str] = []
    held, done = threading.Event(), threading.Event()

    def first() -> None:
        with whole_folder(tmp_path):
            held.set()
            time.sleep(0.5)
            done.set()

    thread = threading.Thread(target=first)
    thread.start()
    held.wait(10)
    with whole_folder(tmp_path, waiting=owners.append):
        assert done.is_set()
    thread.join()
    assert len(owners) == 1


def test_a_lock_that_is_a_link_is_not_written_through(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("precious")
    out = tmp_path / "out"
    out.mkdir()
    (out / FOLDER_LOCK).symlink_to(victim)
    from diffbcp_cli.errors import OutputError

    with pytest.raises(OutputError), whole_folder(out):
        pass
    assert Path(victim).read_text() == "precious"
