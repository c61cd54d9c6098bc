"""DeepTensor: the network's shapes, grey products, fits, what is held out, and noise that is left behind."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sampling import Listener, damaged

from diffbcp_cli import random
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.methods.deep_tensor import DeepTensor, build
from diffbcp_cli.methods.skip_net import SkipNet, scales_for
from diffbcp_cli.operators.mask import Mask
from diffbcp_cli.options import Options, check
from diffbcp_cli.problem import Problem
from diffbcp_cli.random import Seeds
from diffbcp_cli.watch import Watch


def held_out_of(target, every=50):
    held_out = torch.zeros(target.shape, dtype=torch.bool)
    held_out.view(-1)[::every] = True
    return held_out


def method_of(target, *, rank=4, channels=16, scales=3, **more):
    held_out = held_out_of(target)
    return DeepTensor(
        target, ~held_out, held_out, SkipNet(rank, rank, channels, scales), **{"length": 400, **more}
    )


def run(method, count, seed=0):
    rng = random.generator(seed)
    state = method.init(rng=rng)
    for _ in range(count):
        state, info = method.step(state, rng=rng)
    return state, info


@pytest.mark.parametrize(("height", "width"), [(2, 2), (16, 16), (17, 30), (33, 18)])
def test_the_network_takes_any_size_and_needs_every_parameter(height, width):
    net = SkipNet(3, 5, 6, scales_for(height, width))
    parameters = net.parameters(rng=random.generator(0))
    with torch.enable_grad():
        leaves = tuple(one.requires_grad_() for one in parameters)
        x = net(torch.rand(3, height, width, generator=random.generator(1)), leaves)
        gradients = torch.autograd.grad(x.square().sum(), leaves, allow_unused=True)
    assert x.shape == (5, height, width)
    assert all(gradient is not None for gradient in gradients)


def test_there_are_no_more_scales_than_room():
    assert [scales_for(side, 300) for side in (1, 2, 3, 4, 16, 64, 256)] == [0, 0, 0, 1, 3, 5, 5]


def test_of_rank_1_with_equal_weights_it_is_grey():
    target = torch.rand(3, 16, 16, generator=random.generator(0))
    method = method_of(target, rank=1)
    _, *rest = method.init(rng=random.generator(0)).fit.parameters
    image = method.picture((torch.ones(3, 1), *rest), torch.zeros(1, 16, 16))
    assert float(image.std()) > 0
    torch.testing.assert_close(image[0], image[1])
    torch.testing.assert_close(image[0], image[2])


def smooth(side, waves=3):
    """(1, n, n), of rank waves + 1, within [0, 1]."""
    t = torch.linspace(0, 1, side)
    products = [
        torch.outer((k * math.pi * t).cos(), (k * math.pi * t + k).sin()) for k in range(1, waves + 1)
    ]
    return (0.5 + sum(products) / (2 * waves**0.5))[None]


def test_a_whole_picture_without_noise_is_fitted():
    target = smooth(16).expand(3, -1, -1) * torch.tensor([1.0, 0.7, 0.4])[:, None, None]
    state, _ = run(method_of(target, scales=1), 1100)
    assert float((state.best - target).square().mean()) < 1e-4


def test_it_leaves_more_noise_behind_than_a_truncated_svd():
    truth = smooth(64, waves=9)
    noisy = truth + 0.2 * random.normal_like(truth, rng=random.generator(3))
    state, _ = run(method_of(noisy, rank=10), 320)
    u, s, vh = torch.linalg.svd(noisy[0])
    svd = (u[:, :10] * s[:10]) @ vh[:10]
    assert float((state.best - truth).square().mean()) < float((svd - truth).square().mean())


def test_the_best_mean_is_what_is_shown_and_waited_for():
    target = smooth(16)
    method = method_of(target, patience=5)
    state, info = run(method, 30)
    torch.testing.assert_close(info.image, 2 * state.best - 1)
    found = (state.best - target)[held_out_of(target)].square().mean().sqrt()
    assert float(found) == pytest.approx(state.error, rel=1e-5)
    stuck = method_of(target, patience=0)
    after, _ = stuck.step(state, rng=random.generator(0))
    assert after is state


def test_what_is_held_out_is_known_and_not_fitted():
    _, observed = damaged(16, 16)
    known = torch.from_numpy(observed).permute(2, 0, 1)
    problem = Problem(torch.zeros(known.shape), Mask(known))
    cfg = Options(method="deep-tensor", prior="none", iterations=5, burn_in=4)
    methods = [build(problem, None, cfg, Seeds(seed, "a"), Watch()) for seed in (0, 0, 1)]
    one, same, other = methods
    assert torch.equal(one.held_out, same.held_out)
    assert not torch.equal(one.held_out, other.held_out)
    assert torch.equal(one.held_out | one.shown, known)
    assert not (one.held_out & one.shown).any()
    assert int(one.held_out.sum()) == math.ceil(0.02 * int(known.sum()))


def test_a_run_resumes_to_the_same_bits_and_states_no_std():
    pixels, observed = damaged(24, 17)
    given = check({"method": "deep-tensor", "device": "cpu", "iterations": 12, "deep_channels": 4})
    saved = []
    whole = restore(pixels, observed, given, prior=None)
    stop, keep = Listener(stop_after=5), Resume(save=saved.append)
    restore(pixels, observed, given, prior=None, watch=stop, resume=keep)
    again = restore(pixels, observed, given, prior=None, resume=Resume(saved[-1]))
    np.testing.assert_array_equal(again.mean, whole.mean)
    assert whole.std is None
