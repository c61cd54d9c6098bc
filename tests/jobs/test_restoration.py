"""Restorations for notebooks and other tools; images of every kind in; progress and cancellation."""

from __future__ import annotations

import io
import re
import threading
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from diffbcp_cli import Progress, denoise, denoise_many, inpaint, inpaint_many
from diffbcp_cli.cli.app import run
from diffbcp_cli.errors import InputError, MaskError, UsageError
from diffbcp_cli.jobs.images import as_array

QUICK = {"prior": "none", "method": "diffbcp", "iterations": 6, "burn_in": 2, "rank": 3, "thin": 1}
CHAIN = {**QUICK, "sampler": "split-gibbs"}


def photograph(shape=(20, 24, 3)):
    rng = np.random.default_rng(0)
    return (rng.random(shape) * 200 + 20).astype(np.uint8)


def half():
    return np.random.default_rng(1).random((20, 24)) < 0.5


# --- what comes in ---------------------------------------------------------------------------------------


def test_every_kind_of_image_is_the_same_image(tmp_path):
    array = photograph()
    data = io.BytesIO()
    Image.fromarray(array).save(data, "PNG")
    (tmp_path / "a.png").write_bytes(data.getvalue())
    kinds = {
        "pil": Image.fromarray(array),
        "bytes": data.getvalue(),
        "path": tmp_path / "a.png",
        "tensor": torch.from_numpy(array).permute(2, 0, 1),
        "tensor as an array": torch.from_numpy(array),
        "list": array.tolist(),
    }
    for name, image in kinds.items():
        assert np.array_equal(as_array(image), array), name
    results = [
        inpaint(image, half(), method="telea").mean for image in (array, kinds["pil"], kinds["tensor"])
    ]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "I;16", "F", "CMYK"])
def test_pil_images_of_every_mode(mode):
    image = Image.fromarray(photograph((20, 24)))
    image = (
        Image.fromarray(photograph((20, 24)).astype(np.uint16) * 257)
        if mode == "I;16"
        else image.convert(mode)
    )
    array = as_array(image)
    assert array.shape[:2] == (20, 24)
    assert array.ndim == 2 or array.shape[2] == 3
    assert array.dtype in (np.uint8, np.uint16, np.float32)


def test_known_and_mask_are_opposites_and_one_of_them_is_wanted():
    array, known = photograph(), half()
    white = Image.fromarray(np.where(known, 0, 255).astype(np.uint8))
    wanted = inpaint(array, known, method="telea").mean
    for mask in (~known, white, np.asarray(white)):
        assert np.array_equal(inpaint(array, mask=mask, method="telea").mean, wanted)
    for wrong in ({}, {"known": known, "mask": ~known}):
        with pytest.raises(MaskError, match="either known= or mask="):
            inpaint(array, method="telea", **wrong)
    with pytest.raises(MaskError):
        inpaint(array, known=np.asarray(white), method="telea")  # 255 says nothing about what is known


def test_bytes_that_are_no_picture_are_said():
    with pytest.raises(InputError, match="is not an image"):
        denoise(b"nothing")


def test_fast_is_the_preset():
    found = denoise(photograph(), prior="none", method="nlm", sigma=0.1, fast=True)
    assert found.options.preset == "fast"
    with pytest.raises(UsageError, match="two presets"):
        denoise(photograph(), fast=True, preset="paper")


# --- batches, progress, cancellation ---------------------------------------------------------------------


def test_a_batch_gives_what_each_gives_alone():
    images = np.stack([photograph(), 255 - photograph()])
    known = np.stack([half(), ~half()])
    several = list(inpaint_many(images, known, **QUICK))
    for found, image, one in zip(several, images, known, strict=True):
        assert np.array_equal(found.mean, inpaint(image, one, **QUICK).mean)
    assert len(list(denoise_many(list(images), **QUICK))) == 2
    masked = list(inpaint_many(images, mask=~known, method="telea"))
    assert np.array_equal(masked[1].mean, inpaint(images[1], known[1], method="telea").mean)


def test_progress_is_told_and_the_caller_can_stop():
    told: list[Progress] = []
    stop = threading.Event()

    def tell(at):
        told.append(at)
        if at.done == 3:
            stop.set()

    found = denoise(photograph(), progress=tell, cancel=stop.is_set, **CHAIN)
    assert [at.done for at in told if at.stage == "sampling"] == [0, 1, 2, 3]
    assert not found.finished
    assert found.mean.shape == (20, 24, 3)
    assert list(denoise_many([photograph()], cancel=stop.is_set, **CHAIN)) == []


# --- what comes out --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chains():
    return inpaint(photograph(), half(), chains=2, save=["samples", "factors"], **CHAIN)


def pictures_in(page: str) -> list[Image.Image]:
    return [Image.open(io.BytesIO(b64decode(data))) for data in re.findall(r"base64,([^\"]+)\"", page)]


