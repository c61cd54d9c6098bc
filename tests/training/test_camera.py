"""Camera noise: what a crop goes through, and a network that learns to take it away and to say how wrong it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from training_data import SMALL, go

from diffbcp_cli import random, training
from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import UsageError
from diffbcp_cli.priors.networks.natural import NaturalConfig
from diffbcp_cli.priors.precondition import Blind
from diffbcp_cli.training import Plan
from diffbcp_cli.training.camera import BORDER, as_told, camera_level, draw_camera
from diffbcp_cli.training.train import blind_loss

BLIND = replace(SMALL, network=replace(SMALL.network, blind=True))


def ramp(side=64, *, grey=False):
    """A smooth picture (3, side, side) on [-1, 1]."""
    y, x = torch.meshgrid(torch.linspace(-0.6, 0.6, side), torch.linspace(-0.6, 0.6, side), indexing="ij")
    return (x + y)[None].expand(3, -1, -1) / 2 if grey else torch.stack([x, y, (x - y) / 2])


def pairs(count, **kind):
    rng = random.generator(0)
    made = [draw_camera(ramp(**kind), rng=rng) for _ in range(count)]
    return (torch.stack(side) for side in zip(*made, strict=True))


def test_crops_come_in_every_strength_and_some_are_clean():
    clean, noisy = pairs(200)
    assert clean.shape == noisy.shape == (200, 3, 64 - BORDER, 64 - BORDER)
    level = camera_level(clean, noisy) / 2
    assert int((level < 0.003).sum()) >= 5  # rounding to 8 bits alone
    assert int((level > 0.06).sum()) >= 10
    assert float(level.max()) < 0.3
    assert bool(noisy.isfinite().all())


def test_much_of_the_noise_is_correlated_and_some_is_not():
    clean, noisy = pairs(200)
    noise = noisy - clean
    strong = camera_level(clean, noisy) > 0.04
    noise = noise[strong] - noise[strong].mean((2, 3), keepdim=True)
    near = (noise[..., 1:] * noise[..., :-1]).mean((1, 2, 3)) / noise.square().mean((1, 2, 3))
    assert float((near > 0.3).float().mean()) > 0.3
    assert float((near < 0.1).float().mean()) > 0.05


def test_grey_stays_grey():
    clean, noisy = pairs(30, grey=True)
    for picture in (clean, noisy):
        assert torch.allclose(picture, picture[:, :1].expand(-1, 3, -1, -1), atol=1e-6)


def test_half_of_the_levels_are_not_told():
    level = torch.full((4000,), 0.1)
    told = as_told(level, Blind.UNKNOWN, rng=random.generator(0))
    unknown = told == Blind.UNKNOWN
    assert float(unknown.float().mean()) == pytest.approx(0.5, abs=0.03)
    assert float((told[~unknown] / 0.1).log().std()) == pytest.approx(0.25, abs=0.02)


def test_the_variance_learns_the_size_of_the_errors_and_does_not_shrink_them():
    """Noise of one level and a network that cannot move: the likelihood is best at the mean squared error."""

    class Fixed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.log_var = torch.nn.Parameter(torch.zeros(()))

        def forward(self, x, noise):
            return torch.cat([torch.zeros_like(x), self.log_var.expand_as(x)], 1)

    network, rng = Fixed(), random.generator(0)
    clean = 0.3 * random.normal((4, 3, 32, 32), rng=rng)
    noisy = clean + 0.1 * random.normal_like(clean, rng=rng)
    batch = training.data.Batch(
        clean, noisy, torch.full((4,), 0.1), clean > -9, torch.zeros(4, dtype=torch.bool)
    )
    denoiser, optimizer = Blind(network), torch.optim.Adam(network.parameters(), lr=0.05)
    for _ in range(200):
        optimizer.zero_grad()
        blind_loss(denoiser, batch).backward()
        optimizer.step()
    error = (denoiser(noisy, batch.sigma) - clean).square().mean().detach()
    left = denoiser.spread(noisy, batch.sigma).square().mean().detach()
    assert float(left) == pytest.approx(float(error), rel=0.05)


def test_it_learns_to_take_camera_noise_away(folder, tmp_path):
    fast = replace(BLIND, learning_rate=1e-2, batch_size=8, ema=0.9)
    photos, state = training.load_photos(folder, fast), training.fresh_state(fast)
    batches = [training.draw_batch(photos.train, fast, rng=random.generator(seed)) for seed in range(8)]

    def error():
        denoiser = Blind(state.average)
        with torch.no_grad():
            found = [denoiser(batch.noisy, batch.sigma) - batch.clean for batch in batches]
        return float(torch.cat(found).square().mean())

    before = error()
    infos = go(state, photos, Plan(steps=300), tmp_path / "out", fast)
    assert error() < 0.85 * before
    assert {training.CAMERA, f"{training.CAMERA}, before"} == set(state.validations[-1][1])
    assert all(np.isfinite(info.loss) for info in infos)


def test_a_resumed_run_equals_one_that_was_not_interrupted(folder, tmp_path):
    photos = training.load_photos(folder, BLIND)
    whole = training.fresh_state(BLIND)
    go(whole, photos, Plan(steps=6), tmp_path / "whole", BLIND)
    state = training.fresh_state(BLIND)
    for info in training.train(state, photos, BLIND, Plan(steps=6), tmp_path / "cut", save_every=0):
        if info.step == 3:
            break
    again = training.resume_point(tmp_path / "cut", BLIND, photos, Plan(steps=6))
    go(again, photos, Plan(steps=6), tmp_path / "cut", BLIND)
    for one, other in zip(whole.network.parameters(), again.network.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_network_begins_as_the_one_that_it_grew_from(folder):
    plain = training.fresh_state(SMALL).network
    with torch.no_grad():
        plain.leave.weight.normal_()
    blind = training.fresh_state(BLIND, plain.state_dict()).network
    x, noise = torch.rand(2, 3, 16, 16), torch.zeros(2)
    assert torch.allclose(blind(x, noise)[:, :3], plain(x, noise), atol=1e-5)


def test_the_command_trains_it_and_the_folder_is_a_prior(folder, tmp_path):
    for name in range(3):
        size = 96 + name
        pixels = np.random.default_rng(name).integers(0, 255, (size, size, 3), np.uint8)
        training.data.Image.fromarray(pixels).save(folder / f"large{name}.png")
    out = tmp_path / "camera"
    given = ["--noise", "camera", "--steps", "1", "--batch-size", "1", "--crop", "64"]
    assert run(["train", str(folder), "-o", str(out), *given]) == 0
    from diffbcp_cli import load_prior

    prior = load_prior(str(out), device="cpu")
    assert prior.traits.any_noise
    x = torch.rand(1, 1, 30, 20)
    assert prior.denoise(x, Blind.UNKNOWN).shape == x.shape
    assert bool((prior.spread(x, Blind.UNKNOWN) > 0).all())
    assert "camera" in (out / "README.md").read_text()


def test_what_does_not_go_together_is_refused():
    with pytest.raises(UsageError, match="unknown noise"):
        training.network_for("pink")
    with pytest.raises(ValueError, match="takes no mask"):
        NaturalConfig(blind=True, takes_mask=True)
