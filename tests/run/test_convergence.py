"""Several chains, what they agree on, and running until they do."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import tifffile
import tiny
import torch
from conftest import SHORT, outputs
from sampling import Listener, config, damaged

from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import MemoryLimitError
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.methods import cp_step, diffbcp
from diffbcp_cli.methods.base import Info
from diffbcp_cli.operators.mask import masked_problem
from diffbcp_cli.problem import Trace
from diffbcp_cli.random import Seeds
from diffbcp_cli.run.convergence import convergence
from diffbcp_cli.run.loop import Chains
from diffbcp_cli.run.posterior import Posterior


def test_chains_are_independent_and_pooled():
    pixels, observed = damaged()
    two = restore(pixels, observed, config(chains=2), prior=None)
    one = restore(pixels, observed, config(), prior=None)
    assert two.numbers["draws"] == 2 * one.numbers["draws"]
    assert two.traces[0] == one.traces[0]
    assert two.traces[1].noise_std != one.traces[0].noise_std
    draws = np.concatenate([one.samples, two.samples[len(one.samples) :]])
    np.testing.assert_array_equal(two.samples, draws)


def test_five_iterations_are_not_called_converged():
    pixels, observed = damaged()
    short = restore(pixels, observed, config(iterations=5, burn_in=2), prior=None)
    assert not short.numbers["diagnostics"]["converged"]
    assert "too few" in short.warnings[0]
    half = restore(pixels, observed, config(iterations=5, burn_in=0), prior=None)
    assert not half.numbers["diagnostics"]["converged"]
    assert "not converged" in half.warnings[0]


def test_a_long_run_of_a_simple_picture_converges():
    pixels, observed = damaged()
    found = restore(pixels, observed, config(iterations=300, burn_in=150), prior=None)
    assert found.numbers["diagnostics"]["converged"]
    assert found.warnings == ()
    assert found.numbers["diagnostics"]["rhat"]["noise_std"] < 1.2
    assert found.maps["rhat"].shape == (32, 40)


def test_until_converged_goes_on_and_stops_when_the_chains_agree():
    pixels, observed = damaged()
    cfg = config(iterations=30, burn_in=25, until_converged=True, max_iterations=400)
    found = restore(pixels, observed, cfg, prior=None)
    assert found.numbers["diagnostics"]["converged"]
    assert 30 < len(found.trace.rank) < 400
    capped = restore(
        pixels, observed, config(iterations=8, until_converged=True, max_iterations=10), prior=None
    )
    assert len(capped.trace.rank) == 10
    assert not capped.numbers["diagnostics"]["converged"]


def test_the_maps_and_the_warning_reach_the_user(photo, mask, tmp_path, capsys):
    options = [option for option in SHORT if option != "--quiet"]
    out = tmp_path / "out"
    arguments = ["inpaint", str(photo), "--mask", str(mask), "-o", str(out), *options]
    assert run([*arguments, "--burn-in", "1", "--chains", "2", "--save", "convergence"]) == 0
    assert {"photo.rhat.png", "photo.rhat.tiff", "photo.ess.png", "photo.ess.tiff"} <= outputs(out)
    assert tifffile.imread(out / "photo.rhat.tiff").shape == (32, 32)
    record = json.loads((out / "photo.json").read_text())
    assert record["diagnostics"]["chains"] == 2
    assert record["diagnostics"]["converged"] is False
    assert len(record["traces"]) == 2
    assert "converged" in capsys.readouterr().err


@pytest.mark.parametrize("budget", [0.5, 1e6])
def test_a_time_budget_chooses_iterations_and_the_record_repeats_the_run(budget):
    pixels, observed = damaged()
    cfg = config(iterations=400, burn_in=160, time_budget=budget, save=("mean",))
    found = restore(pixels, observed, cfg, prior=None)
    assert found.options.time_budget is None
    assert found.options.iterations == len(found.trace.rank) <= 400
    assert found.options.burn_in == round(0.4 * found.options.iterations)
    if budget > 1e5:
        assert found.options.iterations == 400
    else:
        assert 5 <= found.options.iterations < 400
    np.testing.assert_array_equal(restore(pixels, observed, found.options, prior=None).mean, found.mean)


class SmallGpu(cp_step.LowRank):
    """A low-rank step on a device that has no room for large batches."""

    room = 2**60

    def step(self, state, pull, index, *, rng):
        result = super().step(state, pull, index, rng=rng)
        if self.settings.budget > self.room:
            raise torch.OutOfMemoryError
        return result


def chains_of(room, watch):
    pixels, observed = damaged()
    seeds, problem = Seeds(0, ""), masked_problem(pixels, observed)
    method = diffbcp.build(problem, None, config(), seeds, watch)
    kind = type("Small", (SmallGpu,), {"room": room})
    small = replace(method, image_step=kind(method.image_step.observation, method.image_step.settings))
    return Chains(small, seeds, 1, 2, range(0), torch.device("cpu"), watch)


def test_out_of_memory_halves_the_batches_and_changes_no_draw():
    tight, roomy = chains_of(2**25, crowded := Listener()), chains_of(2**60, calm := Listener())
    for one, other in zip(tight.steps(4), roomy.steps(4), strict=True):
        torch.testing.assert_close(one.image, other.image, rtol=0, atol=1e-6)
    assert crowded.notes
    assert all("out of memory" in note for note in crowded.notes)
    assert calm.notes == []
    with pytest.raises(MemoryLimitError):
        list(chains_of(0, Listener()).steps(1))


def posterior_with(images, burn_in=0):
    found = Posterior(burn_in, traces=[Trace() for _ in images], probes=[[] for _ in images])
    for chain, steps in enumerate(images):
        for image in steps:
            found.add(chain, Info(image, None), keep=False)
    return found


def test_projections_see_a_slow_move_that_no_pixel_and_no_mean_shows():
    """Each pixel drifts by half of its own spread: up in the left half of the picture, down in the right one."""
    noise = torch.randn(1, 60, 1, 64, 64, generator=tiny.rng(0))
    way = torch.ones(64, 64)
    way[:, 32:] = -1
    drift = torch.linspace(-0.25, 0.25, 60)[:, None, None, None] * way
    for images, moves in ((noise, False), (noise + drift, True)):
        judged = convergence(posterior_with(images))
        assert judged.converged
        assert judged.rhat["brightness"] < 1.15
        assert (judged.rhat["projections"] > 1.5) == moves
        assert (judged.ess["projections"] < 10) == moves
    assert {"projections", "brightness", "contrast"} == judged.as_dict()["ess_tail"].keys()


def test_ranks_see_chains_of_different_spread():
    noise = torch.randn(2, 60, 1, 16, 16, generator=tiny.rng(2))
    wider = torch.stack([noise[0], 6 * noise[1]])
    assert convergence(posterior_with(noise)).pixels_converged > 0.95
    assert convergence(posterior_with(wider)).pixels_converged < 0.05
