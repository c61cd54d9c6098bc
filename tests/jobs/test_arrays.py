"""Arrays in, arrays of the same shape and type out; what does not fit is said."""

from __future__ import annotations

import doctest
import typing

import numpy as np
import pytest
import torch

import diffbcp_cli
from diffbcp_cli import denoise, inpaint
from diffbcp_cli.errors import DiffbcpError, InputError, MaskError, UsageError
from diffbcp_cli.jobs import arrays as api
from diffbcp_cli.priors.gaussian import GaussianPrior

QUICK = {"prior": "none", "iterations": 6, "burn_in": 3, "rank": 3, "device": "cpu"}


def photograph(shape=(20, 24, 3)):
    down, across = np.linspace(0.2, 0.9, shape[0]), np.linspace(1.0, 0.5, shape[1])
    image = down[:, None] * across[None, :]
    return image if len(shape) == 2 else image[:, :, None] * np.linspace(1, 0.7, shape[2])


def half(shape, seed=0):
    return np.random.default_rng(seed).random(shape) < 0.5


def as_type(image, dtype):
    dtype = np.dtype(dtype)
    return image.astype(dtype) if dtype.kind == "f" else np.rint(image * np.iinfo(dtype).max).astype(dtype)


# --- types and shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float16, np.float32, np.float64])
@pytest.mark.parametrize("call", ["inpaint", "denoise"])
def test_the_mean_has_the_type_of_the_image(dtype, call):
    image = as_type(photograph(), dtype)
    before = image.copy()
    result = inpaint(image, half((20, 24)), **QUICK) if call == "inpaint" else denoise(image, **QUICK)
    assert result.mean.dtype == dtype
    assert result.mean.shape == image.shape
    assert result.std.dtype == np.float32
    assert result.std.shape == image.shape
    assert (result.std >= 0).all()
    assert np.array_equal(image, before)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_the_scale_of_a_type_is_its_own(dtype):
    """The same image in whole numbers and in floats is restored alike."""
    image, mask = as_type(photograph(), dtype), half((20, 24))
    top = np.iinfo(dtype).max
    whole, floats = inpaint(image, mask, **QUICK), inpaint(image / np.float32(top), mask, **QUICK)
    np.testing.assert_allclose(whole.mean / top, floats.mean.clip(0, 1), atol=1 / top)
    np.testing.assert_allclose(whole.std, floats.std, atol=1e-6)


@pytest.mark.parametrize("shape", [(20, 24), (20, 24, 1), (20, 24, 3), (16, 16), (17, 31)])
def test_grey_and_colour_keep_their_shape(shape):
    result = inpaint(photograph(shape), half(shape[:2]), **QUICK)
    assert result.mean.shape == result.std.shape == shape


def test_two_shapes_of_grey_are_the_same_image():
    mask = half((20, 24))
    flat, deep = (inpaint(photograph((20, 24)).reshape(s), mask, **QUICK) for s in ((20, 24), (20, 24, 1)))
    assert np.array_equal(flat.mean, deep.mean[:, :, 0])


def test_a_mask_may_be_per_pixel_or_per_entry_and_of_any_kind_of_truth():
    image, mask = photograph(), half((20, 24))
    results = [
        inpaint(image, m, **QUICK).mean
        for m in (mask, mask[:, :, None], np.repeat(mask[:, :, None], 3, 2), mask.astype(int), mask.tolist())
    ]
    assert all(np.array_equal(results[0], other) for other in results[1:])
    assert not np.array_equal(inpaint(image, half((20, 24, 3)), **QUICK).mean, results[0])


def test_lists_are_images_too():
    result = denoise(photograph((16, 16)).tolist(), **QUICK)
    assert result.mean.shape == (16, 16)


def test_samples_come_when_they_are_asked_for():
    image, mask = photograph((20, 24)), half((20, 24))
    assert inpaint(image, mask, **QUICK).samples is None
    samples = inpaint(image, mask, **QUICK, thin=2, save=("samples",)).samples
    assert samples.shape == (2, 20, 24)
    assert samples.dtype == np.float32


def test_known_pixels_can_be_kept():
    image, mask = as_type(photograph(), np.uint8), half((20, 24, 3))
    result = inpaint(image, mask, **QUICK, observed="keep")
    assert np.array_equal(result.mean[mask], image[mask])
    assert (result.std[mask] == 0).all()
    assert (result.std[~mask] > 0).all()
    assert not np.array_equal(inpaint(image, mask, **QUICK).mean[mask], image[mask])


def test_whole_numbers_do_not_wrap_around():
    image = np.full((16, 16), 255, np.uint8)
    image[::2] = 250
    result = denoise(image, **QUICK)
    assert result.mean.min() > 200


