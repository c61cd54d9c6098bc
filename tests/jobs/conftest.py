"""A folder of photographs."""

from __future__ import annotations

from pathlib import Path

import pytest
from photo_files import save


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for number, name in enumerate(("a.png", "b.png", "sub/a.png", "sub/deep/c.webp")):
        save(folder / name, number)
    return folder
