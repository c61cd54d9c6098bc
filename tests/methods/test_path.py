"""A method that goes one way: the last step of each chain counts, and one chain has no spread."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sampling import Listener, config, damaged

from diffbcp_cli import random
from diffbcp_cli.errors import UsageError
from diffbcp_cli.jobs import whole
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.methods.base import Info


@dataclass(frozen=True)
class Walk:
    """A path of five steps: each adds one tenth of the way to the data, and a little noise."""

    problem: object
    kind: str = "path"
    length: int = 5

    def init(self, *, rng):
        return torch.zeros_like(self.problem.y)

    def step(self, state, *, rng):
        image = state + 0.1 * (self.problem.y - state) + 0.01 * random.normal_like(state, rng=rng)
        return image, Info(image, None)

    def planned(self, *, burn_in):
        return self

    def without_warm_up(self):
        return self

    def with_less_memory(self):
        return None


@pytest.fixture(autouse=True)
def walking(monkeypatch):
    monkeypatch.setattr(whole, "builder", lambda name: lambda problem, *rest: Walk(problem))


def test_one_path_gives_its_last_step_and_no_std():
    pixels, observed = damaged()
    watch = Listener()
    found = restore(pixels, observed, config(), prior=None, watch=watch)
    assert found.trace.steps == found.options.iterations == 5
    assert found.numbers["draws"] == 1
    assert found.std is None
    assert found.noise is None
    assert found.warnings == ()
    assert "no std" in watch.notes[-1]


def test_several_paths_have_a_spread():
    pixels, observed = damaged()
    found = restore(pixels, observed, config(chains=4), prior=None)
    assert found.numbers["draws"] == len(found.samples) == 4
    np.testing.assert_allclose(found.std, found.samples.std(0, ddof=1), atol=1e-5)


def test_a_path_resumes_to_the_same_bits():
    pixels, observed = damaged()
    whole_run, saved = restore(pixels, observed, config(), prior=None), []
    restore(
        pixels,
        observed,
        config(),
        prior=None,
        watch=Listener(stop_after=2),
        resume=Resume(save=saved.append),
    )
    again = restore(pixels, observed, config(), prior=None, resume=Resume(saved[-1]))
    np.testing.assert_array_equal(again.mean, whole_run.mean)


def test_paths_go_through_windows():
    pixels, observed = damaged(40, 100)
    found = restore(pixels, observed, config(window=64), prior=None)
    assert found.std is None
    assert np.isfinite(found.mean).all()


def test_a_path_is_not_calibrated():
    pixels, observed = damaged()
    with pytest.raises(UsageError, match="--calibrate"):
        restore(pixels, observed, config(calibrate=True), prior=None)
