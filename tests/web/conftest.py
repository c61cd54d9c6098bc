"""A server for each test."""

from __future__ import annotations

import pytest
from web_server import Served


@pytest.fixture
def served(tmp_path):
    one = Served(tmp_path / "restored")
    yield one
    one.close()
