"""Several chains at once: the draws of each alone, in fewer calls of the network."""

from __future__ import annotations

import on_gpu
import pytest
import torch
from pretend import KINDS, Gpu

from diffbcp_cli import tree
from diffbcp_cli.methods import state_classes
from diffbcp_cli.priors.base import Traits
from diffbcp_cli.run.loop import SNAPSHOT_CLASSES
from diffbcp_cli.run.together import Together

CLOSE = {"rtol": 0, "atol": 1e-4}
every_kind = pytest.mark.parametrize("kind", KINDS)


class Halving:
    """A prior that notes how many images it gets at once."""

    def __init__(self):
        self.traits, self.batches = Traits(), []

    def denoise(self, x, sigma):
        self.batches.append((len(x), torch.as_tensor(sigma).flatten().tolist()))
        return x / 2


def test_what_several_ask_is_asked_as_one():
    inner = Halving()
    prior = Together(inner)

    def walk(start, steps):
        x = torch.full((1, 1, 4, 4), float(start))
        for step in range(steps):
            x = prior.denoise(x, 0.5 + step) + 1
        return float(x.mean())

    alone = [walk(k, k + 1) for k in range(3)]
    assert inner.batches == [(1, [0.5 + step]) for k in range(3) for step in range(k + 1)]
    inner.batches.clear()
    assert prior.all_of([lambda k=k: walk(k, k + 1) for k in range(3)]) == alone
    assert inner.batches == [(3, [0.5] * 3), (2, [1.5] * 2), (1, [2.5])]


def test_images_of_several_sizes_are_asked_size_by_size():
    inner = Halving()
    prior = Together(inner)
    sizes = [(4, 6), (6, 4), (4, 6)]
    found = prior.all_of([lambda s=s: prior.denoise(torch.ones(2, 1, *s), 1.0) for s in sizes])
    assert [tuple(one.shape[2:]) for one in found] == sizes
    assert [count for count, _ in inner.batches] == [4, 2]


@pytest.mark.parametrize("where", ["chain", "prior"])
def test_an_error_of_one_ends_all(where):
    inner = Halving()
    prior = Together(inner)
    if where == "prior":
        inner.denoise = lambda x, sigma: 1 / 0
    done = []

    def one(k):
        for _ in range(5):
            prior.denoise(torch.ones(1, 1, 2, 2), 1.0)
            if where == "chain" and k == 1:
                raise ZeroDivisionError
        done.append(k)

    with pytest.raises(ZeroDivisionError):
        prior.all_of([lambda k=k: one(k) for k in range(3)])
    assert not done
    inner.denoise = lambda x, sigma: x
    assert prior.all_of([lambda: 1, lambda: 2]) == [1, 2]  # and the next round is a new one


def test_an_interruption_leaves_every_chain_where_it_was():
    inner, asked = Halving(), []

    def interrupt(x, sigma):
        asked.append(len(x))
        if len(asked) == 2:
            raise KeyboardInterrupt
        return x / 2

    prior = Together(inner)
    some = on_gpu.chains("cpu", method="pnp-dm", prior=prior, count=2)
    some.together = prior.all_of
    inner.denoise = interrupt
    with pytest.raises(KeyboardInterrupt):
        list(some.steps(3))
    assert some.states() == []
    assert [trace.steps for trace in some.posterior.traces] == [0, 0]
    inner.denoise = lambda x, sigma: x / 2
    assert len(list(some.steps(3))) == 6


def chains(kind, method, *, together=True, count=3):
    prior = Together(on_gpu.tiny_prior(kind))
    made = on_gpu.chains(kind, method=method, prior=prior, count=count, side=24)
    made.together = prior.all_of if together else None
    return made


@every_kind
@pytest.mark.parametrize("method", ["langevin", "diffbcp", "pnp-dm"])
def test_chains_at_once_draw_what_they_draw_alone(kind, method):
    images, calls = [], []
    for together in (False, True):
        with Gpu(kind) as gpu:
            some = chains(kind, method, together=together)
            gpu.reset()
            list(some.steps(4))
            images.append([state.u if method == "langevin" else state.image for state in some.states()])
            images[-1] = [image.cpu() for image in images[-1]]
            calls.append(sum(n for name, n in gpu.types.items() if name.startswith("convolution")))
    for one, other in zip(*images, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)
    assert calls[1] <= calls[0] / 2  # a third, but for pictures in different quarter turns


@every_kind
def test_chains_at_once_go_on_from_a_checkpoint_to_the_same_bits(kind):
    classes = (*SNAPSHOT_CLASSES, *state_classes("langevin"))
    with Gpu(kind):
        whole, first, second = (chains(kind, "langevin", count=2) for _ in range(3))
        list(whole.steps(5))
        for _, _ in zip(range(5), first.steps(5), strict=False):  # in the middle of a round
            tensors, plain = tree.pack(first.snapshot(planned={}, seconds=0.0))
        second.resume(tree.unpack(plain, tensors, classes=classes, device=torch.device(kind)))
        list(second.steps(5))
        assert torch.equal(whole.posterior.image.mean.cpu(), second.posterior.image.mean.cpu())
