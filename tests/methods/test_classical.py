"""Telea, Navier-Stokes, biharmonic, non-local means and BM3D: what is exact about them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from conftest import picture
from sampling import Listener, damaged

from diffbcp_cli.errors import UsageError
from diffbcp_cli.jobs.arrays import inpaint
from diffbcp_cli.jobs.session import Resume, restore
from diffbcp_cli.options import check, resolve, to_mapping

FILLING = ["telea", "navier-stokes", "biharmonic"]
CLEANING = ["nlm", "bm3d"]


def run(method, pixels, observed, watch=None, **options):
    given = check({"method": method, "device": "cpu", **options})
    return restore(pixels.astype(np.float32), observed, given, prior=None, watch=watch)


def error(method, pixels, observed):
    return np.abs(run(method, pixels, observed).mean - pixels).max()


def holes(shape, share=0.5):
    return np.random.default_rng(3).random(shape) >= share


@pytest.mark.parametrize("method", FILLING)
def test_known_entries_stay_as_they_are_and_gaps_are_filled(method):
    pixels, observed = damaged()
    found = run(method, pixels, observed)
    np.testing.assert_allclose(found.mean[observed], pixels[observed], atol=1e-6)
    clean = picture(32, 40)
    grey = np.abs(clean - 0.5)[~observed].mean()
    assert np.abs(found.mean - clean)[~observed].mean() < grey / 3
    assert found.std is None
    assert (found.options.iterations, found.numbers["draws"], found.options.prior) == (1, 1, "none")


@pytest.mark.parametrize("method", FILLING)
def test_each_channel_is_filled_by_its_own_mask(method):
    pixels, observed = damaged()
    assert (observed[..., 0] != observed[..., 1]).any()
    together = run(method, pixels, observed).mean
    for channel in range(3):
        alone = run(method, pixels[..., channel : channel + 1], observed[..., channel : channel + 1]).mean
        np.testing.assert_allclose(together[..., channel : channel + 1], alone, atol=1e-6)


def test_the_biharmonic_surface_through_a_plane_is_the_plane():
    down, across = np.mgrid[:24, :24] / 24
    plane = np.repeat((0.1 + 0.3 * down + 0.5 * across)[..., None], 3, 2)
    observed = np.ones(plane.shape, bool)
    observed[8:15, 9:14, 0] = observed[5:7, 5:9, 2] = False
    assert error("biharmonic", plane, observed) < 1e-5


def test_navier_stokes_fills_a_constant_with_itself():
    flat = np.full((24, 24, 3), 0.3)
    assert error("navier-stokes", flat, holes(flat.shape)) < 1e-5


@pytest.mark.parametrize("method", FILLING)
def test_a_channel_of_which_nothing_is_known_has_the_mean_of_the_rest(method):
    pixels, observed = damaged()
    observed = observed.copy()
    observed[..., 1] = False
    found = run(method, pixels, observed)
    np.testing.assert_allclose(found.mean[..., 1], pixels[observed].mean(), atol=1e-5)


@pytest.mark.parametrize("method", CLEANING)
@pytest.mark.parametrize("channels", [1, 3])
def test_noise_goes_and_a_constant_stays(method, channels):
    noise = np.random.default_rng(0).normal(0, 0.05, (64, 64, channels))
    observed = np.ones(noise.shape, bool)
    found = run(method, 0.5 + noise, observed, sigma=0.05)
    assert found.std is None
    assert found.noise["std"] == pytest.approx(0.05)
    assert np.abs(found.mean - 0.5).mean() < np.abs(noise).mean() / 3
    flat = run(method, np.full(noise.shape, 0.4), observed, sigma=0.05)
    np.testing.assert_allclose(flat.mean, 0.4, atol=1e-4)


@pytest.mark.parametrize("method", CLEANING)
def test_what_is_missing_is_filled_before_noise_is_removed(method):
    pixels, observed = damaged()
    found, clean = run(method, pixels, observed, sigma=0.02), picture(32, 40)
    assert np.abs(found.mean - clean)[~observed].mean() < np.abs(clean - 0.5)[~observed].mean() / 3


@pytest.mark.parametrize(("method", "module"), [("bm3d", "bm3d"), ("biharmonic", "skimage.restoration")])
def test_a_missing_package_is_named_with_what_to_install(method, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    pixels, observed = damaged()
    options = {"sigma": 0.02} if method == "bm3d" else {}
    with pytest.raises(UsageError, match=f"--method {method} needs") as caught:
        run(method, pixels, observed, **options)
    assert caught.value.hint == f"pip install 'diffbcp[{method}]'"


def test_the_licence_of_bm3d_is_said():
    pixels, observed = damaged()
    watch = Listener()
    run("bm3d", pixels, observed, watch, sigma=0.02)
    assert any("non-commercial" in note for note in watch.notes)


def test_a_prior_or_an_option_without_use_is_refused():
    with pytest.raises(UsageError, match="has no use for a prior"):
        resolve({"method": "telea", "prior": "natural"})
    with pytest.raises(UsageError, match="--rank is an option of"):
        resolve({"method": "telea", "rank": 5})
    assert resolve({"method": "telea"}).prior == resolve({"method": "telea", "prior": "none"}).prior == "none"
    assert resolve(to_mapping(resolve({"method": "telea"}))) == resolve({"method": "telea"})


def test_without_a_noise_level_or_a_prior_to_find_it_there_is_a_sentence():
    with pytest.raises(UsageError, match="needs the noise level"):
        resolve({"method": "nlm", "prior": "none"})


def test_the_library_call_needs_no_word_about_the_prior():
    pixels, observed = damaged()
    found = inpaint(pixels, observed, method="navier-stokes", inpaint_radius=2.0)
    assert np.isfinite(found.mean).all()


def test_a_finished_step_resumes():
    pixels, observed = damaged()
    given = check({"method": "telea", "device": "cpu", "chains": 2})
    saved = []
    restore(
        pixels,
        observed,
        given,
        prior=None,
        watch=Listener(stop_after=0),
        resume=Resume(save=saved.append),
    )
    again = restore(pixels, observed, given, prior=None, resume=Resume(saved[-1]))
    np.testing.assert_array_equal(again.mean, restore(pixels, observed, given, prior=None).mean)
