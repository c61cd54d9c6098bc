"""Settings and plans that cannot be trained with are refused."""

from __future__ import annotations

import pytest

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import UsageError
from diffbcp_cli.training import Plan


def test_the_share_of_masked_crops_is_a_share(folder, tmp_path, capsys):
    assert run(["train", str(folder), "-o", str(tmp_path / "out"), "--mask-share", "1.5"]) == 2
    assert "--mask-share" in capsys.readouterr().err


@pytest.mark.parametrize("bad", [{}, {"steps": 3, "minutes": 1.0}, {"steps": 0}, {"minutes": -1.0}])
def test_a_plan_is_steps_or_minutes(bad):
    with pytest.raises(UsageError):
        Plan(**bad)