def test_every_step_is_traced():
    result = inpaint(photograph(), half((20, 24)), **QUICK)
    trace = result.trace
    assert {len(getattr(trace, n)) for n in ("noise_std", "rank", "active_rank", "rho", "change")} == {6}
    assert result.noise["lower"] <= result.noise["std"] <= result.noise["upper"]


# --- seeds and priors ------------------------------------------------------------------------------------


def test_the_seed_fixes_the_result_and_global_generators_are_left_alone():
    image, mask = photograph(), half((20, 24))
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    one, two = (inpaint(image, mask, **QUICK, seed=5) for _ in range(2))
    assert np.array_equal(one.mean, two.mean)
    assert np.array_equal(one.std, two.std)
    assert one.trace == two.trace
    assert not np.array_equal(one.mean, inpaint(image, mask, **QUICK, seed=6).mean)
    assert np.array_equal(np.random.get_state()[1], state)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_a_prior_of_ones_own():
    prior = GaussianPrior(torch.zeros(()), torch.tensor(0.2))
    options = {**QUICK, "prior": prior, "iterations": 8}
    result = inpaint(photograph(), half((20, 24)), **options)
    assert result.trace.rho[-1] is not None
    without = inpaint(photograph(), half((20, 24)), **{**options, "prior": "none"})
    assert without.trace.rho == [None] * 8
    assert not np.array_equal(result.mean, without.mean)


# --- what does not fit -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "image",
    [
        np.zeros(30),
        np.zeros((20, 20, 2)),
        np.zeros((20, 20, 4)),
        np.zeros((2, 20, 20, 3)),
        np.zeros((0, 0)),
        np.zeros((20, 20), int),
        np.zeros((20, 20), bool),
        np.zeros((20, 20), complex),
        np.full((20, 20), "a"),
        np.zeros((15, 40)),
        np.zeros((3, 900)),
        np.full((20, 20), 128.0),
        np.full((20, 20), -3.0),
        np.full((20, 20), np.nan),
        np.full((20, 20), np.inf),
    ],
    ids=lambda image: f"{image.dtype} {image.shape}",
)
def test_what_is_not_an_image_is_an_input_error(image):
    with pytest.raises(InputError):
        denoise(image, **QUICK)


@pytest.mark.parametrize(
    "mask",
    [
        np.ones((20, 23), bool),
        np.ones((24, 20), bool),
        np.ones((20, 24, 2), bool),
        np.ones((3, 20, 24), bool),
        np.ones(20, bool),
        np.zeros((20, 24), bool),
        np.full((20, 24), 255, np.uint8),
        np.full((20, 24), 0.5),
        np.full((20, 24), np.nan),
    ],
    ids=lambda mask: f"{mask.dtype} {mask.shape} {mask.flat[0]}",
)
def test_a_mask_that_does_not_fit_is_a_mask_error(mask):
    with pytest.raises(MaskError):
        inpaint(photograph(), mask, **QUICK)


def test_a_mask_per_colour_does_not_fit_a_grey_image():
    with pytest.raises(MaskError, match="does not fit"):
        inpaint(photograph((20, 24)), np.ones((20, 24, 3), bool), **QUICK)


def test_values_that_are_no_numbers_may_hide_behind_the_mask_only():
    image, mask = photograph(), half((20, 24))
    image[~mask] = np.nan
    assert np.isfinite(inpaint(image, mask, **QUICK).mean).all()
    image[np.nonzero(mask)[0][0], np.nonzero(mask)[1][0]] = np.inf
    with pytest.raises(InputError, match="NaN or infinite"):
        inpaint(image, mask, **QUICK)


@pytest.mark.parametrize(
    "options", [{"iteration": 5}, {"burn_in": 6}, {"rank": 0}, {"device": "toaster"}, {"tensorize": "x"}]
)
def test_an_option_that_cannot_be_used_is_a_usage_error(options):
    with pytest.raises(UsageError):
        denoise(photograph(), **{**QUICK, **options})


# --- the package -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [inpaint, denoise])
def test_types_can_be_looked_up_by_tools_that_need_them(call):
    hints = typing.get_type_hints(call)
    assert hints["return"] is diffbcp_cli.Restoration
    assert "image" in hints


def test_the_package_has_its_names():
    assert set(diffbcp_cli.__all__) <= set(dir(diffbcp_cli))
    assert diffbcp_cli.inpaint is api.inpaint
    assert diffbcp_cli.DiffbcpError is DiffbcpError
    with pytest.raises(AttributeError, match="nothing"):
        _ = diffbcp_cli.nothing


@pytest.mark.slow
@pytest.mark.parametrize("module", [api, diffbcp_cli], ids=lambda module: module.__name__)
def test_the_examples_in_the_documentation_run(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
