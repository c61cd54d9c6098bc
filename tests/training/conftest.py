"""A folder of small photographs to train on."""

from __future__ import annotations

import pytest
from training_data import make_photos


@pytest.fixture
def folder(tmp_path):
    make_photos(tmp_path)
    return tmp_path
