"""The chain as the caller sees it: draws as they are asked for, fixed by the seed, the prior only when it is due."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
import tiny
import torch
from sampling import Listener, sampler, steps

from diffbcp_cli.jobs.session import restore
from diffbcp_cli.lowrank import cp, cusp
from diffbcp_cli.lowrank.likelihood import observe
from diffbcp_cli.lowrank.tensorize import tensorize
from diffbcp_cli.methods.low_rank import Settings
from diffbcp_cli.methods.split_gibbs import Adaptive
from diffbcp_cli.options import Options
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.random import seed_of
from diffbcp_cli.run.loop import kept_steps

SIZE = (3, 17, 20)
SETTINGS = Settings(rank=4, block=2, burn_in=6, warm_up=3)
RULE, CALLS = Adaptive(strength=1.0, smallest=0.3, largest=0.3), 3


def sampler_of(observation, prior=None, settings=SETTINGS, rule=RULE):
    return sampler(observation, prior, settings, rule=rule, calls=CALLS)


class CountingPrior(GaussianPrior):
    """A Gaussian prior that remembers at which noise levels it was called."""

    def __init__(self, mean=0.0, var=0.3):
        super().__init__(torch.as_tensor(mean), torch.tensor(var))
        self.levels = []

    def denoise(self, x, sigma):
        self.levels.append(float(sigma))
        return super().denoise(x, sigma)


def photograph():
    """A smooth image on [-1, 1] of low rank."""
    down, across = torch.linspace(-1, 1, SIZE[1]), torch.linspace(0, 2, SIZE[2])
    colour = torch.tensor([1.0, 0.6, -0.4])
    return 0.7 * colour[:, None, None] * down[:, None] * torch.cos(across) + 0.1


@pytest.fixture(params=["patch", "reshape"])
def observation(request):
    mask = torch.rand(SIZE, generator=tiny.rng(1)) < 0.5
    noisy = photograph() + 0.02 * torch.randn(SIZE, generator=tiny.rng(2))
    return observe(noisy, mask, tensorize(SIZE, request.param, patch=8, stride=4), once=True)


def draws_of(observation, count, *, prior=None, settings=SETTINGS, rule=RULE, seed=0):
    found = steps(sampler_of(observation, prior, settings, rule), rng=tiny.rng(seed))
    return [draw for _, draw in islice(found, count)]


def same(one, two):
    return all(torch.equal(a.image, b.image) for a, b in zip(one, two, strict=True))


def test_run_gives_as_many_draws_as_it_is_asked_for(observation):
    draws = draws_of(observation, 5)
    assert [d.step for d in draws] == [0, 1, 2, 3, 4]
    assert all(d.image.shape == SIZE and torch.isfinite(d.image).all() for d in draws)
    assert all(not torch.equal(a.image, b.image) for a, b in pairwise(draws))


def test_nothing_is_computed_before_it_is_asked_for(observation):
    prior = CountingPrior()
    settings = replace(SETTINGS, warm_up=0)
    found = steps(sampler_of(observation, prior, settings), rng=tiny.rng())
    assert prior.levels == []
    list(islice(found, 3))
    assert len(prior.levels) == 2 * CALLS  # the first sweep has no image to start from


def test_the_seed_fixes_every_draw_and_the_global_generator_is_left_alone(observation):
    torch.manual_seed(1)
    one = draws_of(observation, 5, prior=CountingPrior())
    torch.manual_seed(2)
    before = torch.get_rng_state()
    two = draws_of(observation, 5, prior=CountingPrior())
    assert torch.equal(torch.get_rng_state(), before)
    assert same(one, two)
    assert all(torch.equal(a.prior_image, b.prior_image) for a, b in zip(one[3:], two[3:], strict=True))
    assert not same(one, draws_of(observation, 5, prior=CountingPrior(), seed=1))


def test_a_chain_goes_on_from_where_it_stands(observation):
    whole = draws_of(observation, 7, prior=CountingPrior())
    method, generator = sampler_of(observation, CountingPrior()), tiny.rng(0)
    chain, _ = list(islice(steps(method, rng=generator), 4))[-1]
    later = tiny.rng()
    later.set_state(generator.get_state())
    again = steps(sampler_of(observation, CountingPrior()), chain, rng=later)
    rest = [draw for _, draw in islice(again, 3)]
    assert [d.step for d in rest] == [4, 5, 6]
    assert same(rest, whole[4:])


def test_a_step_leaves_the_chain_before_it_alone(observation):
    method, generator = sampler_of(observation, CountingPrior()), tiny.rng(0)
    chain, _ = list(islice(steps(method, rng=generator), 4))[-1]
    held = tiny.tensors_of(chain, observation)
    before = [(t._version, t.clone()) for t in held]
    method.step(chain, rng=generator)
    assert all(t._version == v and torch.equal(t, c) for t, (v, c) in zip(held, before, strict=True))


def test_without_a_prior_there_is_no_prior_image(observation):
    draws = draws_of(observation, 5)
    assert all(d.prior_image is None and d.rho is None for d in draws)


def test_warm_up_makes_no_call_of_the_prior(observation):
    prior = CountingPrior()
    draws = draws_of(observation, SETTINGS.warm_up, prior=prior)
    assert prior.levels == []
    assert all(d.prior_image is None and d.rho is None for d in draws)
    assert same(draws, draws_of(observation, SETTINGS.warm_up))


def test_after_warm_up_each_step_calls_the_prior_from_rho_down(observation):
    prior = CountingPrior()
    draws = draws_of(observation, SETTINGS.warm_up + 2, prior=prior)
    assert [d.rho for d in draws] == [None] * 3 + [0.3] * 2
    assert len(prior.levels) == 2 * CALLS
    assert prior.levels[0] == prior.levels[CALLS] == 0.3
    assert prior.levels[:CALLS] == sorted(prior.levels[:CALLS], reverse=True)
    assert draws[-1].prior_image.shape == SIZE


def test_rho_follows_the_noise_of_the_step_before(observation):
    rule = Adaptive(strength=9.0, smallest=1e-3, largest=1e3)
    draws = draws_of(observation, 6, prior=CountingPrior(), rule=rule)
    for before, after in pairwise(draws[2:]):
        assert after.rho == pytest.approx(3 * before.noise_std)


def test_a_prior_that_knows_the_answer_helps(observation):
    """In the missing pixels, with hardly anything observed."""
    truth = photograph()
    mask = torch.rand(SIZE, generator=tiny.rng(1)) < 0.05
    sparse = observe(truth, mask, observation.shape, once=True)
    settings = replace(SETTINGS, rank=8, block=8)

    def error(prior):
        draws = draws_of(sparse, 40, prior=prior, settings=settings)[20:]
        image = torch.stack([d.image for d in draws]).mean(0)
        return float((image - truth)[~mask].square().mean())

    assert error(CountingPrior(truth, 1e-4)) < 0.3 * error(None)


@pytest.mark.parametrize("prior", [None, CountingPrior()])
def test_given_noise_stays_as_it_is(observation, prior):
    draws = draws_of(observation, 5, prior=prior, settings=replace(SETTINGS, noise_std=0.05))
    assert all(d.noise_std == pytest.approx(0.05) for d in draws)
    free = draws_of(observation, 5, prior=prior)
    assert len({d.noise_std for d in free}) == 5


def test_given_noise_is_used_from_the_first_sweep():
    mask = torch.ones(SIZE, dtype=torch.bool)
    observation = observe(photograph(), mask, tensorize(SIZE, "patch", patch=8, stride=4))
    method = sampler_of(observation, None, replace(SETTINGS, noise_std=0.01))
    assert method.init(rng=tiny.rng()).model.noise_precision == pytest.approx(1e4)


def test_the_change_is_the_rms_difference_of_images(observation):
    draws = draws_of(observation, 3)
    assert draws[0].change is None
    for before, after in pairwise(draws):
        expected = float((after.image - before.image).double().square().mean().sqrt())
        assert after.change == pytest.approx(expected, rel=1e-4)


def test_the_rank_is_adapted_during_burn_in_only(observation, monkeypatch):
    """Even when it is due at every step; a floor above all energies leaves one spike component."""
    adapted, real = [], cp.adapt

    def watched(state, *arguments, **options):
        adapted.append(state.rank)
        return real(state, *arguments, **options)

    monkeypatch.setattr(cusp, "adaptation_due", lambda step, *, rng: True)
    monkeypatch.setattr(cp, "adapt", watched)
    settings = replace(SETTINGS, rank=8, burn_in=10, adapt_floor=1e12)
    draws = draws_of(observation, 10, settings=settings)
    assert 0 < len(adapted) <= 10
    assert draws[0].rank == adapted[0] == 8
    assert draws[-1].rank < 8
    assert all(0 <= d.active_rank < d.rank for d in draws)
    adapted.clear()
    draws = draws_of(observation, 16, settings=replace(settings, burn_in=0))
    assert adapted == []
    assert {d.rank for d in draws} == {8}
    draws_of(observation, 16, settings=replace(settings, burn_in=6))
    assert 0 < len(adapted) <= 6


def test_without_adaptation_the_rank_stays(observation):
    draws = draws_of(observation, 12, settings=replace(SETTINGS, adapt_floor=None))
    assert {d.rank for d in draws} == {SETTINGS.rank}


def test_the_chain_finds_a_low_rank_image(observation):
    """Half the entries, 1 % noise: the mean of the draws is closer than the noise, and the noise is found."""
    draws = draws_of(observation, 80, settings=replace(SETTINGS, rank=6, block=6, warm_up=0))[40:]
    mean = torch.stack([d.image for d in draws]).mean(0)
    assert float((mean - photograph()).square().mean().sqrt()) < 0.02
    noise = sum(d.noise_std for d in draws) / len(draws)
    assert 0.01 < noise < 0.03


# --- restoration -----------------------------------------------------------------------------------------


def pixels_and_mask():
    pixels = (photograph().permute(1, 2, 0).numpy() + 1) / 2
    observed = np.random.default_rng(0).random(pixels.shape) < 0.5
    return pixels.astype(np.float32), observed


def config(**options):
    base = {
        "prior": "none",
        "iterations": 9,
        "burn_in": 4,
        "thin": 2,
        "rank": 3,
        "patch_size": 8,
        "stride": 4,
    }
    return Options(**{**base, "device": "cpu", **options})


@pytest.mark.parametrize("thin", [1, 2, 7])
def test_burn_in_is_left_out_and_samples_are_thinned(thin):
    pixels, observed = pixels_and_mask()
    cfg, watch = config(thin=thin, adapt_rank=False, save=("mean", "samples")), Listener()
    restored = restore(pixels, observed, cfg, prior=None, watch=watch)
    assert [(p.stage, p.done, p.total) for p in watch.heard] == [("sampling", k, 9) for k in range(10)]
    assert restored.numbers["draws"] == 5
    whole = config(thin=1, burn_in=0, adapt_rank=False, save=("mean", "samples"))
    every = restore(pixels, observed, whole, prior=None).samples
    kept = list(range(4, 9, thin))
    assert list(kept_steps(cfg)) == kept
    np.testing.assert_allclose(restored.samples, every[kept], atol=1e-6)
    np.testing.assert_allclose(restored.mean, every[4:].mean(0, dtype=float), atol=1e-6)
    np.testing.assert_allclose(restored.std, every[4:].std(0, ddof=1, dtype=float), atol=1e-6)
    assert restored.finished


def test_samples_are_kept_when_the_run_is_extended():
    pixels, observed = pixels_and_mask()
    cfg = config(thin=1, save=("mean", "samples"), until_converged=True, max_iterations=15)
    restored = restore(pixels, observed, cfg, prior=None)
    assert restored.trace.steps > cfg.iterations
    assert len(restored.samples) == restored.trace.steps - cfg.burn_in == restored.numbers["draws"]


def test_the_trace_has_every_step_in_units_of_the_file():
    pixels, observed = pixels_and_mask()
    cfg = config(burn_in=0, thin=1, save=("mean", "samples"))
    restored = restore(pixels, observed, cfg, prior=None)
    trace, draws = restored.trace, restored.samples.astype(float)
    changes = np.sqrt(np.square(np.diff(draws, axis=0)).mean((1, 2, 3)))
    assert trace.change == [None, *(pytest.approx(change, rel=1e-3) for change in changes)]
    assert trace.brightness == pytest.approx(draws.mean((1, 2, 3)))
    assert (len(trace.rank), len(trace.active_rank), trace.rho) == (9, 9, [None] * 9)
    restored = restore(pixels, observed, config(), prior=None)
    trace, noise = restored.trace, restored.noise
    assert noise["std"] == pytest.approx(np.mean(trace.noise_std[4:]))
    assert noise["lower"] < noise["std"] < noise["upper"]


@pytest.mark.parametrize("after", [2, 6])
def test_an_interrupted_run_gives_what_it_has(after):
    pixels, observed = pixels_and_mask()
    restored = restore(pixels, observed, config(), prior=None, watch=Listener(stop_after=after))
    assert not restored.finished
    assert len(restored.trace.rank) == after + 1
    assert restored.numbers["draws"] == max(1, after + 1 - 4)
    assert np.isfinite(restored.mean).all()


def test_an_interruption_before_the_first_draw_is_passed_on():
    pixels, observed = pixels_and_mask()

    class Impatient(GaussianPrior):
        def denoise(self, x, sigma):
            raise KeyboardInterrupt

    prior = Impatient(torch.zeros(()), torch.tensor(0.3))
    with pytest.raises(KeyboardInterrupt):
        restore(pixels, observed, config(method="diffbcp", time_budget=1.0), prior=prior)


def test_the_prior_mean_is_over_draws_after_burn_in():
    pixels, observed = pixels_and_mask()
    restored = restore(pixels, observed, config(save=("prior",)), prior=CountingPrior())
    assert restored.maps["prior"].shape == pixels.shape
    assert restored.trace.rho[-1] is not None


def test_the_name_and_the_seed_fix_an_image_of_a_batch():
    assert seed_of(0, "a/b.png") == seed_of(0, "a/b.png")
    assert len({seed_of(s, n) for s in (0, 1) for n in ("a.png", "b.png", "a/b.png")}) == 6
    assert all(0 <= seed_of(s, "x") < 2**63 for s in range(200))
    pixels, observed = pixels_and_mask()
    one, two, other = (
        restore(pixels, observed, config(), prior=None, name=name).mean
        for name in ("a.png", "a.png", "b.png")
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


def test_a_noise_level_given_on_the_files_scale_doubles_inside():
    pixels, observed = pixels_and_mask()
    restored = restore(pixels, observed, config(sigma=0.03), prior=None)
    assert restored.trace.noise_std == pytest.approx([0.03] * 9)


def test_missing_pixels_may_hold_anything():
    pixels, observed = pixels_and_mask()
    holes = np.where(observed, pixels, np.float32(np.nan))
    one, two = (restore(p, observed, config(), prior=None).mean for p in (pixels, holes))
    assert np.array_equal(one, two)
