"""One rule for the images in a folder, whichever command looks for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from photo_files import save

from diffbcp_cli.photos.folders import images_in


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for name in ("b.PNG", "a.png", "sub/c.webp", ".hidden.png", ".cache/d.png", "a.mean.png", "a.mask.png"):
        save(folder / name)
    (folder / "notes.txt").write_text("no picture")
    (folder / "folder.png").mkdir()
    (folder / "loop").symlink_to(folder)
    (folder / "gone.png").symlink_to(tmp_path / "nowhere.png")
    return folder


def names(folder: Path, **options) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in images_in(folder, **options)]


def test_hidden_files_links_to_folders_and_results_are_left_out(folder):
    assert names(folder, results=False) == ["a.png", "b.PNG", "gone.png", "sub/c.webp"]


def test_results_are_found_if_they_are_asked_for(folder):
    assert set(names(folder, results=True)) - set(names(folder, results=False)) == {
        "a.mean.png",
        "a.mask.png",
    }


def test_files_and_folders_are_left_out_under_whatever_name(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder / "sub")
    apart = [tmp_path / "link", Path(os.path.relpath(folder / "a.png"))]
    assert names(folder, results=False, apart_from=apart) == ["b.PNG", "gone.png"]


def test_the_suffixes_may_be_fewer(folder):
    assert names(folder, results=False, suffixes=(".webp",)) == ["sub/c.webp"]


def test_a_folder_that_cannot_be_read_is_told(tmp_path):
    problems: list[OSError] = []
    assert images_in(tmp_path / "absent", results=True, on_error=problems.append) == []
    assert len(problems) == 1
