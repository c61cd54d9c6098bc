"""Plug-and-play refinement: the fixed point of the denoiser, at a level that hold-out pixels choose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import picture
from matplotlib.cbook import get_sample_data
from PIL import Image
from smooth import config, draw, smooth_prior

from diffbcp_cli.estimators.plug_and_play import (
    RELAXATION,
    _near,
    choose_level,
    choose_stack,
    fewest_calls,
    refine,
    refine_by,
)
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.priors.base import Traits
from diffbcp_cli.priors.gaussian import GaussianPrior


class Masked(GaussianPrior):
    """The exact prior that also takes a mask; it has no use for a guess."""

    traits = Traits(takes_mask=True)

    def fill(self, x, known, sigma):
        covariance = (self.basis * self.var.flatten()) @ self.basis.T
        filled = [
            self._one(image.flatten(), where.flatten(), covariance, sigma)
            for image, where in zip(x, known, strict=True)
        ]
        return torch.stack(filled).reshape(x.shape)

    @staticmethod
    def _one(image, where, covariance, sigma):
        noisy = covariance[where][:, where] + sigma**2 * torch.eye(int(where.sum()), dtype=image.dtype)
        return covariance[:, where] @ torch.linalg.solve(noisy, image[where])


@pytest.fixture
def problem():
    rng = torch.Generator().manual_seed(0)
    prior = smooth_prior()
    truth = draw(prior, rng)
    values = truth + 0.1 * torch.randn(truth.shape, generator=rng).double()
    known = torch.rand(truth.shape, generator=rng) < 0.5
    return prior, truth, values, known


def test_the_finish_ends_at_a_picture_that_the_prior_would_not_change(problem):
    prior, _, values, known = problem
    done = refine(prior, values, known, torch.zeros_like(values), 0.1, calls=400)
    again = prior.denoise(torch.where(known, values, done)[None], 0.1)[0]
    torch.testing.assert_close(again, done, atol=1e-4, rtol=0)


def test_where_it_ends_does_not_depend_on_where_it_starts(problem):
    prior, truth, values, known = problem
    ends = [refine(prior, values, known, start, 0.1, calls=400) for start in (truth, torch.ones_like(truth))]
    torch.testing.assert_close(*ends, atol=1e-3, rtol=0)


def test_no_calls_leave_known_values_and_the_start(problem):
    prior, truth, values, known = problem
    done = refine(prior, values, known, truth, 0.1, calls=0)
    torch.testing.assert_close(done, torch.where(known, values, truth))


@pytest.mark.parametrize("true_noise", [0.05, 0.1, 0.2])
def test_the_level_is_near_the_noise_though_the_guess_is_too_high(true_noise):
    rng = torch.Generator().manual_seed(1)
    prior = smooth_prior(24)
    truth = draw(prior, rng)
    values = truth + true_noise * torch.randn(truth.shape, generator=rng).double()
    known = torch.rand(truth.shape, generator=rng) < 0.7
    held = known & (torch.rand(truth.shape, generator=rng) < 0.3)
    choice = choose_level(prior, values, known, held, torch.zeros_like(truth), 4 * true_noise, calls=12)
    assert 0.35 * true_noise < choice.level < 2 * true_noise
    assert choice.calls > 4


def test_with_too_few_held_out_pixels_the_inferred_noise_is_taken(problem):
    prior, truth, values, known = problem
    choice = choose_level(prior, values, known, torch.zeros_like(known), truth, 0.3, calls=7)
    assert (choice.level, choice.calls) == (0.3, 7)


def test_the_calls_stop_before_a_prior_that_is_no_contraction_leads_away(problem):
    """A prior that overshoots, u -> u + 1.6 (D - u), diverges when over-relaxed; held-out pixels notice."""
    prior, truth, values, known = problem

    class Overshooting(GaussianPrior):
        def denoise(self, x, sigma):
            return x + 1.6 * (super().denoise(x, sigma) - x)

    wild = Overshooting(prior.mean, prior.var, basis=prior.basis)
    assert RELAXATION * 1.6 > 2
    held = known & (torch.rand(known.shape, generator=torch.Generator().manual_seed(2)) < 0.3)
    choice = choose_level(wild, values, known, held, torch.zeros_like(truth), 0.2, calls=30)
    assert choice.calls < 15

    def error(calls):
        done = refine(wild, values, known & ~held, torch.zeros_like(truth), choice.level, calls=calls)
        return (done - truth)[held].square().mean()

    assert error(choice.calls) < 0.2 * error(30)


@pytest.mark.parametrize(("gain", "calls"), [(0.001, 1), (0.2, 3)])
def test_calls_that_held_out_pixels_cannot_tell_apart_are_saved(gain, calls):
    """The third of four numbers of calls is the best one; whether the first will do depends on how much better."""
    rng = torch.Generator().manual_seed(3)
    shared, own = torch.rand(500, generator=rng), 0.2 * torch.rand(4, 500, generator=rng)
    own = own - own.mean(1, keepdim=True)
    errors = shared + own + gain * torch.tensor([2, 1, 0, 1])[:, None]
    assert errors.mean(1).argmin() == 2
    assert fewest_calls(errors) == calls


def test_errors_that_are_no_numbers_take_one_call():
    assert fewest_calls(torch.full((4, 30), torch.nan)) == 1


@pytest.mark.parametrize(("turned", "shapes"), [(True, [(6, 8), (8, 6)]), (False, [(6, 8)])])
def test_each_step_shows_the_next_quarter_turn_to_a_network_that_knows_them(turned, shapes):
    """D leans to the right; over four steps that cancels if the picture is turned, and adds up if it is not."""
    seen = []

    class Leaning(GaussianPrior):
        def denoise(self, x, sigma):
            seen.append(tuple(x.shape[-2:]))
            return x + torch.linspace(-1, 1, x.shape[-1]).expand_as(x)

    prior = Leaning(torch.zeros(()), torch.ones(()))
    if turned:
        prior.traits = Traits(rotations=4)
    values, known = torch.zeros(1, 6, 8), torch.zeros(1, 6, 8, dtype=torch.bool)
    known[0, 0, 0] = True
    done = refine(prior, values, known, values, 0.1, calls=5)
    first = refine(prior, values, known, values, 0.1, calls=1)
    assert sorted(set(seen)) == shapes
    off = (done - first)[~known].abs().max()
    assert off < 1e-5 if turned else off > 1


def test_where_nothing_is_missing_one_call_is_all():
    calls = []

    class Counting(GaussianPrior):
        def denoise(self, x, sigma):
            calls.append(sigma)
            return super().denoise(x, sigma)

    prior, values = Counting(torch.zeros(()), torch.tensor(0.25)), torch.rand(3, 8, 8)
    everything = torch.ones(3, 8, 8, dtype=torch.bool)
    done = refine(prior, values, everything, values, 0.1, calls=16)
    assert calls == [0.1]
    torch.testing.assert_close(done, prior.denoise(values[None], 0.1)[0])


@pytest.mark.parametrize(("calls", "cancels"), [(16, True), (4, True), (1, False)])
def test_where_nothing_is_missing_the_answers_in_four_turns_are_averaged(calls, cancels):
    class Leaning(GaussianPrior):
        def denoise(self, x, sigma):
            return x + torch.linspace(-1, 1, x.shape[-1]).expand_as(x)

    prior, values = Leaning(torch.zeros(()), torch.ones(())), torch.rand(3, 6, 8)
    prior.traits = Traits(rotations=4)
    done = refine(prior, values, torch.ones(3, 6, 8, dtype=torch.bool), values, 0.1, calls=calls)
    assert torch.allclose(done, values, atol=1e-6) == cancels


def test_a_restoration_is_refined_unless_told_not_to():
    pixels = picture(32, 32).astype(np.float32)
    observed = np.random.default_rng(1).random(pixels.shape) < 0.6
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.25))
    plain = restore(pixels, observed, config(finish=0), prior=prior)
    done = restore(pixels, observed, config(finish=3), prior=prior)
    assert plain.numbers["finish_level"] is None
    assert done.numbers["finish_level"] is not None
    assert not np.array_equal(plain.mean, done.mean)
    without = restore(pixels, observed, config(prior="none"), prior=None)
    assert without.numbers["finish_level"] is None


def test_the_bundled_prior_refines_a_denoised_photograph_well():
    from diffbcp_cli import load_prior
    from diffbcp_cli.scoring.metrics import psnr

    with get_sample_data("grace_hopper.jpg") as file:
        truth = np.asarray(Image.open(file).convert("RGB"), np.float32)[100:196, 180:276] / 255
    noisy = (truth + 0.05 * np.random.default_rng(0).standard_normal(truth.shape)).astype(np.float32)
    observed = np.ones(truth.shape, bool)
    prior = load_prior("natural")
    plain = restore(noisy, observed, config(finish=0), prior=prior)
    done = restore(noisy, observed, config(finish=4), prior=prior)
    assert psnr(done.mean.clip(0, 1), truth) > psnr(plain.mean.clip(0, 1), truth) + 2


def test_pixels_held_out_for_the_calibration_are_known_to_the_picture():
    """With a prior that changes nothing, the refined picture has the measured values of all known pixels."""

    class Idle(GaussianPrior):
        def denoise(self, x, sigma):
            return x

    pixels = picture(32, 32).astype(np.float32)
    observed = np.random.default_rng(1).random(pixels.shape) < 0.6
    prior = Idle(torch.zeros(()), torch.tensor(0.25))
    done = restore(pixels, observed, config(calibrate=True), prior=prior)
    assert done.numbers["calibration"] is not None
    np.testing.assert_allclose(done.mean[observed], pixels[observed], atol=1e-6)


def test_a_prior_that_takes_a_mask_gives_the_posterior_mean_at_one_call(problem):
    """The refinement only comes near it; hold-out pixels notice, and the stack is as good."""
    prior, truth, values, known = problem
    masked = Masked(prior.mean, prior.var, basis=prior.basis)
    held = known & (torch.rand(known.shape, generator=torch.Generator().manual_seed(2)) < 0.3)
    start = torch.zeros_like(truth)
    choice = choose_level(masked, values, known, held, start, 0.4, calls=2)
    choice = choose_stack(choice, masked, values, known, held, start, 0.1, scattered=True)
    assert len(choice.weights) == 3
    assert sum(choice.weights) == pytest.approx(1)
    assert choice.weights[0] < 0.4
    exact = masked.fill(values[None], known[None], 0.1)[0]
    alone = refine(masked, values, known, start, choice.level, calls=choice.calls)
    together = refine_by(choice, masked, values, known, start)
    error, exact_error, alone_error = ((x - truth).square().mean() for x in (together, exact, alone))
    assert error < alone_error
    assert error < 1.2 * exact_error


def test_there_are_no_more_calls_than_the_average_with_the_fills_needs(problem):
    """Alone the finish goes on getting better; beside exact fills that hardly shows."""
    prior, truth, values, known = problem
    masked = Masked(prior.mean, prior.var, basis=prior.basis)
    held = known & (torch.rand(known.shape, generator=torch.Generator().manual_seed(2)) < 0.3)
    start = torch.zeros_like(truth)
    first = replace(choose_level(masked, values, known, held, start, 0.4, calls=16), calls=16)
    choice = choose_stack(first, masked, values, known, held, start, 0.1, scattered=True)
    assert choice.calls < first.calls

    def error(calls):
        by = replace(choice, calls=calls)
        return (refine_by(by, masked, values, known & ~held, start) - values)[held].square().mean()

    assert error(choice.calls) < 1.01 * error(first.calls)
    too_few = torch.zeros_like(held)
    assert choose_stack(first, masked, values, known, too_few, start, 0.1, scattered=True).calls == 16


def test_a_wide_hole_is_left_to_the_fill():
    """Near known pixels the start counts, in the middle of a wide hole it does not."""
    known = torch.ones(1, 3, 80, 90, dtype=torch.bool)
    assert torch.equal(_near(known), torch.ones(1, 3, 80, 90))
    known[..., 10:70, 10:80] = False
    near = _near(known)
    assert near[0, 0, 40, 45] == 0
    assert near[0, 0, 11, 45] > 0.8
    assert near[0, 0, :41, 45].diff().max() <= 0
    scattered = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(0)) < 0.1
    assert _near(scattered).min() > 0.99
