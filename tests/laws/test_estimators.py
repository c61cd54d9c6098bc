"""Laws of every estimator: known pixels come out unchanged when asked, and it says what it is made of.

An estimator joins by an entry in EXAMPLES: options that lead to it.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import numpy as np
import pytest
import torch
from conftest import picture

import diffbcp_cli.estimators
from diffbcp_cli import estimators
from diffbcp_cli.jobs.session import restore
from diffbcp_cli.operators.mask import masked_problem
from diffbcp_cli.options import Options
from diffbcp_cli.priors.gaussian import GaussianPrior
from diffbcp_cli.random import Seeds
from diffbcp_cli.watch import Watch

EXAMPLES = {
    "PosteriorMean": {"finish": 0},
    "Refined": {"finish": 2},
    "Calibrated": {"finish": 2, "calibrate": True},
    "Calibrated: plain": {"finish": 0, "calibrate": True},
}
every_estimator = pytest.mark.parametrize("name", EXAMPLES)
PRIOR = GaussianPrior(torch.zeros(()), torch.tensor(0.25))


def options_of(name, **more):
    base = {
        "sampler": "split-gibbs",
        "iterations": 6,
        "burn_in": 3,
        "rank": 4,
        "patch_size": 8,
        "stride": 4,
        "device": "cpu",
    }
    return Options(**{**base, **EXAMPLES[name], **more})


def damaged(share=0.5):
    pixels = picture(24, 28).astype(np.float32)
    return pixels, np.random.default_rng(1).random(pixels.shape) < share


def estimator_classes():
    """Every class of the package that sums up a posterior of a problem."""
    for module in pkgutil.iter_modules(diffbcp_cli.estimators.__path__, "diffbcp_cli.estimators."):
        found = importlib.import_module(module.name)
        for name, one in inspect.getmembers(found, inspect.isclass):
            fields = getattr(one, "__annotations__", {})
            sums_up = "__call__" in vars(one) and ("shown" in vars(one) or "shown" in fields)
            if one.__module__ == module.name and sums_up and not getattr(one, "_is_protocol", False):
                yield name


def test_every_estimator_has_an_example():
    assert {name.split(":")[0] for name in EXAMPLES} == set(estimator_classes())


@every_estimator
def test_the_options_lead_to_it(name):
    pixels, observed = damaged()
    problem = masked_problem(pixels, observed)
    built = estimators.build(problem, PRIOR, options_of(name), Seeds(0, ""), Watch(), values=pixels)
    assert type(built).__name__ == name.split(":")[0]


@every_estimator
def test_the_method_sees_only_known_pixels(name):
    pixels, observed = damaged()
    problem = masked_problem(pixels, observed)
    shown = estimators.build(problem, PRIOR, options_of(name), Seeds(0, ""), Watch(), values=pixels).shown
    assert bool((shown.known <= problem.known).all())
    assert torch.equal(shown.y, torch.where(shown.known, problem.y, 0))


@every_estimator
def test_known_pixels_come_out_byte_for_byte_when_asked(name):
    pixels, observed = damaged()
    found = restore(pixels, observed, options_of(name, observed="keep"), prior=PRIOR)
    assert found.mean[observed].tobytes() == pixels[observed].tobytes()
    assert not found.std[observed].any()
    free = restore(pixels, observed, options_of(name), prior=PRIOR)
    np.testing.assert_array_equal(found.mean[~observed], free.mean[~observed])
    np.testing.assert_array_equal(found.std[~observed], free.std[~observed])
    assert not np.array_equal(free.mean[observed], pixels[observed])


@every_estimator
def test_it_is_finite_and_certain_of_nothing(name):
    found = restore(*damaged(), options_of(name), prior=PRIOR)
    assert np.isfinite(found.mean).all()
    assert np.isfinite(found.std).all()
    assert (found.std > 0).all()
