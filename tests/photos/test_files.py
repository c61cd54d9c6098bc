"""A file is written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from diffbcp_cli.errors import OutputError, UsageError
from diffbcp_cli.photos import files


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "a.png"
    path.write_bytes(b"old")
    return path


def only(path: Path) -> bool:
    return list(path.parent.iterdir()) == [path]


def test_a_write_replaces_the_file(old: Path) -> None:
    assert files.write_bytes(old, b"new") == old
    assert old.read_bytes() == b"new"
    assert only(old)


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit, MemoryError])
def test_a_failure_half_way_leaves_the_old_file(old: Path, failure: type[BaseException]) -> None:
    def half() -> None:
        with files.replacing(old) as temporary:
            temporary.write_bytes(b"half a fi")
            raise failure

    with pytest.raises(failure):
        half()
    assert old.read_bytes() == b"old"
    assert only(old)


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(old: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if step == "fsync" else (Path, "replace")), full)
    with pytest.raises(OutputError) as caught:
        files.write_bytes(old, b"new")
    assert caught.value.message == f"cannot write {old}: no space left on device"
    assert "free some space" in str(caught.value.hint)
    assert old.read_bytes() == b"old"
    assert only(old)


def test_the_content_is_on_disk_before_the_rename(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order = []
    fsync, replace = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), fsync(fd)))
    monkeypatch.setattr(Path, "replace", lambda a, b: (order.append("replace"), replace(a, b)))
    files.write_bytes(old, b"new")
    assert order == ["fsync", "replace"]


def test_places_that_cannot_be_written(tmp_path: Path, old: Path) -> None:
    with pytest.raises(OutputError, match="no such file"):
        files.write_bytes(tmp_path / "none" / "a.png", b"x")
    with pytest.raises(OutputError, match="not a directory"):
        files.write_bytes(old / "a.png", b"x")
    with pytest.raises(OutputError, match="it is a folder"):
        files.write_bytes(tmp_path, b"x")
    with pytest.raises(OutputError, match="not a regular file"):
        files.write_bytes(Path("/dev/null"), b"x")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
    with pytest.raises(OutputError, match="too long"):
        files.write_bytes(tmp_path / ("a" * 300 + ".png"), b"x")
    assert only(old)


def test_a_link_is_written_through(tmp_path: Path, old: Path) -> None:
    link = tmp_path / "link.png"
    link.symlink_to(old)
    files.write_bytes(link, b"new")
    assert link.is_symlink()
    assert old.read_bytes() == b"new"


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write_bytes(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


def test_output_folders_are_made_or_refused(tmp_path: Path, old: Path) -> None:
    made = files.ensure_writable(tmp_path / "x" / "y")
    assert list(made.iterdir()) == []
    for bad in (old, old / "out", Path("/proc/diffbcp-out")):
        with pytest.raises(UsageError) as caught:
            files.ensure_writable(bad)
        assert str(bad) in caught.value.message
        assert caught.value.exit_code == 2


def test_read_only_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "touch", read_only)
    with pytest.raises(UsageError, match="read-only file system"):
        files.ensure_writable(tmp_path)
