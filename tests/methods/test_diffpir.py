"""DiffPIR: the data step, the limits in which it is known, and the noise that it keeps."""

from __future__ import annotations

import paths
import pytest
import tiny
import torch


def test_one_step_is_one_call_of_the_prior_and_the_data_step():
    problem, prior = paths.problem(known=0.5), paths.Counting()
    method = paths.build("diffpir", problem, prior, iterations=1, start_level=2.0, pir_lambda=3.0)
    rng = tiny.rng(0)
    x = method.init(rng=rng).x
    (image,) = paths.run(method)
    assert prior.levels == [pytest.approx(2.0)]
    clean = prior.denoise(x[None], 2.0)[0]
    pull, known = 3.0 * (paths.NOISE / 2.0) ** 2, problem.known.float()
    torch.testing.assert_close(image, (known * problem.y + pull * clean) / (known + pull))


def test_it_starts_at_the_data_with_noise():
    problem = paths.problem(128)
    x = paths.build("diffpir", problem).init(rng=tiny.rng(0)).x
    assert float(x.mean()) == pytest.approx(paths.VALUE, abs=5 * 4.0 / 128)
    assert float(x.std()) == pytest.approx(4.0, rel=0.03)


def test_data_without_noise_are_returned():
    image = paths.run(paths.build("diffpir", paths.problem(noise=1e-6)))[-1]
    torch.testing.assert_close(image, torch.full_like(image, paths.VALUE), rtol=0, atol=1e-4)


def test_missing_entries_alone_come_from_the_prior():
    problem = paths.problem(noise=1e-6, known=0.5)
    image = paths.run(paths.build("diffpir", problem))[-1]
    torch.testing.assert_close(image[problem.known], problem.y[problem.known], rtol=0, atol=1e-4)
    assert float(image[~problem.known].std()) > 0.05


def test_without_new_noise_only_the_start_is_random():
    method = paths.build("diffpir", paths.problem(known=0.5), pir_zeta=0.0, iterations=6)
    state = method.init(rng=tiny.rng(0))
    one, _ = method.step(state, rng=tiny.rng(1))
    two, _ = method.step(state, rng=tiny.rng(2))
    assert torch.equal(one.x, two.x)


def test_noise_is_kept_and_drawn_by_its_share_at_the_level_below():
    """x' - x0' = sigma' (sqrt(1 - zeta) eps + sqrt(zeta) N), of which eps is known."""
    zeta, problem = 0.3, paths.problem(256)
    method = paths.build("diffpir", problem, pir_zeta=zeta, iterations=6)
    state = method.init(rng=tiny.rng(0))
    after, info = method.step(state, rng=tiny.rng(1))
    sigma, lower = method.levels[:2]
    kept = (1 - zeta) ** 0.5 * (state.x - info.image) / sigma
    drawn = (after.x - info.image) / lower - kept
    assert float(drawn.mean()) == pytest.approx(0, abs=0.01)
    assert float(drawn.var()) == pytest.approx(zeta, rel=0.03)


def test_levels_fall_to_zero_and_most_are_low():
    method = paths.build("diffpir", paths.problem())
    assert method.length == 20
    assert list(method.levels) == sorted(method.levels, reverse=True)
    assert (method.levels[0], method.levels[-1]) == (pytest.approx(4.0), 0.0)
    assert method.levels[10] < 0.6 * paths.build("ddrm", paths.problem()).levels[10]


def test_a_gaussian_picture_is_denoised_towards_its_posterior_mean():
    """With lambda = 1 and many steps, an observed entry ends near p^2 y / (p^2 + s^2)."""
    image = paths.run(paths.build("diffpir", paths.problem(64), iterations=300))[-1]
    expected = paths.STD**2 * paths.VALUE / (paths.STD**2 + paths.NOISE**2)
    assert float(image.mean()) == pytest.approx(expected, abs=0.05)