@pytest.mark.parametrize("shape", [(20, 24), (20, 24, 1), (20, 24, 3)])
def test_a_notebook_shows_before_and_after_and_the_uncertainty(shape):
    found = inpaint(photograph(shape), half(), **QUICK)
    grey = len(shape) < 3 or shape[2] == 1
    after, before, _ = pictures_in(found._repr_html_())
    assert after.size == before.size
    corner = tuple(map(int, photograph(shape).reshape(20, 24, -1)[0, 0]))
    assert before.getpixel((0, 0)) == corner * (3 if grey else 1)
    assert "% filled" in found._repr_html_()
    assert Image.open(io.BytesIO(found._repr_png_())).width > 3 * 480
    assert np.array_equal(np.asarray(found.image), found.mean.reshape(20, 24) if grey else found.mean)


@pytest.mark.browser
def test_the_slider_uncovers_the_picture(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(inpaint(photograph(), half(), method="telea")._repr_html_(), encoding="utf-8")
    browser.get(page.as_uri())
    move = """const slider = document.querySelector('input');
        slider.value = 20; slider.dispatchEvent(new Event('input'));
        return getComputedStyle(document.querySelector('img[alt=before]')).clipPath"""
    assert browser.execute_script(move) == "inset(0px 80% 0px 0px)"


def test_a_method_without_uncertainty_is_shown_too():
    found = inpaint(photograph(), half(), method="telea")
    assert len(pictures_in(found._repr_html_())) == 2
    assert found._repr_png_()


def test_draws_are_sorted_by_chain(chains):
    assert chains.samples.shape == (8, 20, 24, 3)
    assert chains.by_chain().shape == (2, 4, 20, 24, 3)
    assert np.array_equal(chains.by_chain()[1], chains.samples[4:])
    turns = replace(chains, owners=(0, 0, 1, 1, 0, 1, 0, 0), samples=np.arange(8.0)[:, None, None, None])
    assert turns.by_chain()[..., 0, 0, 0].tolist() == [[0, 1, 4], [2, 3, 5]]  # one chain has fewer


def test_the_order_of_draws_is_that_of_a_run_that_was_extended():
    """Each draw lies nearest to the picture that its own chain had at its last step."""
    options = {
        **CHAIN,
        "iterations": 4,
        "until_converged": True,
        "max_iterations": 6,
        "chains": 2,
        "save": ["samples"],
    }
    found = denoise(photograph(), **options)
    steps = found.trace.steps
    assert found.by_chain().shape[:2] == (2, steps - 2)
    for chain, trace in enumerate(found.traces):
        assert found.by_chain()[chain].mean(axis=(1, 2, 3)) == pytest.approx(
            trace["brightness"][2:], abs=1e-4
        )


def test_xarray_keeps_chains_draws_and_pixels(chains):
    pytest.importorskip("xarray")
    data = chains.to_xarray()
    assert dict(data.sizes) == {"y": 20, "x": 24, "channel": 3, "chain": 2, "draw": 4, "iteration": 6}
    assert np.array_equal(data["samples"].values, chains.by_chain())
    assert np.allclose(data["mean"].values, chains.mean / 255)
    assert data["noise_std"].dims == ("chain", "iteration")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning", "ignore::UserWarning")
def test_arviz_takes_the_draws(chains):
    arviz = pytest.importorskip("arviz")
    data = chains.to_arviz()
    assert data.posterior["image"].dims == ("chain", "draw", "y", "x", "channel")
    assert data.posterior["noise_std"].shape == (2, 4)
    assert np.array_equal(data.posterior["image"].values, chains.by_chain())
    assert float(arviz.rhat(data.posterior["noise_std"])["noise_std"]) > 0
    with pytest.raises(UsageError, match="no draws"):
        denoise(photograph(), **QUICK).to_arviz()


def test_factors_make_the_tensor(chains, tmp_path):
    first = chains.factors[0]
    rank = len(first["weights"])
    assert {name: value.shape[-1] for name, value in first.items() if name.startswith(("left", "right"))}
    assert all(value.shape[1] == rank for name, value in first.items() if name.startswith(("left", "right")))
    assert {"cusp.shrinkage", "cusp.allocation", "cusp.sticks"} <= set(first)
    Image.fromarray(photograph()).save(tmp_path / "a.png")
    command = [
        "denoise",
        str(tmp_path / "a.png"),
        "-o",
        str(tmp_path),
        "--save",
        "factors",
        "-q",
        "--prior",
        "none",
    ]
    more = ["--sampler", "split-gibbs", "--iterations", "4", "--burn-in", "2", "--rank", "3"]
    assert run([*command, *more]) == 0
    assert "chain0.weights" in np.load(tmp_path / "a.factors.npz")


def test_no_factors_of_a_method_without_a_tensor(recwarn):
    assert inpaint(photograph(), half(), method="telea", save=["factors"]).factors == ()
