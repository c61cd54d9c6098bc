"""The noise of cameras: what the network says becomes picture, std and level."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from diffbcp_cli import random
from diffbcp_cli.cli.app import run
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.methods.camera import build, clean
from diffbcp_cli.operators.mask import masked_problem
from diffbcp_cli.options import Options
from diffbcp_cli.priors.base import Traits
from diffbcp_cli.priors.precondition import Blind
from diffbcp_cli.random import Seeds
from diffbcp_cli.watch import Watch

STD, NOISE = 0.5, 0.2  # on [-1, 1]


class Exact:
    """The posterior mean and std where every pixel is N(0, STD^2), and the noise white."""

    traits = Traits(rotations=4, any_noise=True)

    def __init__(self):
        self.told = []

    def denoise(self, x, sigma):
        self.told.append(sigma)
        return STD**2 / (STD**2 + NOISE**2) * x

    def spread(self, x, sigma):
        return torch.full_like(x, STD * NOISE / (STD**2 + NOISE**2) ** 0.5)


class OneSided(Exact):
    """Takes a quarter of the picture to its right away."""

    def denoise(self, x, sigma):
        return x - 0.25 * torch.roll(x, -1, -1)


def drawn(side=64):
    rng = random.generator(0)
    truth = STD * random.normal((1, 3, side, side), rng=rng)
    return truth, truth + NOISE * random.normal_like(truth, rng=rng)


def test_the_level_counts_what_is_taken_away_and_what_is_left():
    truth, noisy = drawn()
    found = clean(Exact(), noisy, None)
    assert found.level == pytest.approx(NOISE, rel=0.03)
    taken = float((noisy - found.picture).square().mean().sqrt())
    assert taken < 0.5 * NOISE  # by itself it would be too little
    assert float((found.picture - truth).square().mean().sqrt()) == pytest.approx(
        float(found.std.mean()), rel=0.03
    )


def test_the_answers_in_all_quarter_turns_are_averaged():
    x = torch.zeros(1, 1, 5, 5)
    x[0, 0, 2, 2] = 1
    found = clean(OneSided(), x, None).picture[0, 0]
    assert [float(found[at]) for at in ((2, 1), (1, 2), (2, 3), (3, 2))] == [-0.0625] * 4


@pytest.mark.parametrize(("sigma", "told"), [(None, Blind.UNKNOWN), (0.05, 0.1)])
def test_the_network_is_told_a_level_that_is_given(sigma, told):
    prior, pixels = Exact(), np.full((16, 16, 3), 0.5, np.float32)
    problem = masked_problem(
        pixels, np.ones(pixels.shape, bool), noise_std=None if sigma is None else 2 * sigma, device="cpu"
    )
    method = build(problem, prior, Options(device="cpu"), Seeds(0, ""), Watch())
    method.step(method.init(rng=random.generator(0)), rng=random.generator(0))
    assert set(prior.told) == {told}


def test_the_std_of_the_network_is_that_of_the_restoration():
    _, noisy = drawn(32)
    pixels = (noisy[0].permute(1, 2, 0).numpy() + 1) / 2
    options = {"method": "camera", "observed": "posterior", "device": "cpu"}
    found = restore(pixels, np.ones(pixels.shape, bool), options, prior=Exact())
    assert found.std.mean() == pytest.approx(STD * NOISE / (STD**2 + NOISE**2) ** 0.5 / 2, rel=1e-4)
    assert found.noise["std"] == pytest.approx(NOISE / 2, rel=0.1)


def test_the_command_denoises_a_jpeg_and_says_how(tmp_path):
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:96, :96] / 96
    clean = np.stack([0.5 + 0.3 * np.sin(7 * x + c) * np.cos(5 * y) for c in range(3)], -1)
    levels = np.rint(255 * (clean + 0.03 * rng.standard_normal(clean.shape)).clip(0, 1)).astype(np.uint8)
    Image.fromarray(levels).save(tmp_path / "photo.jpg", quality=75)
    assert run(["denoise", str(tmp_path / "photo.jpg"), "-o", str(tmp_path / "photo.png"), "-q"]) == 0
    record = json.loads((tmp_path / "photo.json").read_text())
    assert record["noise_model"] == "correlated"
    assert record["jpeg_step"] == pytest.approx(7.6, abs=0.1)
    assert record["noise_prior"]["name"] == "camera"
    assert record["options"]["method"] == "diffbcp"
    before, after = (np.asarray(Image.open(tmp_path / name)) / 255 for name in ("photo.jpg", "photo.png"))
    assert np.square(after - clean).mean() < 0.3 * np.square(before - clean).mean()
    assert (tmp_path / "photo.std.tiff").exists()
