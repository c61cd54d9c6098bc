"""On a real GPU, if there is one: `pytest -m gpu`. The cases of test_gpu.py, and what only a real device can say.

Means of the posterior agree with the processor's within Monte Carlo error, and inside a sweep or a call of the prior
the host waits for nothing. How these tests judge is itself tested on a pretended device.
"""

from __future__ import annotations

import on_gpu
import pytest
import torch
from on_gpu import CASES

from diffbcp_cli import apple, random
from diffbcp_cli.methods import cp_step

KIND = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else None
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(KIND is None, reason="there is no GPU here")]


@pytest.mark.parametrize("case", CASES)
def test_every_case_runs(case, monkeypatch):
    monkeypatch.setattr(cp_step, "IN_CHUNKS", CASES[case].get("chunks", cp_step.IN_CHUNKS))
    found = on_gpu.run(KIND, CASES[case])
    assert torch.from_numpy(found.mean).isfinite().all()


@pytest.mark.parametrize("method", ["bcp-gibbs", "langevin", "pnp-dm"])
def test_the_posterior_mean_is_that_of_the_processor(method):
    assert on_gpu.disagreement(KIND, method) < on_gpu.MOST_DISAGREEMENT


@pytest.mark.skipif(KIND != "cuda", reason="only CUDA can tell")
@pytest.mark.parametrize("work", on_gpu.QUIET)
def test_nothing_waits_inside(work):
    run = on_gpu.QUIET[work]("cuda")
    run()  # compiles kernels, fills caches
    torch.cuda.set_sync_debug_mode("error")
    try:
        run()
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_the_chain_goes_on_to_the_same_bits():
    def begin():
        return on_gpu.chains(KIND, method="langevin", prior=on_gpu.tiny_prior(KIND))

    whole, first, second = begin(), begin(), begin()
    list(whole.steps(6))
    list(first.steps(3))
    second.resume(first.snapshot(planned={}, seconds=0.0))
    list(second.steps(6))
    assert torch.equal(whole.posterior.last, second.posterior.last)


def test_the_state_of_both_generators_is_kept():
    rng = random.generator(3, KIND)
    state = torch.stack([rng.get_state(), rng.get_state()])[1]  # a view with an offset
    first = random.normal((4,), rng=rng), random.uniform((4,), rng=rng)
    rng.set_state(state)
    assert torch.equal(first[0], random.normal((4,), rng=rng))
    assert torch.equal(first[1], random.uniform((4,), rng=rng))


@pytest.mark.skipif(KIND != "mps", reason="an Apple GPU")
def test_an_apple_gpu_lacks_nothing():
    assert apple.lacking() is None
