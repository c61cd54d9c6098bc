"""Adam as a pure function: the same numbers as torch's, inside no_grad, with nothing changed that it was given."""

from __future__ import annotations

import torch

from diffbcp_cli import random
from diffbcp_cli.methods import adam

RATE, DECAY = 0.05, 0.1


def loss(parameters):
    a, b = parameters
    image = a @ b
    return (image - 1).square().mean(), image


def start():
    rng = random.generator(0)
    return [random.normal((6, 2), rng=rng), random.normal((2, 5), rng=rng)]


@torch.no_grad()
def test_the_updates_are_those_of_torch():
    fit = adam.begin(start())
    theirs = [one.clone().requires_grad_() for one in start()]
    optimizer = torch.optim.Adam(theirs, lr=RATE, weight_decay=DECAY)
    for _ in range(20):
        value, image, gradients = adam.descend(loss, fit.parameters)
        assert not value.requires_grad
        assert not image.requires_grad
        fit = adam.update(fit, gradients, rate=RATE, weight_decay=DECAY)
        with torch.enable_grad():
            optimizer.zero_grad()
            loss(theirs)[0].backward()
            optimizer.step()
    for mine, other in zip(fit.parameters, theirs, strict=True):
        torch.testing.assert_close(mine, other.detach(), rtol=1e-5, atol=1e-6)


def test_an_update_leaves_its_inputs_alone():
    fit = adam.begin(start())
    held = [*fit.parameters, *fit.first, *fit.second]
    before = [one.clone() for one in held]
    _, _, gradients = adam.descend(loss, fit.parameters)
    after = adam.update(fit, gradients, rate=RATE)
    assert after.updates == 1
    assert all(torch.equal(one, other) for one, other in zip(held, before, strict=True))
    assert not any(one.requires_grad for one in (*held, *after.parameters))
