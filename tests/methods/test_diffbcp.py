"""The low-rank step: chunks of a large photograph, atoms learned from some patches, a bound on the noise."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
import tiny
import torch
from sampling import sampler, steps

from diffbcp_cli.lowrank.cp import Hyper
from diffbcp_cli.lowrank.likelihood import NoisePrior, observe
from diffbcp_cli.lowrank.stream import observe_in_chunks, observe_some
from diffbcp_cli.lowrank.tensorize import Patches
from diffbcp_cli.methods.cp_step import Settings, learn_atoms
from diffbcp_cli.priors.gaussian import GaussianPrior

SIZE = (3, 45, 38)
SHAPE = Patches(*SIZE, patch=8, stride=4)
RANK = 7


def test_a_chain_in_chunks_is_the_chain_of_the_whole():
    image, mask = tiny.photograph(SIZE)
    settings = Settings(rank=RANK, block=3, burn_in=4, warm_up=2, adapt_floor=1.0)
    prior = GaussianPrior(torch.zeros(1), torch.ones(1))
    whole = sampler(observe(image, mask, SHAPE), prior, settings, calls=1)
    chunks = observe_in_chunks(image, mask, SHAPE, budget=1)  # a chunk per row of patches
    parts = sampler(chunks, prior, replace(settings, budget=1000), calls=1)
    pairs = zip(steps(whole, rng=tiny.rng()), steps(parts, rng=tiny.rng()), strict=True)
    for (_, one), (_, two) in islice(pairs, 4):
        torch.testing.assert_close(two.image, one.image, rtol=1e-2, atol=1e-2)
        assert (two.rank, two.step) == (one.rank, one.step)
        assert two.noise_std == pytest.approx(one.noise_std, rel=1e-2)


def test_atoms_learned_from_some_patches_give_the_chain_a_start():
    """The first draw on all patches is nearer to the photograph with learned atoms than without."""
    image, mask = tiny.photograph((3, 96, 96), share=0.3)
    shape = Patches(3, 96, 96, patch=8, stride=4)
    whole, settings = observe(image, mask, shape), Settings(rank=20, block=10)
    some = observe_some(image, mask, shape, 100, rng=tiny.rng(1))
    atoms = learn_atoms(some, settings, sweeps=20, rng=tiny.rng(2))

    def error(atoms):
        _, draw = next(steps(sampler(whole, settings=settings, atoms=atoms), rng=tiny.rng()))
        return float((draw.image - image).square().mean().sqrt())

    assert error(atoms) < 0.8 * error(None)


def test_a_chain_from_learned_atoms_has_a_row_for_every_patch():
    image, mask = tiny.photograph(SIZE)
    some, settings = observe_some(image, mask, SHAPE, 9, rng=tiny.rng(3)), Settings(rank=RANK, noise_std=0.1)
    atoms = learn_atoms(some, settings, sweeps=2, rng=tiny.rng())
    state = sampler(observe(image, mask, SHAPE), settings=settings, atoms=atoms).init(rng=tiny.rng()).model
    assert state.right[0].shape == (SHAPE.right[0], RANK)
    assert state.noise_precision == pytest.approx(100.0)
    assert all(torch.equal(a, b) for a, b in zip(state.left, atoms.left, strict=True))


def test_the_noise_stays_below_its_limit():
    image, mask = tiny.photograph(SIZE)
    noisy = image + torch.randn(SIZE, generator=tiny.rng(8))
    for limit, expected in ((0.3, 0.3), (50.0, None)):
        hyper = Hyper(noise=NoisePrior(least=limit**-2))
        method = sampler(observe(noisy, mask, SHAPE), settings=Settings(rank=2, hyper=hyper))
        found = [draw.noise_std for _, draw in islice(steps(method, rng=tiny.rng()), 3)][-1]
        assert 0.95 * expected < found < expected if expected else found > 0.5
